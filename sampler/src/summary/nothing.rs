//! Why a run recorded nothing.

use std::time::Duration;

use nix::sys::signal::Signal;
use rsys_wire::layout::Counter;

use crate::emit::account::End;
use crate::emit::outcome::ProcessSummary;
use crate::launch::ending::Ending;
use crate::os;
use crate::run::{Overflow, RunContext};
use crate::words::{counted, time};

/// Why a run has no trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoTrace {
    /// In words.
    pub reason: String,
    /// Whether nothing is wrong with that: there was nothing to record, or only a summary was asked
    /// for.
    pub expected: bool,
}

impl NoTrace {
    fn expected(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            expected: true,
        }
    }

    fn wrong(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            expected: false,
        }
    }
}

/// What a run was asked for and what it used, as far as that explains why nothing was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circumstances {
    /// The event that samples were to be taken by, if not CPU time.
    pub overflow: Option<Overflow>,
    /// Whether waiting threads were sampled (`--realtime`).
    pub realtime: bool,
    /// CPU time between two samples of a thread.
    pub period: Duration,
    /// CPU time of the command and of all descendants that were waited for.
    pub cpu: Duration,
    /// Why the command itself cannot be sampled, if that was seen before it was started.
    pub unsampled: Option<String>,
    /// Whether warnings have named programs that could not be sampled.
    pub warned: bool,
    /// Whether only the first program is sampled (`--follow none`).
    pub follows_none: bool,
    /// Whether anything of what is recorded is kept.
    pub is_kept: bool,
}

impl Circumstances {
    /// Those of this run, whose command has ended.
    #[must_use]
    pub fn of(run: &RunContext, unsampled: Option<String>) -> Self {
        Self {
            overflow: run.overflow.clone(),
            realtime: run.realtime_hz.is_some(),
            period: Duration::from_nanos(run.period_ns()),
            cpu: os::children_cpu(),
            unsampled,
            warned: false,
            follows_none: false,
            is_kept: run.trace || run.profile.is_some(),
        }
    }
}

/// Why none of the processes has a trace; nothing if one has. `unstarted` as for [`super::lines`].
#[must_use]
pub fn no_trace(
    processes: &[ProcessSummary],
    unstarted: u64,
    circumstances: &Circumstances,
) -> Option<NoTrace> {
    let has_trace = |process: &ProcessSummary| process.path.is_some() || process.shared.is_some();
    if processes.iter().any(has_trace) {
        return None;
    }
    let only_summary = processes
        .iter()
        .any(|process| process.trouble.is_none() && process.has_output());
    Some(if only_summary {
        NoTrace::expected("only a summary was asked for")
    } else if let Some(short) = short_processes(processes, unstarted) {
        NoTrace::expected(short)
    } else {
        reason_for_nothing(processes, unstarted, circumstances)
    })
}

/// Why the traces that there are hold neither samples nor anything else that happened; nothing if
/// one does.
pub(super) fn empty_traces(
    processes: &[ProcessSummary],
    unstarted: u64,
    circumstances: &Circumstances,
) -> Option<NoTrace> {
    let written = || processes.iter().filter(|process| process.has_output());
    let is_empty = |process: &ProcessSummary| {
        let tally = &process.tally;
        tally.samples == 0 && tally.waits.waits == 0 && tally.events.is_empty()
    };
    (written().next().is_some() && written().all(is_empty))
        .then(|| reason_for_nothing(processes, unstarted, circumstances))
}

/// Of the processes that had too few samples for a trace each, and are in one together.
pub(super) fn shared_trace(processes: &[ProcessSummary]) -> Option<String> {
    let shared = || processes.iter().filter(|process| process.shared.is_some());
    let path = shared().find_map(|process| process.shared.as_deref())?;
    let samples = shared().map(|process| process.tally.samples).sum();
    Some(format!(
        "{}: {} of {}; --min-samples 1 gives each a trace of its own",
        path.display(),
        counted(samples, "sample"),
        counted(shared().count() as u64, "short process"),
    ))
}

/// Of the processes that had too few samples for a trace, and are in no other.
pub(super) fn short_processes(processes: &[ProcessSummary], unstarted: u64) -> Option<String> {
    let is_lost = |process: &&ProcessSummary| process.short && process.shared.is_none();
    let short = processes.iter().filter(is_lost);
    let (count, samples) = short.fold((unstarted, unstarted), |(count, samples), process| {
        (count + 1, samples + process.tally.samples)
    });
    (count > 0).then(|| {
        format!(
            "{} left no trace: {} in all; --min-samples 1 keeps them",
            counted(count, "short process"),
            counted(samples, "sample"),
        )
    })
}

/// This much CPU time, and ten periods of the clock, do not pass without a sample by chance.
const MUCH_UNSEEN: Duration = Duration::from_millis(200);

/// Programs that the profiler cannot be in.
const UNSEEN: &str = "a program that is statically linked, uses another C library (musl), runs setuid, starts with an emptied environment \
     (env -i) or has a network namespace of its own runs as usual, but is not sampled";

/// Of processes that recorded nothing.
pub(super) fn reason_for_nothing(
    processes: &[ProcessSummary],
    unstarted: u64,
    circumstances: &Circumstances,
) -> NoTrace {
    if let (true, Some(reason)) = (processes.is_empty(), &circumstances.unsampled) {
        return NoTrace::wrong(format!(
            "{reason}, and no program that it started was sampled"
        ));
    }
    if processes.is_empty() {
        return NoTrace::wrong(format!("no process could be sampled: {UNSEEN}"));
    }
    if let Some(trouble) = processes
        .iter()
        .find_map(|process| process.trouble.as_ref())
    {
        return NoTrace::wrong(trouble.clone());
    }
    let sum = |count: fn(&ProcessSummary) -> u64| processes.iter().map(count).sum::<u64>();
    if !circumstances.is_kept {
        let samples = counted(sum(|process| process.tally.samples), "sample");
        return NoTrace::expected(format!(
            "{samples} taken and none kept, for the output is /dev/null (-o)"
        ));
    }
    let unselected: u64 = processes
        .iter()
        .filter(|process| !process.short)
        .map(|process| process.tally.unwritten)
        .sum();
    if unselected > 0 {
        return NoTrace::expected(format!(
            "{} of ranks that --ranks or --local-ranks leaves out, and none of others",
            counted(unselected, "sample")
        ));
    }
    let outside = sum(|process| process.tally.outside_window);
    if outside > 0 {
        return NoTrace::expected(format!(
            "{} outside of the time that delay, duration and periods ask for, and none within",
            counted(outside, "sample")
        ));
    }
    let others = sum(|process| process.tally.other_threads);
    if others > 0 {
        return NoTrace::expected(format!(
            "{} of threads that --tids leaves out, and none of others",
            counted(others, "sample")
        ));
    }
    let paused = sum(|process| process.counts.counter(Counter::Paused));
    if paused > 0 {
        return NoTrace::expected(
            "the program had paused the profiler (roctxProfilerPause) whenever it used the CPU",
        );
    }
    let dropped = sum(|process| process.counts.dropped());
    if dropped > 0 {
        let mut causes: Vec<_> = processes
            .iter()
            .flat_map(|process| process.counts.causes().map(|(cause, _)| cause))
            .collect();
        causes.sort_unstable();
        causes.dedup();
        return NoTrace::wrong(format!(
            "{} dropped ({}), and none kept",
            counted(dropped, "record"),
            causes.join(", ")
        ));
    }
    if processes
        .iter()
        .any(|process| process.clockless().is_some())
    {
        return NoTrace::wrong("see the warnings below");
    }
    if let Some(Overflow { event, period }) = &circumstances.overflow {
        return NoTrace::expected(format!(
            "in no thread did {event} happen {period} times; a smaller period gives samples: --overflow {event}:{}",
            (period / 100).max(1)
        ));
    }
    without_ticks(processes, unstarted, circumstances)
}

/// Of processes whose clocks never ticked.
fn without_ticks(
    processes: &[ProcessSummary],
    unstarted: u64,
    circumstances: &Circumstances,
) -> NoTrace {
    let known =
        |process: &ProcessSummary| Duration::from_nanos(process.counts.counter(Counter::CpuTime));
    let known: Duration = processes.iter().map(known).sum();
    let unseen = circumstances.cpu.saturating_sub(known);
    let is_seen_elsewhere = unstarted > 0 || processes.iter().any(|process| process.short);
    if unseen >= MUCH_UNSEEN.max(circumstances.period * 10) && !is_seen_elsewhere {
        if circumstances.follows_none {
            return NoTrace::wrong(format!(
                "{} of CPU time passed in programs that the command executed, which --follow none leaves out",
                time(unseen)
            ));
        }
        let which = if circumstances.warned {
            "see the warnings above"
        } else {
            UNSEEN
        };
        return NoTrace::wrong(format!(
            "{} of CPU time passed in programs that cannot be sampled: {which}",
            time(unseen)
        ));
    }
    let signal = processes.iter().find_map(|process| match process.end {
        End::Child(Ending::Signal(number)) => Some(number),
        _ => None,
    });
    if let Some(number) = signal {
        // Those that a sample itself can cause, where the program forbids what it takes.
        let suspects = [
            Signal::SIGSYS,
            Signal::SIGSEGV,
            Signal::SIGBUS,
            Signal::SIGILL,
            Signal::SIGTRAP,
            Signal::SIGSTKFLT,
        ];
        let hint = if suspects.iter().any(|suspect| *suspect as i32 == number) {
            "; if it does not end so without rsys-sample, that is an error of rsys-sample"
        } else {
            ""
        };
        let signal = Ending::Signal(number);
        return NoTrace::expected(format!(
            "the command was killed by {signal} before its first sample{hint}"
        ));
    }
    // Of the one process itself nothing is known, so that what was used may have been used elsewhere.
    if matches!(processes, [_]) && known.is_zero() && circumstances.cpu > circumstances.period * 3 {
        return NoTrace::expected(format!(
            "the command used {} of CPU time, but not where a sample could be taken: {UNSEEN}",
            time(circumstances.cpu)
        ));
    }
    let who = match processes {
        [_] => "the command".to_owned(),
        several => format!("none of the {} processes", several.len()),
    };
    let used = match processes {
        [_] if known.is_zero() => {
            format!("used {} of CPU time, too little", time(circumstances.cpu))
        }
        [_] => format!("used {} of CPU time, too little", time(known)),
        _ => "used enough CPU time".to_owned(),
    };
    let waits = if circumstances.realtime {
        ""
    } else {
        "; --realtime shows what threads wait for"
    };
    NoTrace::expected(format!(
        "{who} {used} for a sample every {}{waits}",
        time(circumstances.period)
    ))
}
