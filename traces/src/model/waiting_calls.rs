//! Which calls hold their thread until a GPU has done something.

use super::call_names::plain;

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// All that was submitted to a GPU or a stream.
    Synchronisation,
    /// An event.
    Event,
    /// A copy that the call itself makes.
    Copy,
    /// Whatever uses memory that is given back.
    Release,
    /// A signal of the HSA runtime.
    Signal,
}

impl WaitsFor {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Synchronisation => "synchronisation",
            Self::Event => "event",
            Self::Copy => "copy",
            Self::Release => "release of memory",
            Self::Signal => "signal",
        }
    }
}

/// Calls of HIP and CUDA, by their plain names.
const CALLS: [(&str, WaitsFor); 36] = [
    ("DeviceSynchronize", WaitsFor::Synchronisation),
    ("CtxSynchronize", WaitsFor::Synchronisation),
    ("StreamSynchronize", WaitsFor::Synchronisation),
    ("DeviceReset", WaitsFor::Synchronisation),
    ("EventSynchronize", WaitsFor::Event),
    ("Memcpy", WaitsFor::Copy),
    ("MemcpyWithStream", WaitsFor::Copy),
    ("MemcpyHtoD", WaitsFor::Copy),
    ("MemcpyDtoH", WaitsFor::Copy),
    ("MemcpyDtoD", WaitsFor::Copy),
    ("MemcpyAtoA", WaitsFor::Copy),
    ("MemcpyAtoD", WaitsFor::Copy),
    ("MemcpyAtoH", WaitsFor::Copy),
    ("MemcpyDtoA", WaitsFor::Copy),
    ("MemcpyHtoA", WaitsFor::Copy),
    ("MemcpyPeer", WaitsFor::Copy),
    ("MemcpyToSymbol", WaitsFor::Copy),
    ("MemcpyFromSymbol", WaitsFor::Copy),
    ("MemcpyToArray", WaitsFor::Copy),
    ("MemcpyFromArray", WaitsFor::Copy),
    ("Memcpy2D", WaitsFor::Copy),
    ("Memcpy2DUnaligned", WaitsFor::Copy),
    ("Memcpy2DArrayToArray", WaitsFor::Copy),
    ("Memcpy2DFromArray", WaitsFor::Copy),
    ("Memcpy2DToArray", WaitsFor::Copy),
    ("MemcpyParam2D", WaitsFor::Copy),
    ("Memcpy3D", WaitsFor::Copy),
    ("Memcpy3DPeer", WaitsFor::Copy),
    ("DrvMemcpy2DUnaligned", WaitsFor::Copy),
    ("DrvMemcpy3D", WaitsFor::Copy),
    ("Free", WaitsFor::Release),
    ("FreeArray", WaitsFor::Release),
    ("FreeHost", WaitsFor::Release),
    ("HostFree", WaitsFor::Release),
    ("MemFree", WaitsFor::Release),
    ("MemFreeHost", WaitsFor::Release),
];

/// Calls of Intel's runtimes: Unified Runtime, what was before it, and Level Zero.
const INTEL: [(&str, WaitsFor); 8] = [
    ("urQueueFinish", WaitsFor::Synchronisation),
    ("urEventWait", WaitsFor::Event),
    ("piQueueFinish", WaitsFor::Synchronisation),
    ("piEventsWait", WaitsFor::Event),
    ("zeCommandQueueSynchronize", WaitsFor::Synchronisation),
    ("zeCommandListHostSynchronize", WaitsFor::Synchronisation),
    ("zeFenceHostSynchronize", WaitsFor::Synchronisation),
    ("zeEventHostSynchronize", WaitsFor::Event),
];

/// Beginnings of names of the HSA runtime's calls.
const HSA: [(&str, WaitsFor); 3] = [
    ("hsa_signal_wait", WaitsFor::Signal),
    ("hsa_amd_signal_wait", WaitsFor::Signal),
    ("hsa_memory_copy", WaitsFor::Copy),
];

/// What a call waits for; `None` if it returns at once.
pub fn waits_for(call: &str) -> Option<WaitsFor> {
    let in_hsa = HSA.iter().find(|(start, _)| call.starts_with(start));
    if let Some((_, what)) = in_hsa {
        return Some(*what);
    }
    let (name, calls) = match plain(call) {
        Some(name) => (name, &CALLS[..]),
        None => (call, &INTEL[..]),
    };
    let found = calls.iter().find(|(known, _)| *known == name);
    found.map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_call_waits_for() {
        for (name, what) in [
            ("hipMemcpy", Some(WaitsFor::Copy)),
            ("hipMemcpyAsync", None),
            ("hipMemcpy_spt", Some(WaitsFor::Copy)),
            ("hipStreamWaitEvent", None),
            ("hipEventSynchronize", Some(WaitsFor::Event)),
            ("cudaDeviceSynchronize", Some(WaitsFor::Synchronisation)),
            ("hsa_signal_wait_scacquire", Some(WaitsFor::Signal)),
            ("hipFreeAsync", None),
            ("cuStreamSynchronize", Some(WaitsFor::Synchronisation)),
            ("cuCtxSynchronize", Some(WaitsFor::Synchronisation)),
            ("cuEventSynchronize", Some(WaitsFor::Event)),
            ("cuMemcpyDtoH_v2", Some(WaitsFor::Copy)),
            ("cuMemcpyDtoHAsync_v2", None),
            ("cuMemFree_v2", Some(WaitsFor::Release)),
            ("cuLaunchKernel", None),
            ("Memcpy", None),
            ("urQueueFinish", Some(WaitsFor::Synchronisation)),
            ("zeEventHostSynchronize", Some(WaitsFor::Event)),
        ] {
            assert_eq!(waits_for(name), what, "{name}");
        }
    }
}
