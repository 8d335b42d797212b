//! Counters: events of the phase `C`.

use std::collections::HashMap;

use crate::model::{Batch, Counter, CounterId, CounterValue, Model, ProcessId, TextId};
use crate::read::json::syntax::{members, value};
use crate::read::json::text::{intern, unescaped};

/// The unit in our own files of what has none.
const NO_UNIT: &str = "value";

/// What tells counters of a file apart: the process, then category, name, id and argument.
type Key = (ProcessId, [TextId; 4]);

/// Counters of a file.
#[derive(Debug, Default)]
pub(super) struct Counters(HashMap<Key, CounterId>);

impl Counters {
    /// Takes in the values of an event: with its category, name and id, and where its arguments begin in bytes that were read before.
    pub(super) fn take(
        &mut self,
        (process, time_ns): (ProcessId, u64),
        told: [&[u8]; 3],
        (bytes, at): (&[u8], usize),
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let [category, name, id] = told.map(|text| intern(text, &mut model.texts));
        let read = members(bytes, at, |key, at| {
            let (span, behind) = value(bytes, at)?;
            let number = str::from_utf8(span.of(bytes)).ok();
            let number = number.and_then(|text| text.trim().parse::<f64>().ok());
            if let Some(value) = number.filter(|value| value.is_finite()) {
                let unit = intern(key, &mut model.texts);
                let counter = self
                    .0
                    .entry((process, [category, name, id, unit]))
                    .or_insert_with(|| add(process, told.map(unescaped), unescaped(key), model));
                batch.counters.push(CounterValue {
                    time_ns,
                    counter: *counter,
                    value,
                });
            }
            Ok(behind)
        });
        debug_assert!(read.is_ok());
    }
}

/// A counter that is new. The category of our own files is the group, with which the name begins.
fn add(
    process: ProcessId,
    [category, mut name, id]: [String; 3],
    unit: String,
    model: &mut Model,
) -> CounterId {
    // As Chrome shows it.
    if !id.is_empty() {
        name += &format!("[{id}]");
    }
    let own = name.strip_prefix(&category).map(str::trim_start);
    let (group, own) = match own.filter(|own| !category.is_empty() && !own.is_empty()) {
        Some(own) => (category.as_str(), own),
        None => ("", name.as_str()),
    };
    let unit = if unit == NO_UNIT { "" } else { &unit };
    model.counters.push(Counter {
        process,
        group: model.texts.intern(group),
        name: model.texts.intern(own),
        unit: model.texts.intern(unit),
    });
    CounterId::new(model.counters.len() - 1)
}
