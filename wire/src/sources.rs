//! The sources: what records events beside the samples, one row each.
//!
//! A source is a row here and a folder or file in the agent (`agent/src/sources/`). From the row follow the agent's settings, the
//! choice by `-I`, and the track and category on which the sampler draws its events.

use crate::program::{AGENT_FILE, LOCKS_AGENT_FILE, PARALLEL_AGENT_FILE};
use crate::text::parts;

/// The track of a thread on which events are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Track {
    /// Calls of runtimes and libraries, nested in each other.
    Calls,
    /// Ranges and marks: what the program says of itself.
    Ranges,
    /// The same by interfaces that are no runtime's.
    Regions,
    /// Parallel regions, work-sharing, waits and tasks of OpenMP.
    OpenMp,
    /// Kernels, regions and copies of Kokkos.
    Kokkos,
}

/// The builds of the agent, which differ in the functions that they export. Each has the sources of the one before it, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// What costs a program nothing.
    Plain,
    /// In front of hundreds of functions, some of which programs look for to see whether a library is there.
    Parallel,
    /// In front of functions that programs call all the time.
    Locks,
}

impl Build {
    /// The file name of its library.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Build::Plain => AGENT_FILE,
            Build::Parallel => PARALLEL_AGENT_FILE,
            Build::Locks => LOCKS_AGENT_FILE,
        }
    }
}

/// What becomes of an event whose thread's ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// Its thread waits for room: events that other records refer to, or whose number is itself a result.
    Wait,
    /// It is dropped and counted: events that are frequent, and made where a wait would change what is measured, as within a lock. Only
    /// beginnings, marks and ranges are dropped; the end of what was recorded waits.
    Drop,
}

/// One source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// What its events belong to.
    pub category: Category,
    /// Its name: that of its category in a trace, and its word in the agent's settings.
    pub name: &'static str,
    /// Where its events are drawn.
    pub track: Track,
    /// The name that switches it on (`-I`), or `None` where it is always on.
    pub backend: Option<&'static str>,
    /// Whether operations of GPUs are recorded along with it.
    pub with_gpu: bool,
    /// Whether the operations that a call causes hang on the call itself. Those of a collective hang on the calls within it.
    pub owns_operations: bool,
    /// What becomes of its events when a ring is full.
    pub when_full: WhenFull,
}

macro_rules! sources {
    ($($(#[$about:meta])* $category:ident = $number:literal {
        name: $name:literal, track: $track:ident, backend: $backend:expr, with_gpu: $gpu:literal,
        owns_operations: $owns:literal, when_full: $when_full:ident
    })*) => {
        /// What a call or a mark belongs to: a source, or the profiler itself.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Category {
            $($(#[$about])* $category = $number,)*
        }

        /// All sources.
        pub const SOURCES: &[Source] = &[$(Source {
            category: Category::$category,
            name: $name,
            track: Track::$track,
            backend: $backend,
            with_gpu: $gpu,
            owns_operations: $owns,
            when_full: WhenFull::$when_full,
        },)*];

        impl Category {
            /// What becomes of its events when a ring is full.
            #[inline]
            #[must_use]
            pub const fn when_full(self) -> WhenFull {
                match self {
                    $(Category::$category => WhenFull::$when_full,)*
                }
            }
        }
    };
}

sources! {
    /// A call of the HIP runtime.
    Hip = 1 {
        name: "hip", track: Calls, backend: Some("roctracer"), with_gpu: true, owns_operations: true,
        when_full: Wait
    }
    /// A call of the HSA runtime.
    Hsa = 2 {
        name: "hsa", track: Calls, backend: Some("hsa"), with_gpu: true, owns_operations: true,
        when_full: Wait
    }
    /// A range or mark of the program, by roctx.
    Roctx = 3 {
        name: "roctx", track: Ranges, backend: Some("roctx"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// A call of RCCL.
    Rccl = 4 {
        name: "rccl", track: Calls, backend: Some("rcclp"), with_gpu: false, owns_operations: false,
        when_full: Wait
    }
    /// What RCCL's proxies do, by its profiler interface.
    RcclProxy = 17 {
        name: "rccl_proxy", track: Calls, backend: Some("rccl-proxy"), with_gpu: false, owns_operations: false,
        when_full: Drop
    }
    /// Something that the profiler says about itself.
    Profiler = 5 {
        name: "rsys", track: Ranges, backend: None, with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// Something that an OpenMP runtime says, through OMPT or a wrapped function of libgomp.
    Openmp = 9 {
        name: "openmp", track: OpenMp, backend: Some("ompt"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// Something that Kokkos tells its tools.
    Kokkos = 10 {
        name: "kokkos", track: Kokkos, backend: Some("kokkosp"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// A call of MPI.
    Mpi = 6 {
        name: "mpi", track: Calls, backend: Some("mpip"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// A wait for a mutex, a condition, a semaphore, a barrier or the end of a thread.
    MutexLocks = 11 {
        name: "mutex", track: Calls, backend: Some("mutex-locks"), with_gpu: false, owns_operations: true,
        when_full: Drop
    }
    /// A wait for a reader-writer lock.
    RwLocks = 12 {
        name: "rwlock", track: Calls, backend: Some("rw-locks"), with_gpu: false, owns_operations: true,
        when_full: Drop
    }
    /// A wait for a spin lock.
    SpinLocks = 13 {
        name: "spinlock", track: Calls, backend: Some("spin-locks"), with_gpu: false, owns_operations: true,
        when_full: Drop
    }
    /// A region, mark or counter of the program's own.
    User = 14 {
        name: "user", track: Regions, backend: Some("regions"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// A task, frame or mark of the program, by ITT.
    Itt = 15 {
        name: "itt", track: Regions, backend: Some("itt"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// A range or mark of the program, by NVTX.
    Nvtx = 16 {
        name: "nvtx", track: Regions, backend: Some("nvtx"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// A call of OpenSHMEM.
    Shmem = 20 {
        name: "shmem", track: Calls, backend: Some("shmem"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
    /// An operator of PyTorch.
    Torch = 22 {
        name: "torch", track: Calls, backend: Some("torch"), with_gpu: false, owns_operations: false,
        when_full: Wait
    }
    /// A call of UCX.
    Ucx = 21 {
        name: "ucx", track: Calls, backend: Some("ucx"), with_gpu: false, owns_operations: true,
        when_full: Wait
    }
}

impl Category {
    /// Whether its events are waits for locks.
    #[inline]
    #[must_use]
    pub const fn is_of_locks(self) -> bool {
        matches!(
            self,
            Category::MutexLocks | Category::RwLocks | Category::SpinLocks
        )
    }

    /// Whether its events are regions and marks that the program makes by an interface of no runtime.
    #[inline]
    #[must_use]
    pub const fn is_of_program(self) -> bool {
        matches!(self, Category::User | Category::Itt | Category::Nvtx)
    }

    /// The first build of the agent that records them.
    #[must_use]
    pub const fn build(self) -> Build {
        match self {
            Category::Mpi
            | Category::Openmp
            | Category::Kokkos
            | Category::Shmem
            | Category::Torch
            | Category::Ucx => Build::Parallel,
            _ if self.is_of_locks() => Build::Locks,
            _ => Build::Plain,
        }
    }

    /// The source of these events.
    #[must_use]
    pub fn source(self) -> &'static Source {
        SOURCES
            .iter()
            .find(|source| source.category == self)
            .unwrap_or(&SOURCES[0])
    }

    pub(crate) fn from_flags(flags: u8) -> Option<Self> {
        SOURCES
            .iter()
            .map(|source| source.category)
            .find(|category| *category as u8 == flags)
    }
}

/// Which events are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventChoice {
    /// A bit for each source, by the number of its category.
    sources: u32,
    /// Whether kernels, copies and fills of GPUs are.
    pub gpu: bool,
}

/// The word for GPU operations among the names of sources.
const GPU: &str = "gpu";

impl EventChoice {
    /// With one more source.
    #[must_use]
    pub const fn with(mut self, category: Category) -> Self {
        self.sources |= 1 << category as u32;
        self
    }

    /// With operations of GPUs.
    #[must_use]
    pub const fn with_gpu(mut self) -> Self {
        self.gpu = true;
        self
    }

    /// Whether a source is on.
    #[inline]
    #[must_use]
    pub const fn has(self, category: Category) -> bool {
        self.sources & 1 << category as u32 != 0
    }

    /// Whether anything is recorded beside the program's own regions, which need nothing until the program makes one.
    #[inline]
    #[must_use]
    pub const fn any(self) -> bool {
        const REGIONS: u32 =
            1 << Category::User as u32 | 1 << Category::Itt as u32 | 1 << Category::Nvtx as u32;
        self.sources & !REGIONS != 0 || self.gpu
    }

    /// The build of the agent that records all of them.
    #[must_use]
    pub fn build(self) -> Build {
        let on = SOURCES.iter().filter(|source| self.has(source.category));
        on.map(|source| source.category.build())
            .max()
            .unwrap_or(Build::Plain)
    }

    /// Whether anything of runtimes is recorded: neither regions nor locks.
    #[must_use]
    pub fn any_of_runtimes(self) -> bool {
        let is_of_runtimes = |category: Category| {
            !category.is_of_locks() && !category.is_of_program() && self.has(category)
        };
        self.gpu || SOURCES.iter().any(|source| is_of_runtimes(source.category))
    }

    /// Whether anything of GPUs is recorded: operations, or calls of their runtimes.
    #[must_use]
    pub fn any_of_gpus(self) -> bool {
        self.gpu
            || SOURCES
                .iter()
                .any(|source| source.with_gpu && self.has(source.category))
    }

    pub(crate) fn to_words(self) -> String {
        let on = SOURCES.iter().filter(|source| self.has(source.category));
        let names: Vec<&str> = on
            .map(|source| source.name)
            .chain(self.gpu.then_some(GPU))
            .collect();
        names.join(",")
    }

    #[inline]
    pub(crate) fn from_words(words: &str) -> Self {
        let mut choice = Self::default();
        for word in parts(words, b',') {
            let named = SOURCES.iter().filter(|source| source.name == word);
            choice = named.fold(choice, |choice, source| choice.with(source.category));
            choice.gpu |= word == GPU;
        }
        choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_names_numbers_and_backends_of_their_own() {
        for (place, source) in SOURCES.iter().enumerate() {
            for other in &SOURCES[..place] {
                assert!((other.category as u8) < 32 && other.category != source.category);
                assert_ne!(source.name, other.name);
                assert_ne!(source.backend, other.backend);
            }
        }
    }
}
