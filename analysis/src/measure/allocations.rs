//! Which calls make memory and give it back.

/// Whose memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Memory {
    /// Of a GPU.
    Device,
    /// Moves between GPU and host.
    Managed,
    /// Of the host, pinned.
    Host,
}

impl Memory {
    /// In words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Managed => "managed",
            Self::Host => "pinned host",
        }
    }
}

/// What a call does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Makes memory.
    Allocate(Memory),
    /// Gives back what was made, whatever it is.
    Free,
}

/// The calls, without the `hip` in front. CUDA's have the same names.
const CALLS: [(&str, Does); 15] = [
    ("Malloc", Does::Allocate(Memory::Device)),
    ("MallocAsync", Does::Allocate(Memory::Device)),
    ("MallocFromPoolAsync", Does::Allocate(Memory::Device)),
    ("MallocPitch", Does::Allocate(Memory::Device)),
    ("MemAllocPitch", Does::Allocate(Memory::Device)),
    ("ExtMallocWithFlags", Does::Allocate(Memory::Device)),
    ("MallocManaged", Does::Allocate(Memory::Managed)),
    ("HostMalloc", Does::Allocate(Memory::Host)),
    ("MallocHost", Does::Allocate(Memory::Host)),
    ("HostAlloc", Does::Allocate(Memory::Host)),
    ("MemAllocHost", Does::Allocate(Memory::Host)),
    ("Free", Does::Free),
    ("FreeAsync", Does::Free),
    ("HostFree", Does::Free),
    ("FreeHost", Does::Free),
];

/// What a call does with memory; `None` if nothing.
pub(crate) fn does(call: &str) -> Option<Does> {
    let name = call
        .strip_prefix("hip")
        .or_else(|| call.strip_prefix("cuda"))?;
    let found = CALLS.iter().find(|(known, _)| *known == name);
    found.map(|(_, does)| *does)
}
