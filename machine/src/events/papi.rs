//! PAPI's preset names, where a generic perf event counts the same.

use super::generic::{HARDWARE, cache_config};
use super::{Access, Counter};
use crate::perf::{Event, Machine, kind};

/// What a preset is mapped to.
enum Target {
    /// A generic hardware event by its number.
    Hardware(u64),
    /// A cache event: cache, operation, whether misses; with its name.
    Cache(u64, u64, bool, &'static str),
}

use Target::{Cache, Hardware};

/// PAPI's presets (papi_avail) for which the kernel has an event of the same meaning.
const PRESETS: &[(&str, Target, &str)] = &[
    ("PAPI_TOT_CYC", Hardware(0), "Total cycles"),
    ("PAPI_TOT_INS", Hardware(1), "Instructions completed"),
    ("PAPI_REF_CYC", Hardware(9), "Reference cycles"),
    ("PAPI_BR_INS", Hardware(4), "Branch instructions"),
    ("PAPI_BR_MSP", Hardware(5), "Branches mispredicted"),
    (
        "PAPI_RES_STL",
        Hardware(8),
        "Cycles stalled on any resource",
    ),
    (
        "PAPI_STL_ICY",
        Hardware(7),
        "Cycles with no instruction issue",
    ),
    ("PAPI_L3_TCA", Hardware(2), "Last-level cache accesses"),
    ("PAPI_L3_TCM", Hardware(3), "Last-level cache misses"),
    (
        "PAPI_L1_LDM",
        Cache(0, 0, true, "L1-dcache-load-misses"),
        "Level 1 load misses",
    ),
    (
        "PAPI_L1_STM",
        Cache(0, 1, true, "L1-dcache-store-misses"),
        "Level 1 store misses",
    ),
    (
        "PAPI_L1_ICM",
        Cache(1, 0, true, "L1-icache-load-misses"),
        "Level 1 instruction cache misses",
    ),
    (
        "PAPI_L1_ICA",
        Cache(1, 0, false, "L1-icache-loads"),
        "Level 1 instruction cache accesses",
    ),
    (
        "PAPI_L3_LDM",
        Cache(2, 0, true, "LLC-load-misses"),
        "Last-level load misses",
    ),
    (
        "PAPI_L3_DCR",
        Cache(2, 0, false, "LLC-loads"),
        "Last-level data reads",
    ),
    (
        "PAPI_L3_DCW",
        Cache(2, 1, false, "LLC-stores"),
        "Last-level data writes",
    ),
    (
        "PAPI_LD_INS",
        Cache(0, 0, false, "L1-dcache-loads"),
        "Load instructions",
    ),
    (
        "PAPI_SR_INS",
        Cache(0, 1, false, "L1-dcache-stores"),
        "Store instructions",
    ),
    (
        "PAPI_TLB_DM",
        Cache(3, 0, true, "dTLB-load-misses"),
        "Data translation misses, of loads",
    ),
    (
        "PAPI_TLB_IM",
        Cache(4, 0, true, "iTLB-load-misses"),
        "Instruction translation misses",
    ),
    (
        "PAPI_PRF_DM",
        Cache(0, 2, true, "L1-dcache-prefetch-misses"),
        "Data prefetch misses",
    ),
];

/// The event of a preset.
pub(super) fn find(name: &str) -> Option<Event> {
    let (_, target, _) = PRESETS
        .iter()
        .find(|(preset, ..)| preset.eq_ignore_ascii_case(name))?;
    Some(match *target {
        Hardware(config) => Event::new(kind::HARDWARE, config),
        Cache(cache, operation, misses, _) => {
            Event::new(kind::CACHE, cache_config(cache, operation, misses))
        }
    })
}

/// All presets that can be mapped.
pub(super) fn counters(machine: &Machine) -> Vec<Counter> {
    PRESETS
        .iter()
        .map(|(name, target, summary)| {
            let (event, perf_name) = match *target {
                Hardware(config) => {
                    let row = HARDWARE.iter().find(|row| row.2 == config);
                    (
                        Event::new(kind::HARDWARE, config),
                        row.map_or("", |row| row.0),
                    )
                }
                Cache(cache, operation, misses, perf_name) => (
                    Event::new(kind::CACHE, cache_config(cache, operation, misses)),
                    perf_name,
                ),
            };
            Counter {
                name: (*name).to_owned(),
                also: vec![perf_name.to_owned()],
                device: "CPU".to_owned(),
                kind: "PAPI",
                summary: (*summary).to_owned(),
                details: format!("Counted as the perf event {perf_name}."),
                access: Access::from(machine.probe(&event)),
            }
        })
        .collect()
}
