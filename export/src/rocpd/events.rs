//! Events: what each record says besides its times. Those of samples are there once for each call stack.

use std::collections::HashMap;

use rusqlite::Connection;

use super::insert;
use crate::json::Quoted;
use crate::sqlite::Rows;
use crate::stacks::Stacks;

pub(super) struct Events<'d> {
    stacks: &'d Stacks,
    add: Rows<'d, 7>,
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
        let columns = [
            "id",
            "category_id",
            "stack_id",
            "parent_stack_id",
            "correlation_id",
            "call_stack",
            "line_info",
        ];
        Ok(Self {
            stacks,
            add: insert(database, suffix, "event", columns)?,
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
            true => (NONE.into(), NONE.into()),
            false => {
                let (frames, line) = self.told(stack);
                (frames.into(), line.into())
            }
        };
        self.add.put([
            self.count.into(),
            category.into(),
            correlation.into(),
            0_u64.into(),
            correlation.into(),
            frames,
            line,
        ])?;
        Ok(self.count)
    }

    /// Writes the last events.
    pub(super) fn finish(self) -> rusqlite::Result<()> {
        self.add.finish()
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
