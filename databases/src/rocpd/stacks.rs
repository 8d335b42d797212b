//! The call stacks of calls, and those that launched kernels: `call_stack` of their events.

use std::collections::HashMap;

use rsys_traces::model::{Frame, Kinds, Model, StackId};
use serde_json::Value;

use super::{Query, Record, What, record};
use crate::stream::{Closed, Sink, columns, number, text};

/// Call stacks that are known at once: calls are made from few places.
const KNOWN: usize = 1 << 14;

/// Reads the rows of the tables of a process.
pub(super) fn rows(query: &Query<'_>, sink: &mut Sink<Record>, kinds: Kinds) -> Result<(), Closed> {
    let event = columns(query.database, &query.table("event"));
    if !kinds.samples || !event.iter().any(|one| one == "call_stack") {
        return Ok(());
    }
    // Most events of others have an empty object: then nothing is joined.
    let events = query.table("event");
    let any = format!("select exists(select 1 from {events} where call_stack like '[%{{%')");
    let any = query.database.query_row(&any, [], |row| row.get(0));
    if any.is_ok_and(|any: bool| !any) {
        return Ok(());
    }
    // A stack is one of a thread.
    let these = "where e.call_stack like '[%{%' and thread_of_stack is not null order by r.id";
    let thread = format!("{} thread_of_stack", query.thread());
    if query.has("region") {
        let sql = query.sql("region", "e.call_stack", &thread, these);
        sink.rows(query.database, "call stacks of rocpd_region", &sql, |row| {
            let tid = number(row, 7)?;
            record(row, What::Stack { tid, kernel: None })
        })?;
    }
    if query.has("kernel_dispatch") {
        let more = format!("{thread}, {}", query.kernel_name());
        let sql = query.sql("kernel_dispatch", "e.call_stack", &more, these);
        let what = "call stacks of rocpd_kernel_dispatch";
        sink.rows(query.database, what, &sql, |row| {
            let tid = number(row, 7)?;
            let kernel = Some(text(row, 8));
            record(row, What::Stack { tid, kernel })
        })?;
    }
    Ok(())
}

/// Call stacks that were met.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    of_calls: HashMap<String, Option<StackId>>,
    of_kernels: HashMap<String, Option<StackId>>,
}

impl Stacks {
    /// A call stack, or the one of a kernel that was launched from there; `None` if the text is none.
    pub(super) fn of(
        &mut self,
        told: &str,
        kernel: Option<&str>,
        model: &mut Model,
    ) -> Option<StackId> {
        // The outermost frames are those of our traces.
        let (known, clock) = match kernel {
            None => (&mut self.of_calls, "[calls]"),
            Some(_) => (&mut self.of_kernels, "[GPU]"),
        };
        let stack = match known.get(told) {
            Some(stack) => *stack,
            None => {
                if known.len() == KNOWN {
                    known.clear();
                }
                let stack = read(told, clock, model);
                known.insert(told.to_owned(), stack);
                stack
            }
        };
        match kernel {
            None => stack,
            Some(kernel) => Some(child(stack?, [kernel, "", ""], 0, model)),
        }
    }
}

/// A list of objects, the innermost function first.
fn read(told: &str, clock: &str, model: &mut Model) -> Option<StackId> {
    let frames: Vec<Value> = serde_json::from_str(told).ok()?;
    let mut stack = child(StackId::ROOT, [clock, "", ""], 0, model);
    for frame in frames
        .iter()
        .rev()
        .filter(|frame| frame["function"].is_string())
    {
        let texts = ["function", "module", "source"].map(|key| frame[key].as_str().unwrap_or(""));
        let line = frame["line"]
            .as_u64()
            .and_then(|line| u32::try_from(line).ok());
        stack = child(stack, texts, line.unwrap_or(0), model);
    }
    Some(stack)
}

fn child(caller: StackId, texts: [&str; 3], line: u32, model: &mut Model) -> StackId {
    let [function, mapping, source] = texts.map(|text| model.texts.intern(text));
    let frame = Frame {
        function,
        mapping,
        source,
        line,
    };
    let frame = model.stacks.frame_id(frame);
    model.stacks.child(caller, frame)
}
