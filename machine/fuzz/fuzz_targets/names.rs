//! Any text as the name of an event, on a machine with a counting unit and a tracepoint whose files hold that text too: what is found must be
//! found again, and errors must have words. Run with `cargo fuzz run names` in `machine/`.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rsys_machine::events::{counters, find};
use rsys_machine::perf::Machine;
use rsys_machine::roots::Roots;

const FILES: [(&str, &str); 6] = [
    ("sys/bus/event_source/devices/cpu/type", "4"),
    ("sys/bus/event_source/devices/cpu/format/event", "config:0-7,32-35"),
    ("sys/bus/event_source/devices/cpu/events/cycles", "event=0x3c"),
    ("sys/bus/event_source/devices/box_1/type", "30"),
    ("sys/bus/event_source/devices/box_1/cpumask", "0-3"),
    ("sys/kernel/tracing/events/sched/sched_switch/id", "314"),
];

static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let root = parent.join(format!("rsys-fuzz-names-{}", std::process::id()));
    for (name, text) in FILES {
        put(&root, name, text);
    }
    root
});

fn put(root: &std::path::Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap_or(root)).unwrap_or_else(|error| panic!("{error}"));
    fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn check(roots: &Roots, name: &str) {
    match find(roots, name) {
        Ok(event) => assert_eq!(find(roots, name), Ok(event)),
        Err(reason) => assert!(!reason.is_empty()),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let roots = Roots::simulated(ROOT.clone());
    check(&roots, text);
    // One of the files says something else. To write and read files takes a hundred times as long as all the rest.
    let Some((name, usual)) = FILES.get(usize::from(*first)) else { return };
    put(&ROOT, name, text);
    for name in ["cpu/cycles/", "box/event=1/", "sched:sched_switch"] {
        check(&roots, name);
    }
    let all = counters(&roots, &Machine::of(&roots), true, &mut Vec::new());
    assert!(all.iter().all(|counter| !counter.name.is_empty()));
    put(&ROOT, name, usual);
});
