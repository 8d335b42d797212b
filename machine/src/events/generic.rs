//! The events that every Linux kernel names: include/uapi/linux/perf_event.h.

use super::{Access, Counter};
use crate::perf::{Event, Machine, kind};

/// A named event: name, other name, number, meaning. The names are those of perf(1); the other ones come from the header.
type Row = (&'static str, &'static str, u64, &'static str);

const SOFTWARE: &[Row] = &[
    (
        "cpu-clock",
        "PERF_COUNT_SW_CPU_CLOCK",
        0,
        "Time on the processor by its clock, in ns",
    ),
    (
        "task-clock",
        "PERF_COUNT_SW_TASK_CLOCK",
        1,
        "CPU time of the thread, in ns",
    ),
    ("page-faults", "PERF_COUNT_SW_PAGE_FAULTS", 2, "Page faults"),
    (
        "context-switches",
        "PERF_COUNT_SW_CONTEXT_SWITCHES",
        3,
        "Switches to another thread",
    ),
    (
        "cpu-migrations",
        "PERF_COUNT_SW_CPU_MIGRATIONS",
        4,
        "Moves to another processor",
    ),
    (
        "minor-faults",
        "PERF_COUNT_SW_PAGE_FAULTS_MIN",
        5,
        "Page faults that needed no input",
    ),
    (
        "major-faults",
        "PERF_COUNT_SW_PAGE_FAULTS_MAJ",
        6,
        "Page faults that needed input",
    ),
    (
        "alignment-faults",
        "PERF_COUNT_SW_ALIGNMENT_FAULTS",
        7,
        "Unaligned accesses that the kernel mended (not on x86)",
    ),
    (
        "emulation-faults",
        "PERF_COUNT_SW_EMULATION_FAULTS",
        8,
        "Instructions that the kernel emulated (not on x86)",
    ),
    (
        "bpf-output",
        "PERF_COUNT_SW_BPF_OUTPUT",
        10,
        "Data that BPF programs write",
    ),
    (
        "cgroup-switches",
        "PERF_COUNT_SW_CGROUP_SWITCHES",
        11,
        "Switches to a thread of another control group",
    ),
];

pub(super) const HARDWARE: &[Row] = &[
    (
        "cycles",
        "PERF_COUNT_HW_CPU_CYCLES",
        0,
        "Cycles of the core",
    ),
    (
        "instructions",
        "PERF_COUNT_HW_INSTRUCTIONS",
        1,
        "Retired instructions",
    ),
    (
        "cache-references",
        "PERF_COUNT_HW_CACHE_REFERENCES",
        2,
        "Accesses to the last-level cache, as the processor defines them",
    ),
    (
        "cache-misses",
        "PERF_COUNT_HW_CACHE_MISSES",
        3,
        "Misses of the last-level cache, as the processor defines them",
    ),
    (
        "branches",
        "PERF_COUNT_HW_BRANCH_INSTRUCTIONS",
        4,
        "Retired branches",
    ),
    (
        "branch-misses",
        "PERF_COUNT_HW_BRANCH_MISSES",
        5,
        "Mispredicted branches",
    ),
    (
        "bus-cycles",
        "PERF_COUNT_HW_BUS_CYCLES",
        6,
        "Cycles of the bus",
    ),
    (
        "stalled-cycles-frontend",
        "PERF_COUNT_HW_STALLED_CYCLES_FRONTEND",
        7,
        "Cycles without instructions to issue",
    ),
    (
        "stalled-cycles-backend",
        "PERF_COUNT_HW_STALLED_CYCLES_BACKEND",
        8,
        "Cycles without resources to issue to",
    ),
    (
        "ref-cycles",
        "PERF_COUNT_HW_REF_CPU_CYCLES",
        9,
        "Cycles at the reference frequency",
    ),
];

const CACHES: [(&str, u64, &str); 7] = [
    ("L1-dcache", 0, "first-level data cache"),
    ("L1-icache", 1, "first-level instruction cache"),
    ("LLC", 2, "last-level cache"),
    ("dTLB", 3, "data address translation"),
    ("iTLB", 4, "instruction address translation"),
    ("branch", 5, "branch prediction"),
    ("node", 6, "local memory"),
];

/// Operation: word for accesses, word for misses, number, meaning.
const OPERATIONS: [(&str, &str, u64, &str); 3] = [
    ("loads", "load-misses", 0, "Reads"),
    ("stores", "store-misses", 1, "Writes"),
    ("prefetches", "prefetch-misses", 2, "Prefetches"),
];

/// `config` of a cache event.
pub(super) const fn cache_config(cache: u64, operation: u64, misses: bool) -> u64 {
    cache | operation << 8 | (misses as u64) << 16
}

/// What perf(1) calls these as well.
const SHORT: [(&str, &str); 6] = [
    ("faults", "page-faults"),
    ("cs", "context-switches"),
    ("migrations", "cpu-migrations"),
    ("cpu-cycles", "cycles"),
    ("branch-instructions", "branches"),
    ("idle-cycles-frontend", "stalled-cycles-frontend"),
];

/// The event of a name: as perf(1) calls it, as the header does, or as libpfm4's unit `perf` does.
pub(super) fn find(name: &str) -> Option<Event> {
    let name = name.strip_prefix("perf::").unwrap_or(name);
    let lower = name.to_ascii_lowercase().replace('_', "-");
    let short = SHORT.iter().find(|(short, _)| *short == lower);
    let plain = short.map_or(lower.as_str(), |(_, whole)| whole);
    for (rows, kind_number) in [(SOFTWARE, kind::SOFTWARE), (HARDWARE, kind::HARDWARE)] {
        let row = rows
            .iter()
            .find(|row| row.0 == plain || row.1.eq_ignore_ascii_case(name));
        if let Some(row) = row {
            return Some(Event::new(kind_number, row.2));
        }
    }
    cache_events()
        .find(|cache| cache.name.eq_ignore_ascii_case(plain))
        .map(|cache| Event::new(kind::CACHE, cache.config))
}

/// The name that comes nearest: the one that has the most of its start, at least four letters, in common.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase().replace('_', "-");
    let common = |known: &str| {
        let both = known.bytes().zip(lower.bytes());
        both.take_while(|(one, other)| one == other).count()
    };
    let all = SOFTWARE.iter().chain(HARDWARE).map(|row| row.0);
    all.max_by_key(|known| common(known))
        .filter(|known| common(known) >= 4)
}

/// A cache event.
struct CacheEvent {
    name: String,
    config: u64,
    summary: String,
}

/// All cache events that make sense.
fn cache_events() -> impl Iterator<Item = CacheEvent> {
    CACHES.into_iter().flat_map(|(cache, cache_number, place)| {
        let operations = OPERATIONS.into_iter().filter(move |(_, _, operation, _)| {
            // Nothing is written through these, or fetched ahead.
            match operation {
                1 => !matches!(cache, "L1-icache" | "iTLB" | "branch"),
                2 => !matches!(cache, "iTLB" | "branch"),
                _ => true,
            }
        });
        operations.flat_map(move |(accesses, misses, operation, verb)| {
            [false, true].into_iter().map(move |missed| CacheEvent {
                name: format!("{cache}-{}", if missed { misses } else { accesses }),
                config: cache_config(cache_number, operation, missed),
                summary: if missed {
                    format!("{verb} that missed: {place}")
                } else {
                    format!("{verb}: {place}")
                },
            })
        })
    })
}

/// Software, hardware and cache events.
pub(super) fn counters(machine: &Machine) -> Vec<Counter> {
    let mut counters = Vec::new();
    for (rows, kind_number, kind_name) in [
        (SOFTWARE, kind::SOFTWARE, "Software"),
        (HARDWARE, kind::HARDWARE, "Hardware"),
    ] {
        counters.extend(rows.iter().map(|(name, symbol, config, summary)| {
            counter(
                machine,
                name,
                format!("perf::{symbol}"),
                kind_name,
                Event::new(kind_number, *config),
                (*summary).to_owned(),
            )
        }));
    }
    counters.extend(cache_events().map(|cache| {
        let also = format!("perf::{}", cache.name.to_uppercase());
        let event = Event::new(kind::CACHE, cache.config);
        counter(machine, &cache.name, also, "Cache", event, cache.summary)
    }));
    counters
}

fn counter(
    machine: &Machine,
    name: &str,
    also: String,
    kind_name: &'static str,
    event: Event,
    summary: String,
) -> Counter {
    Counter {
        name: name.to_owned(),
        also: vec![also],
        device: "CPU".to_owned(),
        kind: kind_name,
        summary,
        details: format!(
            "perf event of type {} with config {:#x}.",
            event.kind, event.config[0]
        ),
        access: Access::from(machine.probe(&event)),
    }
}
