//! Why a run has no trace.

use std::time::Duration;

use super::ProcessSummary;
use crate::os;

/// Why a run has no trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoTrace {
    /// In words.
    pub reason: String,
    /// Whether nothing is wrong with that: there was nothing to record, or only a summary was asked for.
    pub expected: bool,
}

/// Why none of the processes has a trace; nothing if one has. `unborn` as for [`super::lines`].
#[must_use]
pub fn no_trace(processes: &[ProcessSummary], unborn: u64) -> Option<NoTrace> {
    if processes.iter().any(|process| process.path.is_some()) {
        return None;
    }
    let fine = |reason: String| NoTrace {
        reason,
        expected: true,
    };
    let only_summary = processes
        .iter()
        .any(|process| process.trouble.is_none() && process.has_output());
    Some(if only_summary {
        fine("only a summary was asked for".to_owned())
    } else if let Some(short) = short_processes(processes, unborn) {
        fine(short)
    } else {
        reason_for_nothing(processes)
    })
}

/// Of the processes that had too few samples for a trace.
pub(super) fn short_processes(processes: &[ProcessSummary], unborn: u64) -> Option<String> {
    let short = processes.iter().filter(|process| process.short);
    let (count, samples) = short.fold((unborn, unborn), |(count, samples), process| {
        (count + 1, samples + process.tally.samples)
    });
    let plural = if count == 1 { "process" } else { "processes" };
    (count > 0).then(|| {
        format!(
            "{count} short {plural} left no trace: {samples} samples in all; --min-samples 1 keeps them"
        )
    })
}

/// So much CPU time without a sample is no matter of chance.
const MUCH_UNSEEN: Duration = Duration::from_millis(200);

/// Of processes without a trace, none of which had too few samples.
pub(super) fn reason_for_nothing(processes: &[ProcessSummary]) -> NoTrace {
    let bad = |reason| NoTrace {
        reason,
        expected: false,
    };
    let Some(first) = processes.first() else {
        let text = "no process loaded the agent (a program that is statically linked, or started with a cleared environment?)";
        return bad(text.to_owned());
    };
    if let Some(trouble) = processes
        .iter()
        .find_map(|process| process.trouble.as_ref())
    {
        return bad(trouble.clone());
    }
    let outside: u64 = processes
        .iter()
        .map(|process| process.tally.outside_window)
        .sum();
    if outside > 0 {
        return NoTrace {
            reason: format!(
                "all {outside} samples lie outside of the time that delay and duration ask for"
            ),
            expected: true,
        };
    }
    let dropped: u64 = processes
        .iter()
        .map(|process| process.counts.dropped())
        .sum();
    if dropped > 0 {
        let causes: Vec<_> = first.counts.causes().map(|(cause, _)| cause).collect();
        return bad(format!(
            "all {dropped} records were dropped ({})",
            causes.join(", ")
        ));
    }
    if processes
        .iter()
        .any(|process| process.clockless().is_some())
    {
        return bad("see the warnings below".to_owned());
    }
    let count = processes.len();
    let plural = if count == 1 {
        "the process"
    } else {
        "none of the processes"
    };
    let used = if count == 1 {
        "used too little CPU time for a sample"
    } else {
        "used enough CPU time for a sample"
    };
    // Who cannot reach our socket cannot say so either.
    let children = os::children_cpu();
    let others = if children >= MUCH_UNSEEN {
        format!(
            "; all together used {:.1} s: what is linked statically, runs setuid or in a network namespace of its own cannot be sampled",
            children.as_secs_f64()
        )
    } else {
        String::new()
    };
    NoTrace {
        expected: others.is_empty(),
        reason: format!("{plural} {used}{others}"),
    }
}
