//! What stands in a stream in front of an operation and makes it wait: events, functions of the host, values in memory.

use std::collections::HashMap;

use crate::joined::submissions::Submission;
use rsys_traces::model::{HostSlice, Model, ProcessId, StreamOrder, TextId};

/// A stream of a process, by its handle.
type Stream = (ProcessId, u64);

/// What was put into a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamWait {
    pub(super) time_ns: u64,
    pub(super) what: StreamOrder,
    /// The call that put it there.
    pub(super) name: TextId,
}

/// All that was put into streams.
#[derive(Debug, Default)]
pub(super) struct StreamWaits {
    of: HashMap<Stream, Vec<StreamWait>>,
    /// When operations were submitted to these streams.
    operations: HashMap<Stream, Vec<u64>>,
}

impl StreamWaits {
    pub(super) fn take(&mut self, slice: &HostSlice) {
        let is_waited_for = matches!(
            slice.order,
            StreamOrder::WaitEvent | StreamOrder::HostFunction | StreamOrder::WaitValue
        );
        if slice.stream == 0 || !is_waited_for {
            return;
        }
        let stream = (slice.process, slice.stream);
        self.of.entry(stream).or_default().push(StreamWait {
            time_ns: slice.start_ns,
            what: slice.order,
            name: slice.name,
        });
    }

    /// Forgets what was put into the streams of a process before a time, but for what stood there last.
    pub(super) fn discard(&mut self, process: ProcessId, until_ns: u64) {
        for (&(of, _), stream_waits) in &mut self.of {
            if of == process {
                let behind = stream_waits.partition_point(|order| order.time_ns < until_ns);
                stream_waits.drain(..behind.saturating_sub(1));
            }
        }
        for (&(of, _), times) in &mut self.operations {
            if of == process {
                let behind = times.partition_point(|time_ns| *time_ns < until_ns);
                times.drain(..behind.saturating_sub(1));
            }
        }
    }

    /// Brings everything of a process into the order of time, with the calls that submitted operations.
    pub(super) fn sort(
        &mut self,
        process: ProcessId,
        submissions: impl Iterator<Item = Submission>,
        model: &Model,
    ) {
        if !self.of.keys().any(|(of, _)| *of == process) {
            return;
        }
        for submission in submissions {
            let stream = (process, submission.stream);
            if self.of.contains_key(&stream) && submits(model.text(submission.name)) {
                let times = self.operations.entry(stream).or_default();
                times.push(submission.start_ns);
            }
        }
        let own = |(of, _): &Stream| *of == process;
        for (_, stream_waits) in self.of.iter_mut().filter(|(stream, _)| own(stream)) {
            stream_waits.sort_unstable();
        }
        for (_, times) in self.operations.iter_mut().filter(|(stream, _)| own(stream)) {
            times.sort_unstable();
            // Those that are still kept are shown again each time.
            times.dedup();
        }
    }

    /// What stands directly in front of an operation: put into its stream behind the operation before.
    pub(super) fn in_front(&self, process: ProcessId, call: &Submission) -> Option<&StreamWait> {
        let stream = (process, call.stream);
        let stream_waits = self.of.get(&stream)?;
        let behind = stream_waits.partition_point(|order| order.time_ns < call.start_ns);
        let last = stream_waits.get(behind.checked_sub(1)?)?;
        let operations = self.operations.get(&stream).map_or(&[][..], Vec::as_slice);
        let behind = operations.partition_point(|time_ns| *time_ns < call.start_ns);
        let before = behind.checked_sub(1).and_then(|at| operations.get(at));
        before
            .is_none_or(|before_ns| *before_ns < last.time_ns)
            .then_some(last)
    }
}

/// Whether a call that names a stream gives it an operation, as opposed to those that ask or wait.
fn submits(call: &str) -> bool {
    let is_move = ["Memcpy", "Memset"].iter().any(|part| call.contains(part));
    is_move || call.contains("Launch") && StreamOrder::of(call) == StreamOrder::None
}
