//! Counters: events of the phase `C`.

use std::collections::HashMap;

use crate::model::{Batch, Counter, CounterId, CounterValue, Model, ProcessId, TextId};
use crate::read::json::syntax::{members, value};
use crate::read::json::text::{intern, unescaped};

/// The unit in our own files of what has none.
const NO_UNIT: &str = "value";

/// Counters of a file, by process, name and argument.
#[derive(Debug, Default)]
pub(super) struct Counters(HashMap<(ProcessId, TextId, TextId), CounterId>);

impl Counters {
    /// Takes in the values of an event: with its category and name, and where its arguments begin in bytes that were read before.
    pub(super) fn take(
        &mut self,
        (process, time_ns): (ProcessId, u64),
        [category, name]: [&[u8]; 2],
        (bytes, at): (&[u8], usize),
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let told = intern(name, &mut model.texts);
        let read = members(bytes, at, |key, at| {
            let (span, behind) = value(bytes, at)?;
            let number = str::from_utf8(span.of(bytes)).ok();
            let number = number.and_then(|text| text.trim().parse::<f64>().ok());
            if let Some(value) = number.filter(|value| value.is_finite()) {
                let unit = intern(key, &mut model.texts);
                let id = self.0.entry((process, told, unit)).or_insert_with(|| {
                    add(
                        process,
                        unescaped(category),
                        unescaped(name),
                        unescaped(key),
                        model,
                    )
                });
                batch.counters.push(CounterValue {
                    time_ns,
                    counter: *id,
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
    category: String,
    name: String,
    unit: String,
    model: &mut Model,
) -> CounterId {
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
