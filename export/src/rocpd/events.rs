//! Events: what each record says besides its times. Those of samples are there once for each call stack.

use std::collections::HashMap;

use rusqlite::{Connection, Statement, params};

use crate::json::Quoted;
use crate::stacks::Stacks;

pub(super) struct Events<'d> {
    stacks: &'d Stacks,
    add: Statement<'d>,
    count: i64,
    /// By category and call stack.
    of_samples: HashMap<(i64, usize), i64>,
}

/// Of what has no call stack.
const NONE: &str = "{}";

impl<'d> Events<'d> {
    pub(super) fn new(
        database: &'d Connection,
        suffix: &str,
        stacks: &'d Stacks,
    ) -> rusqlite::Result<Self> {
        let add = format!(
            "insert into rocpd_event{suffix} (id, category_id, stack_id, parent_stack_id, correlation_id, call_stack, line_info)
             values (?, ?, ?, 0, ?, ?, ?)"
        );
        Ok(Self {
            stacks,
            add: database.prepare(&add)?,
            count: 0,
            of_samples: HashMap::new(),
        })
    }

    /// An event of a record; operations and their calls have the same correlation.
    pub(super) fn put(
        &mut self,
        category: i64,
        correlation: Option<u64>,
        stack: usize,
    ) -> rusqlite::Result<i64> {
        self.count += 1;
        let correlation = correlation.map_or(0, u64::cast_signed);
        let (frames, line) = match self.stacks.is_empty(stack) {
            true => (NONE.to_owned(), NONE.to_owned()),
            false => self.told(stack),
        };
        self.add.execute(params![
            self.count,
            category,
            correlation,
            correlation,
            frames,
            line
        ])?;
        Ok(self.count)
    }

    /// The event of samples with a call stack.
    pub(super) fn of_stack(&mut self, category: i64, stack: usize) -> rusqlite::Result<i64> {
        if let Some(&id) = self.of_samples.get(&(category, stack)) {
            return Ok(id);
        }
        let id = self.put(category, None, stack)?;
        self.of_samples.insert((category, stack), id);
        Ok(id)
    }

    /// A call stack in JSON, innermost function first, and the line of that function.
    fn told(&self, stack: usize) -> (String, String) {
        let frames = self.stacks.frames(stack).map(|frame| {
            let mut told = format!("{{\"function\":{}", Quoted(frame.function));
            for (key, value) in [("module", frame.module), ("source", frame.source)] {
                if !value.is_empty() {
                    told += &format!(",\"{key}\":{}", Quoted(value));
                }
            }
            if frame.line > 0 {
                told += &format!(",\"line\":{}", frame.line);
            }
            told + "}"
        });
        let frames: Vec<String> = frames.collect();
        let frame = self.stacks.frame(stack);
        let line = match frame.source {
            "" => NONE.to_owned(),
            source => format!("{{\"source\":{},\"line\":{}}}", Quoted(source), frame.line),
        };
        (format!("[{}]", frames.join(",")), line)
    }
}
