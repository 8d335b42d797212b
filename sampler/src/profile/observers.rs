//! What looks at the target from outside: context switches, blocked threads, counters. A run goes
//! on without what is not available.

use nix::errno::Errno;
use rsys_machine::perf::{Availability, Event, Machine, Reason};
use rsys_machine::roots::Roots;
use rsys_wire::handshake::PythonChoice;

use crate::monitors::{self, Monitors};
use crate::offcpu::{self, ThreadRings};
use crate::plan::Plan;
use crate::run::SwitchRecords;
use crate::terminal::say;
use crate::waits::Waits;

/// On larger machines events are opened for threads when they are found: those that are inherited are, for each thread, one of about 1.2 KB for each
/// processor.
const PROCESSORS_MAX: usize = 64;

/// Opens the records of context switches, which the target is to inherit.
pub fn off_cpu(plan: &Plan) -> Option<offcpu::Watch> {
    let wanted = plan.run.switches == SwitchRecords::Wanted;
    if plan.run.switches == SwitchRecords::Off {
        return None;
    }
    let is_large = offcpu::rings::processors() > PROCESSORS_MAX;
    let event = Event {
        user_only: true,
        ..Event::software(DUMMY_EVENT)
    };
    // A filter may end whoever asks: this asks with care.
    let machine = Machine::of(&Roots::of_this_process());
    let reason = match machine.probe(&event) {
        Availability::No(reason) => reason,
        _ if is_large => return Some(offcpu::Watch::of_threads(wanted)),
        _ => match offcpu::Watch::open(wanted) {
            Ok(watch) => return Some(watch),
            Err(error) => {
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
                Reason::of(errno, &event, false, &machine.facts)
            }
        },
    };
    if plan.run.verbosity >= 0 && wanted {
        say(&format!(
            "warning: times off the processor are not recorded, only what threads are seen to wait for: {}. {}",
            reason.text(),
            reason.remedy()
        ));
    }
    None
}

/// PERF_COUNT_SW_DUMMY: the event that carries records of context switches.
const DUMMY_EVENT: u64 = 9;

/// Starts the watch over processes, host and GPUs, as far as there is something to watch.
pub fn monitors(plan: &Plan) -> Option<Monitors> {
    let choice = plan.monitors.as_ref()?;
    let (gpus, complaints) = match &plan.gpus {
        Some(gpus) => monitors::prepare_gpus(&Roots::of_this_process(), gpus),
        None => (None, Vec::new()),
    };
    if plan.run.verbosity >= 0 {
        for complaint in complaints {
            say(&format!("warning: {complaint}"));
        }
    }
    Monitors::start(choice.clone(), gpus, &plan.run)
        .map_err(|error| {
            say(&format!(
                "warning: no counters of processes and host: no thread can be made: {error}"
            ))
        })
        .ok()
}

/// Starts the watch over blocked threads, if it was asked for.
pub fn waits(plan: &Plan, thread_rings: Option<ThreadRings>) -> Option<Waits> {
    let depth_max = plan.agent.max_depth as usize;
    let python = plan.agent.python != PythonChoice::Off;
    match plan.run.realtime_hz {
        Some(hertz) => Waits::start(
            hertz,
            depth_max,
            python,
            plan.run.verbosity < 0,
            thread_rings,
        )
        .map_err(|error| {
            say(&format!(
                "warning: waits are not seen: no thread can be made: {error}"
            ))
        })
        .ok(),
        None => None,
    }
}
