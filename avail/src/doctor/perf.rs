//! Perf events: as the clock, as counters, as records of context switches.

use rsys_config::{Resolved, SamplingClock};
use rsys_machine::events;
use rsys_machine::perf::{Availability, Event, Machine, Reason, Scope, kind};
use rsys_machine::roots::Roots;

use super::asked::Asked;
use super::finding::{Finding, Level};

/// `PERF_COUNT_SW_DUMMY`: counts nothing, and carries records.
const DUMMY: u64 = 9;
/// The kernel's tick, as it mostly is (CONFIG_HZ).
const TICK_HZ: f64 = 250.0;
/// Cycles of the processor.
const CYCLES: u64 = 0;

/// All of them.
pub fn findings(roots: &Roots, asked: &Asked, resolved: &Resolved) -> Vec<Finding> {
    let machine = Machine::of(roots);
    let mut found = vec![
        clock(&machine, asked, resolved),
        switches(&machine, asked),
        hardware(&machine),
    ];
    let overflow = resolved.overflow.iter().map(|(name, _)| name);
    let wanted = resolved.cpu_events.iter().map(|name| (name, &asked.events));
    let wanted = wanted.chain(overflow.map(|name| (name, &asked.overflow)));
    found.extend(wanted.map(|(name, asked_by)| event(roots, &machine, name, asked_by)));
    found
}

/// What the kernel says of perf events, for those that are permitted.
fn permitted(machine: &Machine) -> String {
    let level = machine.facts.paranoid_level;
    let level = level.map_or_else(|| "?".to_owned(), |level| level.to_string());
    format!("permitted (perf_event_paranoid is {level})")
}

/// A finding about what was refused.
fn refused(finding: Finding, reason: &Reason) -> Finding {
    finding.mend(reason.command().unwrap_or_else(|| reason.remedy()))
}

fn clock(machine: &Machine, asked: &Asked, resolved: &Resolved) -> Finding {
    const NAME: &str = "perf clock";
    match machine.probe(&Event::software(0)) {
        Availability::Yes | Availability::UserOnly => Finding::ok(NAME, permitted(machine)),
        Availability::No(reason) => {
            let needs_it = resolved.sampling_freq_hz >= TICK_HZ
                && resolved.sampling_clock != SamplingClock::Timer;
            let level = if needs_it {
                Level::Warning
            } else {
                Level::Note
            };
            let finding = Finding::missing(NAME, &asked.perf_clock, level, reason.text())
                .means(format!(
                    "samples come at the kernel's tick (mostly 250 a second), with weights, where {} a second are asked for: times are \
                     right, short functions are seen less often",
                    resolved.sampling_freq_hz
                ));
            refused(finding, &reason)
        }
    }
}

fn switches(machine: &Machine, asked: &Asked) -> Finding {
    const NAME: &str = "context switches";
    match machine.probe(&Event::software(DUMMY)) {
        Availability::Yes | Availability::UserOnly => Finding::ok(NAME, permitted(machine)),
        Availability::No(reason) => {
            let level = if asked.switches_if_permitted {
                Level::Warning
            } else {
                Level::Note
            };
            let finding = Finding::missing(NAME, &asked.switches, level, reason.text()).means(
                "--off-cpu records nothing; --realtime and the causes of a GPU's idleness are less exact",
            );
            refused(finding, &reason)
        }
    }
}

fn hardware(machine: &Machine) -> Finding {
    const NAME: &str = "counters";
    match machine.probe(&Event::new(kind::HARDWARE, CYCLES)) {
        Availability::Yes => Finding::ok(NAME, "the processor's events can be counted (-C)"),
        Availability::UserOnly => Finding::ok(
            NAME,
            "the processor's events can be counted (-C) in user mode",
        )
        .mend("sudo sysctl kernel.perf_event_paranoid=1"),
        Availability::No(reason) => {
            let finding = Finding::at(Level::Note, NAME, reason.text()).means(
                "-C can count events of the kernel at most: rsys-avail -H -A lists what there is",
            );
            refused(finding, &reason)
        }
    }
}

/// An event that the settings name.
fn event(roots: &Roots, machine: &Machine, name: &str, asked_by: &[String]) -> Finding {
    const NAME: &str = "event";
    let missing = |why: String| {
        Finding::missing(NAME, asked_by, Level::Note, format!("{name}: {why}"))
            .means("it is not counted")
    };
    let found = match events::find(roots, name) {
        Ok(found) => found,
        Err(why) => return missing(why).mend("rsys-avail -H -A"),
    };
    if matches!(found.scope, Scope::Processor(_)) {
        return missing("it is counted for whole processors, not for threads".to_owned())
            .mend("rsys-avail -H -A");
    }
    match machine.probe(&found) {
        Availability::Yes => Finding::ok(NAME, name),
        Availability::UserOnly => Finding::ok(NAME, format!("{name} (user mode)")),
        Availability::No(reason) => refused(missing(reason.text()), &reason),
    }
}
