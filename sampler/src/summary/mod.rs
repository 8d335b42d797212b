//! What `rsys-sample` says at the end.

mod gpu;
mod job;
mod mpi;
mod nothing;
mod table;
mod viewer;

use std::path::Path;

use rsys_wire::layout::{CPU_TIMER, Counter, FEW_SIGNALS, FEW_SIGNALS_TIMER};

use crate::emit::account::{Coverage, End};
use crate::emit::outcome::ProcessSummary;
use crate::emit::profile::Written;
use crate::words::counted;

pub use self::gpu::gpu_hint;
pub use self::job::job_table;
pub use self::mpi::mpi_hint;
pub use self::nothing::{Circumstances, NoTrace, no_trace};
use self::nothing::{empty_traces, reason_for_nothing, shared_trace, short_processes};
pub use self::table::{Run, table};

impl ProcessSummary {
    /// The line about its trace, or about its samples where only a summary was asked for.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let path = match &self.path {
            Some(path) => path.display().to_string(),
            None if self.trouble.is_none() && !self.profile.is_empty() => {
                "no trace asked for".to_owned()
            }
            None => return None,
        };
        let still = match self.end {
            End::StillRunning => ", still running, trace ends here",
            _ => "",
        };
        let cut = if self.trouble.is_some() {
            ", incomplete"
        } else {
            ""
        };
        let files = match self.parts.len() as u64 {
            0 => String::new(),
            further => {
                let overview = self.overview.as_deref().and_then(Path::file_name);
                let overview = overview.map_or_else(String::new, |name| {
                    format!(" with an overview of all in {}", name.display())
                });
                format!(", in {} files{overview}", further + 1)
            }
        };
        let waits = self.waits();
        let left_out = self.left_out();
        let events = self.events();
        Some(format!(
            "{}: {} ({} weighted), {}, {} dropped, pid {} ({}){files}{waits}{events}{left_out}{still}{cut}",
            path,
            counted(self.tally.samples, "sample"),
            self.tally.weight,
            counted(self.tally.threads, "thread"),
            self.counts.dropped(),
            self.pid,
            self.name,
        ))
    }

    /// The lines about its summary.
    fn profile_lines(&self) -> Vec<String> {
        let Written {
            paths,
            console,
            trouble,
        } = &self.profile;
        let mut lines = console.clone();
        if !paths.is_empty() {
            let paths: Vec<_> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            lines.push(format!("summary of pid {}: {}", self.pid, paths.join(", ")));
        }
        lines.extend(trouble.iter().map(|text| format!("warning: {text}")));
        lines
    }

    /// How many of the stacks are whole.
    fn stacks(&self) -> Option<String> {
        let tally = &self.tally;
        let stops = self.stops.most();
        let stops = if stops.is_empty() {
            stops
        } else {
            format!(" ({stops})")
        };
        Some(format!(
            "pid {}: stacks: {:.2} % complete, {} truncated, {} broken{stops}, {} with scanned frames",
            self.pid,
            tally.complete_percent()?,
            tally.truncated_stacks,
            tally.broken_stacks,
            tally.scanned_stacks,
        ))
    }

    /// A warning, when much of its time passed unseen and nothing else says so.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        const LEAST_PERCENT: f64 = 60.0;
        const LEAST_EXPECTED: f64 = 100.0;
        let without_clock = self.clockless().or_else(|| self.left_alone());
        if let Some(text) = without_clock.or_else(|| self.few_signals()) {
            return Some(format!("warning: {text}"));
        }
        let Coverage::OfProcess(percent) = self.coverage else {
            return None;
        };
        let is_told = self.counts.dropped() > 0 || self.trouble.is_some();
        let expected = self.tally.weight as f64 * 100.0 / percent;
        let is_much = expected >= LEAST_EXPECTED;
        let cause = if self.clock == CPU_TIMER {
            "either it works in step with the kernel's tick and between two of them, where CPU timers do not see it (--clock perf does), or kernel threads of io_uring work for it, or something took the sample signal (SIGSTKFLT) or the clocks away"
        } else {
            "either kernel threads of io_uring work for it, or something took the sample signal (SIGSTKFLT) or the clocks away"
        };
        (percent < LEAST_PERCENT && is_much && !is_told).then(|| {
            format!(
                "warning: pid {} ({}): its samples stand for {percent:.0} % of its CPU time; {cause}",
                self.pid, self.name
            )
        })
    }

    /// Says so when threads got no timer. The kernel counts timers as signals that may be pending.
    fn clockless(&self) -> Option<String> {
        let threads = self.counts.counter(Counter::ThreadsWithoutTimer);
        (threads > 0).then(|| {
            format!(
                "pid {} ({}): {} could have no timer to sample by (see ulimit -i)",
                self.pid,
                self.name,
                counted(threads, "thread")
            )
        })
    }

    /// Says so when few signals may be pending: what that costs the samples, or the program.
    fn few_signals(&self) -> Option<String> {
        let without_perf = self.counts.counter(Counter::ThreadsWithoutPerf);
        let what = match self.clock.as_str() {
            FEW_SIGNALS if without_perf == 0 => {
                "it was sampled by perf alone, so time in the kernel is not in its samples"
            }
            FEW_SIGNALS => {
                "perf may not be used here, so its threads took a timer each, which counts as one: the program may have been refused timers and signals of its own (EAGAIN)"
            }
            FEW_SIGNALS_TIMER => {
                "its threads took a timer each (--clock timer), which counts as one: the program may have been refused timers and signals of its own (EAGAIN)"
            }
            _ => return None,
        };
        Some(format!(
            "pid {} ({}): few signals may be pending (ulimit -i): {what}. A higher limit changes that",
            self.pid, self.name
        ))
    }

    /// Says so when threads were not sampled because the program handled their system calls, or had them traced.
    fn left_alone(&self) -> Option<String> {
        let causes = [
            (
                Counter::ThreadsDispatched,
                "while the program handled the system calls itself (PR_SET_SYSCALL_USER_DISPATCH)",
            ),
            (
                Counter::ThreadsTraced,
                "from the moment on at which the program asked its parent to trace it (PTRACE_TRACEME): each sample would have stopped it",
            ),
        ];
        let (threads, cause) = causes.into_iter().find_map(|(counter, cause)| {
            let threads = self.counts.counter(counter);
            (threads > 0).then_some((threads, cause))
        })?;
        let were = if threads == 1 {
            "thread was"
        } else {
            "threads were"
        };
        Some(format!(
            "pid {} ({}): {threads} {were} not sampled {cause}",
            self.pid, self.name
        ))
    }

    /// What was left out because the user asked for less, for the line.
    fn left_out(&self) -> String {
        let mut text = String::new();
        for (count, what) in [
            (self.tally.outside_window, "outside of the windows of time"),
            (self.tally.other_threads, "of other threads"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {} {what} left out", counted(count, "sample")));
            }
        }
        text
    }

    /// What was seen of blocked threads, for the line.
    fn waits(&self) -> String {
        let waits = &self.tally.waits;
        if waits.samples + waits.waits + waits.unreadable_threads == 0 {
            return String::new();
        }
        let mut text = format!(
            ", waits: {} in {} of {:.3} s, {} complete",
            waits.waits,
            counted(waits.samples, "sample"),
            waits.wall_ns as f64 / 1e9,
            waits.complete
        );
        for (count, what) in [(waits.scanned, "scanned"), (waits.raced, "raced")] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        if waits.unreadable_threads > 0 {
            let threads = counted(waits.unreadable_threads, "thread");
            text.push_str(&format!(", {threads} unreadable"));
        }
        text
    }

    /// What was recorded of calls and GPUs, for the line.
    fn events(&self) -> String {
        let events = &self.tally.events;
        let mut text = String::new();
        for (count, what, how) in [
            (events.calls, "call", ""),
            (events.marks + events.ranges, "mark", ""),
            (events.kernels, "kernel", ""),
            (events.moves, "copy", ""),
            (self.counts.dropped_events, "event", " dropped"),
            (self.gpu_dropped(), "GPU operation", " not recorded"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {}{how}", counted(count, what)));
            }
        }
        text
    }

    /// GPU operations that an interception saw and could not record.
    fn gpu_dropped(&self) -> u64 {
        let seen = self.counts.counter(Counter::GpuSeen);
        seen.saturating_sub(self.counts.counter(Counter::GpuRecorded))
    }

    /// What became of GPU operations, if any were intercepted.
    fn gpu_account(&self) -> Option<String> {
        let counter = |counter| self.counts.counter(counter);
        let seen = counter(Counter::GpuSeen);
        let mut text = format!(
            "pid {}: GPU operations: {seen} intercepted, {} recorded, {} dropped",
            self.pid,
            counter(Counter::GpuRecorded),
            self.gpu_dropped(),
        );
        for (cause, name) in [
            (Counter::GpuLostAtEnd, "at the end"),
            (Counter::GpuNotKernel, "not a kernel"),
            (Counter::GpuBatch, "in a batch"),
            (Counter::GpuNoQueue, "no queue"),
            (Counter::GpuPool, "no signal left"),
            (Counter::GpuTimeFailed, "times not reported"),
            (Counter::GpuTimeInvalid, "times impossible"),
        ] {
            if counter(cause) > 0 {
                text.push_str(&format!(", {} {name}", counter(cause)));
            }
        }
        if counter(Counter::GpuClamped) > 0 {
            text.push_str(&format!(
                "; times of {} moved",
                counter(Counter::GpuClamped)
            ));
        }
        (seen > 0).then_some(text)
    }

    /// Whether there is nothing to report but its end.
    fn is_silent(&self) -> bool {
        self.tally.samples == 0
            && self.tally.waits.waits == 0
            && self.tally.events.is_empty()
            && self.notes.is_empty()
            && self.trouble.is_none()
            && self.counts.dropped() == 0
            && self.counts.dropped_events == 0
            && self.tally.corrupt == 0
    }

    /// What else is worth knowing, in lines.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let clock = if self.clock.is_empty() {
            "unknown"
        } else {
            &self.clock
        };
        let mut lines = vec![format!(
            "pid {} ({}): {}; clock {clock}",
            self.pid, self.name, self.end,
        )];
        lines.extend(self.stacks());
        lines.extend(self.gpu_account());
        if !self.interpreters.is_empty() {
            let python = &self.tally.python;
            lines.push(format!(
                "pid {}: {}: {} with Python frames, {} of them cut, {} unreadable; {} without native function",
                self.pid,
                self.interpreters.join(", "),
                counted(python.samples, "sample"),
                python.truncated,
                python.broken,
                counted(python.unpaired_frames, "Python frame"),
            ));
        }
        let causes: Vec<_> = self
            .counts
            .causes()
            .map(|(cause, count)| format!("{count} {cause}"))
            .collect();
        if !causes.is_empty() {
            lines.push(format!("pid {}: dropped: {}", self.pid, causes.join(", ")));
        }
        if self.tally.corrupt > 0 {
            lines.push(format!(
                "pid {}: {} could not be understood",
                self.pid,
                counted(self.tally.corrupt, "record")
            ));
        }
        lines.extend(
            self.notes
                .iter()
                .map(|note| format!("pid {}: {note}", self.pid)),
        );
        lines
    }
}

/// What is said of all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// A line for each trace.
    pub traces: bool,
    /// Details of those with samples.
    pub details: bool,
}

/// The lines about all processes: one for each trace, if that is wanted, and one that says why there is none, or why there is nothing in it;
/// details, where they are wanted. `unstarted` is the number of processes that ended before they began to record, with one sample each.
#[must_use]
pub fn lines(
    processes: &[ProcessSummary],
    unstarted: u64,
    circumstances: &Circumstances,
    wanted: Wanted,
) -> Vec<String> {
    let mut lines: Vec<String> = processes.iter().filter_map(ProcessSummary::line).collect();
    let shared = shared_trace(processes);
    let has_traces = !lines.is_empty() || shared.is_some();
    if !wanted.traces {
        lines.clear();
    }
    lines.extend(shared);
    let short = short_processes(processes, unstarted);
    match short {
        Some(short) if !has_traces => lines.push(format!("no trace: {short}")),
        Some(short) => lines.push(short),
        None if !has_traces => {
            let nothing = reason_for_nothing(processes, unstarted, circumstances);
            lines.push(format!("no trace: {}", nothing.reason));
        }
        None => {}
    }
    if let Some(nothing) = empty_traces(processes, unstarted, circumstances) {
        lines.push(format!("no samples: {}", nothing.reason));
    }
    lines.extend(processes.iter().flat_map(ProcessSummary::profile_lines));
    lines.extend(processes.iter().filter_map(ProcessSummary::warning));
    lines.extend(processes.iter().filter_map(ProcessSummary::heavy));
    if wanted.details {
        let silent: Vec<&ProcessSummary> = processes.iter().filter(|one| one.is_silent()).collect();
        let worth_a_line = processes.iter().filter(|one| !one.is_silent());
        lines.extend(worth_a_line.flat_map(ProcessSummary::details));
        match silent.as_slice() {
            [] => {}
            [one] => lines.extend(one.details()),
            [first, ..] => lines.push(format!(
                "{} processes without samples, the first is pid {} ({})",
                silent.len(),
                first.pid,
                first.name
            )),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
