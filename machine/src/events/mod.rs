//! Names of what processor and kernel can count.
//!
//! `generic` has the events that every kernel names, `papi` their names in PAPI; `pmus` reads the units in sysfs, `tracepoints`
//! the tracing file system, `pfm` asks libpfm4 for the processor's own names. [`counters`] lists and tries all of them; [`find`] takes
//! a name to its event.

mod generic;
mod papi;
mod pfm;
mod pmus;
mod tracepoints;

pub use pmus::encode;

use crate::perf::{Availability, Event, Machine};
use crate::roots::Roots;

/// One counter.
#[derive(Debug, Clone)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// Other names.
    pub also: Vec<String>,
    /// `CPU`, or `GPU 0 (gfx942)`.
    pub device: String,
    /// Where it comes from: `Software`, `Hardware`, `Cache`, `PMU`, `Tracepoint`, `Libpfm`, `PAPI`, `Sensor`, `Counter`.
    pub kind: &'static str,
    /// What it counts, in one line.
    pub summary: String,
    /// What else there is to say.
    pub details: String,
    /// Whether it can be had.
    pub access: Access,
}

/// Whether a counter can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Yes,
    /// Yes, with a restriction.
    Partly(String),
    /// No: why, and what to do about it.
    No(String, String),
}

impl From<Availability> for Access {
    fn from(availability: Availability) -> Self {
        match availability {
            Availability::Yes => Self::Yes,
            Availability::UserOnly => Self::Partly("user mode only".to_owned()),
            Availability::No(reason) => Self::No(reason.text(), reason.remedy()),
        }
    }
}

/// Everything that can be counted, each tried out; with `whole`, also tracepoints and unit masks.
pub fn counters(
    roots: &Roots,
    machine: &Machine,
    whole: bool,
    notes: &mut Vec<String>,
) -> Vec<Counter> {
    let mut counters = generic::counters(machine);
    counters.extend(papi::counters(machine));
    counters.extend(pmus::counters(roots, machine));
    counters.extend(pfm::counters(roots, machine, whole));
    if whole {
        counters.extend(tracepoints::counters(roots, machine, notes));
    }
    counters
}

/// The event of a name, in any of the forms that [`counters`] lists, and `PMU/FIELD=VALUE,…/` and `rHEX` as perf takes them.
///
/// # Errors
/// What is wrong with the name.
pub fn find(roots: &Roots, name: &str) -> Result<Event, String> {
    let name = name.trim();
    let known = generic::find(name)
        .or_else(|| papi::find(name))
        .or_else(|| raw(name));
    if let Some(event) = known {
        return Ok(event);
    }
    if let Some((unit, terms)) = name.split_once('/') {
        return pmus::find(roots, unit, terms.trim_end_matches('/'));
    }
    if let Some(event) = tracepoints::find(roots, name) {
        return Ok(event);
    }
    pfm::find(roots, name).ok_or_else(|| match generic::nearest(name) {
        Some(nearest) => format!("no event is called '{name}'; did you mean '{nearest}'?"),
        None => format!("no event is called '{name}'; rsys-avail -H lists them"),
    })
}

/// `r1c0`: an event of the processor by its code.
fn raw(name: &str) -> Option<Event> {
    let digits = name.strip_prefix('r')?;
    let code = u64::from_str_radix(digits, 16).ok()?;
    Some(Event::new(crate::perf::kind::RAW, code))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::perf::{Scope, kind};

    /// A processor with a core unit and one outside of the cores.
    fn fixture(folder: &Path) -> Roots {
        let devices = folder.join("sys/bus/event_source/devices");
        let files = [
            ("cpu/type", "4\n"),
            ("cpu/format/event", "config:0-7,32-35\n"),
            ("cpu/format/umask", "config:8-15\n"),
            ("cpu/events/branch-misses", "event=0xc3,umask=0x01\n"),
            ("amd_df/type", "14\n"),
            ("amd_df/cpumask", "0\n"),
            ("amd_df/format/event", "config:0-7\n"),
        ];
        for (name, text) in files {
            let path = devices.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Roots::simulated(folder.to_path_buf())
    }

    #[test]
    fn names_lead_to_events() {
        let folder = crate::roots::scratch("events");
        let roots = fixture(&folder);
        let cases = [
            ("page-faults", Event::software(2)),
            ("faults", Event::software(2)),
            ("perf::PERF_COUNT_SW_PAGE_FAULTS", Event::software(2)),
            ("PERF_COUNT_HW_INSTRUCTIONS", Event::new(kind::HARDWARE, 1)),
            ("INSTRUCTIONS", Event::new(kind::HARDWARE, 1)),
            ("PAPI_TOT_INS", Event::new(kind::HARDWARE, 1)),
            ("LLC-load-misses", Event::new(kind::CACHE, 0x1_0002)),
            ("perf::LLC-LOADS", Event::new(kind::CACHE, 2)),
            ("PAPI_L1_ICM", Event::new(kind::CACHE, 0x1_0001)),
            ("r1c0", Event::new(kind::RAW, 0x1c0)),
            ("cpu/branch-misses/", Event::new(4, 0x1c3)),
            (
                "cpu/event=0x1c0,umask=2/",
                Event::new(4, 0x1_0000_00c0 | 2 << 8),
            ),
            (
                "amd_df/event=7/",
                Event {
                    scope: Scope::Processor(0),
                    ..Event::new(14, 7)
                },
            ),
        ];
        for (name, event) in cases {
            assert_eq!(find(&roots, name), Ok(event), "{name}");
        }
        for (name, part) in [
            ("page-fault", "did you mean 'page-faults'"),
            ("nonsense", "no event is called 'nonsense'"),
            ("gpu/x/", "no counting unit is called 'gpu'"),
            ("cpu/nothing=1/", "unknown term 'nothing=1'"),
            ("cpu/wrong/", "no event 'wrong'"),
        ] {
            let error = find(&roots, name).expect_err(name);
            assert!(error.contains(part), "{name}: {error}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
