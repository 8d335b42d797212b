//! Which calls make memory and give it back, and what frameworks say of their own memory.

use super::call_names::plain;
use super::{ProcessId, ThreadId};

/// A framework gives a part of its memory to a tensor, or takes it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryEvent {
    /// BOOTTIME.
    pub time_ns: u64,
    /// The process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// Number of the GPU; `None`: memory of the host.
    pub device: Option<u32>,
    /// The address.
    pub address: u64,
    /// Bytes, negative if they are taken back.
    pub bytes: i64,
    /// What tensors have of the device's memory afterwards, and what the framework holds, if it says so.
    pub allocated: Option<u64>,
    /// See `allocated`.
    pub reserved: Option<u64>,
}

/// Whose memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Allocated {
    /// Of a GPU.
    Device,
    /// Moves between GPU and host.
    Managed,
    /// Of the host, pinned.
    Host,
}

impl Allocated {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Managed => "managed",
            Self::Host => "pinned host",
        }
    }
}

/// What a call does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoesWithMemory {
    /// Makes memory.
    Allocate(Allocated),
    /// Gives back what was made, whatever it is.
    Free,
}

/// Calls of HIP and CUDA, by their plain names.
const CALLS: [(&str, DoesWithMemory); 23] = [
    ("Malloc", DoesWithMemory::Allocate(Allocated::Device)),
    ("MallocAsync", DoesWithMemory::Allocate(Allocated::Device)),
    (
        "MallocFromPoolAsync",
        DoesWithMemory::Allocate(Allocated::Device),
    ),
    ("MallocPitch", DoesWithMemory::Allocate(Allocated::Device)),
    ("MemAllocPitch", DoesWithMemory::Allocate(Allocated::Device)),
    (
        "ExtMallocWithFlags",
        DoesWithMemory::Allocate(Allocated::Device),
    ),
    (
        "MallocManaged",
        DoesWithMemory::Allocate(Allocated::Managed),
    ),
    ("HostMalloc", DoesWithMemory::Allocate(Allocated::Host)),
    ("MallocHost", DoesWithMemory::Allocate(Allocated::Host)),
    ("HostAlloc", DoesWithMemory::Allocate(Allocated::Host)),
    ("MemAllocHost", DoesWithMemory::Allocate(Allocated::Host)),
    ("Free", DoesWithMemory::Free),
    ("FreeAsync", DoesWithMemory::Free),
    ("HostFree", DoesWithMemory::Free),
    ("FreeHost", DoesWithMemory::Free),
    // Of the driver of CUDA.
    ("MemAlloc", DoesWithMemory::Allocate(Allocated::Device)),
    ("MemAllocAsync", DoesWithMemory::Allocate(Allocated::Device)),
    (
        "MemAllocFromPoolAsync",
        DoesWithMemory::Allocate(Allocated::Device),
    ),
    (
        "MemAllocManaged",
        DoesWithMemory::Allocate(Allocated::Managed),
    ),
    ("MemHostAlloc", DoesWithMemory::Allocate(Allocated::Host)),
    ("MemFree", DoesWithMemory::Free),
    ("MemFreeAsync", DoesWithMemory::Free),
    ("MemFreeHost", DoesWithMemory::Free),
];

/// What a call does with memory; `None` if nothing.
pub fn does_with_memory(call: &str) -> Option<DoesWithMemory> {
    // Records of rocprofv3 that stand for calls, with the agent behind them where that is a CPU.
    if let Some(operation) = call.strip_prefix("MEMORY_ALLOCATION_") {
        return match operation {
            "ALLOCATE" | "VMEM_ALLOCATE" => Some(DoesWithMemory::Allocate(Allocated::Device)),
            "ALLOCATE (CPU)" | "VMEM_ALLOCATE (CPU)" => {
                Some(DoesWithMemory::Allocate(Allocated::Host))
            }
            _ if operation.starts_with("FREE") || operation.starts_with("VMEM_FREE") => {
                Some(DoesWithMemory::Free)
            }
            _ => None,
        };
    }
    let name = plain(call)?;
    let found = CALLS.iter().find(|(known, _)| *known == name);
    found.map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_call_does_with_memory() {
        let device = DoesWithMemory::Allocate(Allocated::Device);
        for (name, what) in [
            ("hipMalloc", Some(device)),
            ("cudaMallocAsync_ptsz", Some(device)),
            ("cuMemAlloc_v2", Some(device)),
            ("cuMemFree_v2", Some(DoesWithMemory::Free)),
            ("cuMemcpyDtoH_v2", None),
        ] {
            assert_eq!(does_with_memory(name), what, "{name}");
        }
    }
}
