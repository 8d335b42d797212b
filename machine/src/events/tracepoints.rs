//! Tracepoints, from the tracing file system.

use super::{Access, Counter};
use crate::perf::{Event, Machine, kind};
use crate::roots::{Roots, names, text};

/// Where it is mounted; the older place is inside debugfs.
const PLACES: [&str; 2] = [
    "sys/kernel/tracing/events",
    "sys/kernel/debug/tracing/events",
];

/// The tracepoint `GROUP:EVENT`.
pub(super) fn find(roots: &Roots, name: &str) -> Option<Event> {
    let (group, event) = name.split_once(':')?;
    if [group, event]
        .iter()
        .any(|word| word.contains('/') || word.is_empty())
    {
        return None;
    }
    let number = PLACES
        .iter()
        .find_map(|place| roots.text(&format!("{place}/{group}/{event}/id")))?;
    Some(Event::new(kind::TRACEPOINT, number.parse().ok()?))
}

/// All tracepoints; a note where they cannot be read.
pub(super) fn counters(roots: &Roots, machine: &Machine, notes: &mut Vec<String>) -> Vec<Counter> {
    let readable = PLACES
        .iter()
        .map(|place| roots.path(place))
        .find(|folder| std::fs::read_dir(folder).is_ok());
    let Some(folder) = readable else {
        notes.push(
            "Tracepoints cannot be read. As root: mount -t tracefs nodev /sys/kernel/tracing; chmod a+rx /sys/kernel/tracing."
                .to_owned(),
        );
        return Vec::new();
    };
    let mut counters = Vec::new();
    // The answer is the same for all of them, and there are thousands.
    let mut access = None;
    for group in names(&folder) {
        let group_folder = folder.join(&group);
        for event in names(&group_folder) {
            let Some(number) =
                text(&group_folder.join(&event).join("id")).and_then(|text| text.parse().ok())
            else {
                continue;
            };
            let access = access.get_or_insert_with(|| {
                Access::from(machine.probe(&Event::new(kind::TRACEPOINT, number)))
            });
            counters.push(Counter {
                name: format!("{group}:{event}"),
                also: Vec::new(),
                device: "CPU".to_owned(),
                kind: "Tracepoint",
                summary: format!("tracepoint {event} of {group}"),
                details: format!("Tracepoint number {number}."),
                access: access.clone(),
            });
        }
    }
    counters
}
