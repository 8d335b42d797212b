//! The sources of events, each a folder or file of its own, and the loops over all of them.
//!
//! [`gpu`] records what GPUs do and the calls that make them do it; [`roctx`], [`rccl`], `openmp`, `kokkos` and [`regions`] what the program says about itself. Libraries of
//! the program's own choice have their functions exported here in front of them, and `dlsym` hands the wrappers to those who open the
//! libraries themselves ([`crate::interpose::wrapped`]); each wrapper calls the real function, if there is one, and returns what that
//! returns.

pub mod gpu;
#[cfg(any(feature = "parallel", test))]
mod kokkos;
#[cfg(any(feature = "parallel", test))]
mod library_calls;
mod locks;
mod marker_words;
#[cfg(any(feature = "parallel", test))]
mod mpi;
#[cfg(any(feature = "parallel", test))]
mod openmp;
mod rccl;
mod regions;
mod roctx;
#[cfg(any(feature = "parallel", test))]
mod shmem;
mod source;
mod table;
#[cfg(any(feature = "parallel", test))]
mod torch;
#[cfg(any(feature = "parallel", test))]
mod ucx;

use std::ffi::CStr;

use crate::events;
use crate::interpose::interposed::Interposed;
use crate::state;

pub use self::source::{Answer, Ending, Source};

/// All sources. A function's name belongs to the first whose prefix it has.
static SOURCES: &[&Source] = &[
    &gpu::SOURCE,
    &roctx::SOURCE,
    &rccl::SOURCE,
    #[cfg(any(feature = "parallel", test))]
    &openmp::SOURCE,
    #[cfg(any(feature = "parallel", test))]
    &openmp::GOMP,
    #[cfg(any(feature = "parallel", test))]
    &kokkos::SOURCE,
    #[cfg(any(feature = "parallel", test))]
    &mpi::SOURCE,
    #[cfg(any(feature = "parallel", test))]
    &shmem::SOURCE,
    #[cfg(any(feature = "parallel", test))]
    &ucx::SOURCE,
    #[cfg(any(feature = "parallel", test))]
    &torch::SOURCE,
    &locks::SOURCE,
    &regions::SOURCE,
    regions::NEW,
    regions::OLD,
];

/// A function that a source stands in front of.
#[derive(Debug)]
pub struct Found {
    /// The function.
    pub function: Interposed,
    /// Whether its source is on.
    pub is_on: bool,
    /// Whether it does its part without any library.
    pub is_always_there: bool,
}

/// The function of this name that a source stands in front of.
#[unsafe(link_section = "rsys_start")]
pub fn find(name: &CStr) -> Option<Found> {
    let bytes = name.to_bytes();
    let (source, function) = SOURCES.iter().find_map(|source| {
        if let Some(table) = source.table {
            let number = (table.find)(bytes)?;
            return Some((source, Interposed::OfTable(table, number)));
        }
        if source.wrapped.is_empty() || !bytes.starts_with(source.prefix) {
            return None;
        }
        let mut functions = source.wrapped.iter();
        let wrapped = functions.find(|wrapped| wrapped.name() == name)?;
        Some((source, Interposed::Wrapped(wrapped)))
    })?;
    let mut categories = source.categories.iter();
    Some(Found {
        function,
        is_on: categories.any(|category| events::records(*category)),
        is_always_there: source.is_always_there,
    })
}

/// Who answers for `dlsym` when it is asked for this name.
pub fn answer(name: &CStr) -> Option<Answer> {
    SOURCES
        .iter()
        .flat_map(|source| source.answers)
        .find(|(known, _)| *known == name)
        .map(|(_, answer)| *answer)
}

/// A fork's child begins.
pub fn after_fork_in_child() {
    for source in SOURCES {
        (source.after_fork_in_child)();
    }
}

/// The process ends, or seems to. May hold the caller for two seconds if a GPU hangs. Not for signal handlers.
#[unsafe(link_section = "rsys_start")]
pub fn at_end(ending: Ending) {
    // A source with something to tell has recorded before, which starts a deferred process.
    if !state::is_deferred() && state::may_set_up() {
        for source in SOURCES {
            (source.at_end)(ending);
        }
    }
}

/// CPU time of threads that are not sampled, in nanoseconds.
pub fn unsampled_cpu_ns() -> u64 {
    SOURCES.iter().fold(0, |sum, source| {
        sum.saturating_add((source.unsampled_cpu_ns)())
    })
}
