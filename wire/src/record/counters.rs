//! The record of the events that a thread counts.

use super::{Kind, Record, header};
use crate::ring::Producer;

/// Words before the values.
const FIXED_WORDS: usize = 4;

/// Writes how often each of the thread's events has happened up to now, and for how long they were enabled and really counted: when
/// the processor has fewer counters than there are events, these take turns. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring only.
#[must_use]
pub fn put_counters(
    ring: &Producer<'_>,
    time_ns: u64,
    enabled_ns: u64,
    running_ns: u64,
    values: &[u64],
) -> bool {
    let words = FIXED_WORDS.wrapping_add(values.len());
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(header(Kind::Counters, 0, words));
    for word in [time_ns, enabled_ns, running_ns] {
        record.put(word);
    }
    for value in values {
        record.put(*value);
    }
    record.commit();
    true
}

/// What [`put_counters`] wrote.
pub(super) fn parse(body: &[u64]) -> Option<Record<'_>> {
    let [time_ns, enabled_ns, running_ns, values @ ..] = body else {
        return None;
    };
    Some(Record::Counters {
        time_ns: *time_ns,
        enabled_ns: *enabled_ns,
        running_ns: *running_ns,
        values,
    })
}
