//! What is counted while the records of a process are drawn.

use rsys_wire::record::{PYTHON_BROKEN, PYTHON_SUBINTERPRETER, PYTHON_TRUNCATED};

/// What was seen in the records of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Samples in the trace.
    pub samples: u64,
    /// Periods of CPU time that they stand for.
    pub weight: u64,
    /// Slices on the tracks of threads.
    pub slices: u64,
    /// Threads that got a ring.
    pub threads: u64,
    /// Stacks that were deeper than the limit.
    pub truncated_stacks: u64,
    /// Stacks that could not be walked to their root.
    pub broken_stacks: u64,
    /// Stacks in which a frame was found by searching the stack.
    pub scanned_stacks: u64,
    /// Such frames.
    pub scanned_frames: u64,
    /// Samples that perf took.
    pub perf_samples: u64,
    /// Samples outside of the time that the user asked for.
    pub outside_window: u64,
    /// Samples of threads that the user did not ask for.
    pub other_threads: u64,
    /// Records that made no sense.
    pub corrupt: u64,
    /// Samples that could not be written to the file.
    pub unwritten: u64,
    /// Values of counters in the trace.
    pub counter_values: u64,
    /// Readings of threads' events during which these took turns on the processor's counters.
    pub scaled_counters: u64,
    /// What was seen of context switches.
    pub off_cpu: OffCpuTally,
    /// CPU time of threads that ended.
    pub ended_cpu_ns: u64,
    /// Periods that the samples of those threads stand for.
    pub ended_weight: u64,
    /// Python stacks.
    pub python: PythonTally,
    /// What was seen of blocked threads.
    pub waits: WaitTally,
    /// Calls, marks and GPU operations.
    pub events: EventTally,
}

/// What was seen of context switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffCpuTally {
    /// Times off the processor.
    pub intervals: u64,
    /// Their length together.
    pub wall_ns: u64,
    /// Those that are drawn.
    pub slices: u64,
    /// Since when some are missing (CLOCK_BOOTTIME), or 0.
    pub incomplete_ns: u64,
}

/// What was seen of Python stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PythonTally {
    /// Samples with Python frames.
    pub samples: u64,
    /// Of these, those that were deeper than the limit.
    pub truncated: u64,
    /// Of these, those that could not be read to the end.
    pub broken: u64,
    /// Of these, those in another interpreter than the main one.
    pub subinterpreter: u64,
    /// Frames for which the native stack shows no function that runs them.
    pub unpaired_frames: u64,
}

impl PythonTally {
    /// Counts a sample whose Python stack has these flags.
    pub fn count(&mut self, flags: u8) {
        self.samples += 1;
        self.truncated += u64::from(flags & PYTHON_TRUNCATED != 0);
        self.broken += u64::from(flags & PYTHON_BROKEN != 0);
        self.subinterpreter += u64::from(flags & PYTHON_SUBINTERPRETER != 0);
    }
}

/// What was seen of the blocked threads of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitTally {
    /// Waits that were seen.
    pub waits: u64,
    /// Those whose stacks were walked to their root.
    pub complete: u64,
    /// Those whose stacks were deeper than the limit.
    pub truncated: u64,
    /// Those whose stacks could not be walked to their root.
    pub broken: u64,
    /// Those with frames that were found by scanning.
    pub scanned: u64,
    /// And such frames.
    pub scanned_frames: u64,
    /// Waits that no look hit.
    pub unseen: u64,
    /// Looks during which the thread woke up, so that nothing can be said of them.
    pub raced: u64,
    /// Threads that we may not look at.
    pub unreadable_threads: u64,
    /// Samples in the trace.
    pub samples: u64,
    /// Wall time that they stand for.
    pub wall_ns: u64,
    /// Slices on the tracks of waits.
    pub slices: u64,
    /// Their Python stacks.
    pub python: PythonTally,
}

impl Tally {
    /// How many of the stacks reach from the root to the leaf, in percent.
    #[must_use]
    pub fn complete_percent(&self) -> Option<f64> {
        let incomplete = self.truncated_stacks.saturating_add(self.broken_stacks);
        let complete = self.samples.saturating_sub(incomplete);
        (self.samples > 0).then(|| 100.0 * complete as f64 / self.samples as f64)
    }
}

/// What is counted of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventTally {
    /// Calls and ranges on threads.
    pub calls: u64,
    /// Points in time.
    pub marks: u64,
    /// Ranges that any thread may end.
    pub ranges: u64,
    /// Values of the program's own counters.
    pub counters: u64,
    /// Locks of which something was counted.
    pub locks: u64,
    /// Ends without a beginning.
    pub unmatched_ends: u64,
    /// Kernels.
    pub kernels: u64,
    /// Copies and fills.
    pub moves: u64,
    /// Other operations of GPUs.
    pub other_ops: u64,
    /// Operations whose call was not recorded.
    pub ops_without_call: u64,
    /// Kernels with the call stack that launched them.
    pub launch_stacks: u64,
    /// Other calls with the call stack from which they were made.
    pub call_stacks: u64,
    /// Time that GPUs ran kernels, summed over all.
    pub kernel_ns: u64,
    /// What lay outside of the time that the user asked for.
    pub outside_window: u64,
}

impl EventTally {
    /// Whether anything was drawn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls
            + self.marks
            + self.ranges
            + self.locks
            + self.counters
            + self.kernels
            + self.moves
            + self.other_ops
            == 0
    }
}
