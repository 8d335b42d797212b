//! Which events the threads of the target count, or are sampled by: names become what the kernel
//! takes, and each is tried out here.

use rsys_config::Resolved;
use rsys_machine::events;
use rsys_machine::perf::{Availability, Event, Machine, Scope, kind};
use rsys_machine::roots::Roots;
use rsys_wire::counting::{EventCode, EventList, MOST_EVENTS, Overflow};

use crate::run;

/// Between two samples by an event of the processor, when it is not said how often.
const HARDWARE_PERIOD: u64 = 1_000_000;
/// And by an event of the kernel.
const SOFTWARE_PERIOD: u64 = 100;

/// What is counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counting {
    /// For the agent.
    pub events: EventList,
    /// Their names, in the same order.
    pub names: Vec<String>,
    /// For the agent: an event instead of a clock.
    pub overflow: Option<Overflow>,
    /// The same with its name.
    pub overflow_named: Option<run::Overflow>,
    /// What is not available, a line each.
    pub complaints: Vec<String>,
}

/// Finds the events that were asked for and tries them out. It may fork (see [`Machine`]): before
/// any thread is made.
#[must_use]
pub fn find(resolved: &Resolved) -> Counting {
    let mut counting = Counting::default();
    if resolved.cpu_events.is_empty() && resolved.overflow.is_none() {
        return counting;
    }
    let roots = Roots::of_this_process();
    let machine = Machine::of(&roots);
    let mut codes = Vec::new();
    for name in &resolved.cpu_events {
        if counting.names.iter().any(|known| known == name) {
            continue;
        }
        if codes.len() == MOST_EVENTS {
            counting.complaints.push(format!(
                "event '{name}' is not counted: {MOST_EVENTS} events are the most"
            ));
            continue;
        }
        match usable(&roots, &machine, name) {
            Ok(code) => {
                let mode = if code.user_only { " (user mode)" } else { "" };
                counting.names.push(format!("{name}{mode}"));
                codes.push(code);
            }
            Err(reason) => counting
                .complaints
                .push(format!("event '{name}' is not counted: {reason}")),
        }
    }
    counting.events = EventList::new(codes);
    if let Some((name, period)) = &resolved.overflow {
        match usable(&roots, &machine, name) {
            Ok(event) => {
                let own = match (event.kind, event.config[0]) {
                    // The two clocks count nanoseconds.
                    (kind::SOFTWARE, 0 | 1) => (1e9 / resolved.sampling_freq_hz) as u64,
                    (kind::SOFTWARE | kind::TRACEPOINT, _) => SOFTWARE_PERIOD,
                    _ => HARDWARE_PERIOD,
                };
                let period = period.unwrap_or(own);
                counting.overflow = Some(Overflow { event, period });
                counting.overflow_named = Some(run::Overflow {
                    event: name.clone(),
                    period,
                });
            }
            Err(reason) => counting.complaints.push(format!(
                "no samples by event '{name}': {reason} Samples are taken by CPU time."
            )),
        }
    }
    counting
}

/// The event of a name, if this process may count it for a thread.
fn usable(roots: &Roots, machine: &Machine, name: &str) -> Result<EventCode, String> {
    let event = events::find(roots, name).map_err(|error| {
        let end = if error.ends_with('?') { "" } else { "." };
        format!("{error}{end}")
    })?;
    if let Event {
        scope: Scope::Processor(_),
        ..
    } = event
    {
        return Err("it is counted for whole processors, not for threads.".to_owned());
    }
    let user_only = match machine.probe(&event) {
        Availability::Yes => false,
        Availability::UserOnly => true,
        Availability::No(reason) => {
            return Err(format!("{}. {}", reason.text(), reason.remedy()));
        }
    };
    Ok(EventCode {
        kind: event.kind,
        config: event.config,
        user_only,
    })
}
