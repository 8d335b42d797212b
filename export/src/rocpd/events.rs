//! Events: what each record says besides its times. Those of samples are there once for each call stack.

use std::collections::HashMap;

use super::insert;
use crate::Failure;
use crate::json::Quoted;
use crate::sqlite::{Bulk, Rows};
use crate::stacks::Stacks;

pub(super) struct Events<'d> {
    stacks: &'d Stacks,
    add: Rows<'d, 7>,
    count: i64,
    /// By category and call stack.
    of_samples: HashMap<(i64, usize), i64>,
    /// Call stacks and lines in JSON, by the stack's row.
    told: HashMap<usize, (String, String)>,
}

/// Call stacks that are kept as JSON at once: most calls are made from few places.
const TOLD: usize = 1 << 14;
/// Of what has no call stack.
const NONE: &str = "{}";

impl<'d> Events<'d> {
    pub(super) fn new(bulk: &'d Bulk, suffix: &str, stacks: &'d Stacks) -> Result<Self, Failure> {
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
            add: insert(bulk, suffix, "event", columns)?,
            count: 0,
            of_samples: HashMap::new(),
            told: HashMap::new(),
        })
    }

    /// An event of a record; operations and their calls have the same correlation.
    pub(super) fn put(
        &mut self,
        category: i64,
        correlation: Option<u64>,
        stack: usize,
    ) -> Result<i64, Failure> {
        self.count += 1;
        let correlation = correlation.map_or(0, u64::cast_signed);
        let (frames, line) = match self.stacks.is_empty(stack) {
            true => (NONE, NONE),
            false => {
                if !self.told.contains_key(&stack) {
                    if self.told.len() == TOLD {
                        self.told.clear();
                    }
                    self.told.insert(stack, told(self.stacks, stack));
                }
                let told = self.told.get(&stack);
                told.map_or((NONE, NONE), |(frames, line)| (frames, line))
            }
        };
        self.add.put([
            self.count.into(),
            category.into(),
            correlation.into(),
            0_u64.into(),
            correlation.into(),
            frames.into(),
            line.into(),
        ])?;
        Ok(self.count)
    }

    /// Writes the last events.
    pub(super) fn finish(self) {
        self.add.finish();
    }

    /// The event of samples with a call stack.
    pub(super) fn of_stack(&mut self, category: i64, stack: usize) -> Result<i64, Failure> {
        if let Some(&id) = self.of_samples.get(&(category, stack)) {
            return Ok(id);
        }
        let id = self.put(category, None, stack)?;
        self.of_samples.insert((category, stack), id);
        Ok(id)
    }
}

/// A call stack in JSON, innermost function first, and the line of that function.
fn told(stacks: &Stacks, stack: usize) -> (String, String) {
    let mut frames = String::from("[");
    for frame in stacks.frames(stack) {
        let between = if frames.len() > 1 { "," } else { "" };
        frames += &format!("{between}{{\"function\":{}", Quoted(frame.function));
        for (key, value) in [("module", frame.module), ("source", frame.source)] {
            if !value.is_empty() {
                frames += &format!(",\"{key}\":{}", Quoted(value));
            }
        }
        if frame.line > 0 {
            frames += &format!(",\"line\":{}", frame.line);
        }
        frames.push('}');
    }
    frames.push(']');
    let frame = stacks.frame(stack);
    let line = match frame.source {
        "" => NONE.to_owned(),
        source => format!("{{\"source\":{},\"line\":{}}}", Quoted(source), frame.line),
    };
    (frames, line)
}
