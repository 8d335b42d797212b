//! What calls put into a stream besides operations of a GPU.

use super::call_names::plain;

/// What follows in the stream may have to wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum StreamOrder {
    /// Nothing of the kind.
    #[default]
    None,
    /// An event is recorded.
    RecordEvent,
    /// What follows waits for an event.
    WaitEvent,
    /// What follows waits for a function of the host.
    HostFunction,
    /// What follows waits for a value in memory.
    WaitValue,
    /// What follows is captured for a graph, and not executed.
    BeginCapture,
    /// That is over.
    EndCapture,
}

impl StreamOrder {
    /// What a call of this name puts into its stream. CUDA's calls have the same names as HIP's.
    #[must_use]
    pub fn of(call: &str) -> Self {
        match plain(call).unwrap_or_default() {
            "EventRecord" | "EventRecordWithFlags" => Self::RecordEvent,
            "StreamWaitEvent" => Self::WaitEvent,
            "LaunchHostFunc" | "StreamAddCallback" => Self::HostFunction,
            "StreamBeginCapture" | "StreamBeginCaptureToGraph" => Self::BeginCapture,
            "StreamEndCapture" => Self::EndCapture,
            "StreamWaitValue32" | "StreamWaitValue64" => Self::WaitValue,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_call_puts_into_its_stream() {
        for (name, order) in [
            ("hipEventRecord", StreamOrder::RecordEvent),
            ("hipEventRecord_spt", StreamOrder::RecordEvent),
            ("cudaStreamWaitEvent", StreamOrder::WaitEvent),
            ("cudaStreamWaitEvent_ptsz", StreamOrder::WaitEvent),
            ("cuStreamWaitEvent", StreamOrder::WaitEvent),
            ("cuEventRecord", StreamOrder::RecordEvent),
            ("cuStreamWaitValue32_v2", StreamOrder::WaitValue),
            ("hipLaunchHostFunc", StreamOrder::HostFunction),
            ("hipStreamWaitValue64", StreamOrder::WaitValue),
            ("hipStreamBeginCapture", StreamOrder::BeginCapture),
            ("hipStreamEndCapture_spt", StreamOrder::EndCapture),
            ("hipEventSynchronize", StreamOrder::None),
            ("hipLaunchKernel", StreamOrder::None),
            ("StreamWaitEvent", StreamOrder::None),
        ] {
            assert_eq!(StreamOrder::of(name), order, "{name}");
        }
    }
}
