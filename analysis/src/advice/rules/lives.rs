//! The time of a run before its GPUs have their first work, and after the last.

use super::submission::start_up_before;
use crate::advice::facts::Facts;
use crate::advice::owners::Span;
use crate::advice::processes::Process;
use crate::advice::rule::{Finding, Need, Rule, Verdict};

pub(super) const RULES: [Rule; 2] = [
    Rule {
        name: "late_start",
        title: "much of the run is over before a GPU has its first work",
        remedy: "load and prepare less, in parallel, or from a cache; for short runs keep the process and give it several tasks",
        needs: &[Need::Gpus],
        judge: late_start,
    },
    Rule {
        name: "early_end",
        title: "the run goes on for long when its GPUs have done their last work",
        remedy: "write results while the GPU still works, or on another thread or in another process",
        needs: &[Need::Gpus],
        judge: early_end,
    },
];

/// Programs of a few seconds are mostly start and end, and nobody minds: so long the main thread is at one place at least.
const LONG_NS: u64 = 2_000_000_000;
/// And for one part in this many of the process's life.
const PART: u64 = 5;

fn judge(
    facts: &Facts<'_>,
    span: impl Fn(&Process, Span) -> Span,
    most: impl Fn(&Process) -> (String, u64),
) -> Verdict {
    let mut found = Vec::new();
    let is_seen = |one: &Process| one.is_sampled || one.has_waits;
    if !facts.processes.iter().any(is_seen) {
        return Verdict::Lacks("samples of threads", "-f 300");
    }
    let hung: Vec<_> = facts
        .never_ended
        .iter()
        .map(|row| facts.owner(row))
        .collect();
    // Of one that hung, what it did at its end is no loss of time.
    let processes = facts.processes.iter();
    for process in processes.filter(|one| !hung.contains(&one.owner)) {
        let Some(used) = process.used else { continue };
        let span = span(process, used);
        let (place, at_place_ns) = most(process);
        let at_place_ns = at_place_ns.min(span.duration_ns);
        // Calls that make what is made once have a rule of their own.
        let in_calls_ns = start_up_before(facts, process.owner).map_or(0, |(ns, _)| ns);
        if span.start_ns < used.start_ns && 2 * in_calls_ns >= at_place_ns {
            continue;
        }
        if at_place_ns >= LONG_NS && PART * at_place_ns >= process.recorded_ns {
            found.push(Finding {
                // Some of it every run needs: what its main thread did at one place is what there is to gain.
                saves_ns: Some(at_place_ns),
                place,
                evidence: vec![
                    ("without_gpu_ns", span.duration_ns.into()),
                    ("of_process_ns", process.recorded_ns.into()),
                    ("seen_there_ns", at_place_ns.into()),
                    ("process", process.owner.process.into()),
                ],
                span: Some(span),
                ..Finding::default()
            });
        }
    }
    Verdict::Found(found)
}

fn late_start(facts: &Facts<'_>) -> Verdict {
    let before = |process: &Process, used: Span| {
        Span::between(process.life.start_ns, used.start_ns, used.host)
    };
    judge(facts, before, |process| process.before.clone())
}

fn early_end(facts: &Facts<'_>) -> Verdict {
    let after = |process: &Process, used: Span| {
        let end_ns = process.life.start_ns + process.life.duration_ns;
        Span::between(used.start_ns + used.duration_ns, end_ns, used.host)
    };
    judge(facts, after, |process| process.after.clone())
}
