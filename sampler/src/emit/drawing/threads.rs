//! The threads of a process and what is open on their tracks.

use rsys_proto::{StringId, TrackSequence};

use super::slices::{SliceBuilder, Timing};
use crate::emit::learned::frames::FunctionId;

/// A thread that has a ring.
#[derive(Debug)]
pub struct Thread {
    /// Its id, as the process sees it.
    pub tid: u32,
    /// How many threads of the process started before it.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its name as the kernel has it. A name from Python stands until this one changes.
    pub kernel_name: String,
    /// Its track, once it has a sample.
    pub track: Option<ThreadTrack>,
    /// Periods of CPU time that its samples stand for.
    pub weight: u64,
}

/// The track of a thread.
#[derive(Debug)]
pub struct ThreadTrack {
    /// Its events.
    pub sequence: TrackSequence,
    /// What paints its slices.
    pub builder: SliceBuilder<FunctionId>,
}

impl ThreadTrack {
    /// A track without events.
    #[must_use]
    pub fn new(sequence: TrackSequence, timing: Timing) -> Self {
        Self {
            sequence,
            builder: SliceBuilder::new(timing),
        }
    }
}

/// The names of functions as slices, found once.
#[derive(Debug, Default)]
pub struct SliceNames {
    names: Vec<Option<StringId>>,
}

impl SliceNames {
    /// The name of a function.
    pub fn get(&mut self, function: FunctionId, intern: impl FnOnce() -> StringId) -> StringId {
        let index = function.0 as usize;
        if index >= self.names.len() {
            self.names.resize(index + 1, None);
        }
        *self.names[index].get_or_insert_with(intern)
    }
}
