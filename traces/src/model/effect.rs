//! What calls do beside giving work to GPUs, by their names.

use super::{WaitsFor, does_with_memory, waits_for};

/// What a call does to its thread and to the work of GPUs. It is known while records are read, so that of the others nothing need be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Effect {
    /// Nothing of the kind: it launches, asks, sets.
    #[default]
    None,
    /// Waits for work that was submitted before.
    Synchronises,
    /// Waits for its own copy.
    Copies,
    /// Copies while its thread goes on, as long as the runtime can.
    CopiesAside,
    /// Makes memory or gives it back.
    Memory,
    /// Launches a graph: one call, many operations.
    LaunchesGraph,
}

impl Effect {
    /// What a call of this name does. CUDA's calls have the same names as HIP's.
    #[must_use]
    pub fn of(call: &str) -> Self {
        if does_with_memory(call).is_some() {
            return Self::Memory;
        }
        match waits_for(call) {
            Some(WaitsFor::Synchronisation | WaitsFor::Event | WaitsFor::Signal) => {
                Self::Synchronises
            }
            Some(WaitsFor::Copy) => Self::Copies,
            Some(WaitsFor::Release) => Self::Memory,
            None if call.contains("GraphLaunch") => Self::LaunchesGraph,
            None if call.contains("Memcpy") && call.contains("Async") => Self::CopiesAside,
            None => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_call_does() {
        for (name, effect) in [
            ("hipLaunchKernel", Effect::None),
            ("hipStreamSynchronize", Effect::Synchronises),
            ("cudaEventSynchronize", Effect::Synchronises),
            ("hsa_signal_wait_scacquire", Effect::Synchronises),
            ("hipMemcpy", Effect::Copies),
            ("hipMemcpyAsync", Effect::CopiesAside),
            ("hipMallocAsync", Effect::Memory),
            ("hipFree", Effect::Memory),
            ("cudaGraphLaunch_ptsz", Effect::LaunchesGraph),
            ("hipDeviceReset", Effect::Synchronises),
        ] {
            assert_eq!(Effect::of(name), effect, "{name}");
        }
    }
}
