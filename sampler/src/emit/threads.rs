//! One ring's words become one thread's stacks.
//!
//! A sample names only the frames that differ from the sample before in its ring. [`Stack`] puts the whole stack together again and
//! keeps the frames that were found for the part that did not change.

use std::borrow::Cow;

use rsys_proto::{StringId, TrackSequence};
use rsys_wire::record::{FRAME_SCANNED, ThreadName};

use super::frames::{FrameId, Frames, FunctionId};
use super::slices::{SliceBuilder, Timing};

/// The stack of the last sample of a ring, outermost frame first.
#[derive(Debug, Default)]
pub struct Stack {
    words: Vec<u64>,
    /// How many frames there are up to each word.
    ends: Vec<u32>,
    frames: Vec<FrameId>,
    functions: Vec<FunctionId>,
}

impl Stack {
    /// Forgets everything, as at a thread's start or after damage.
    pub fn clear(&mut self) {
        self.words.clear();
        self.ends.clear();
        self.frames.clear();
        self.functions.clear();
    }

    /// Takes over a sample: its `shared` outermost words stay, the `new` ones (innermost first) come inside of them.
    ///
    /// Returns `false`, with an empty stack, when there are not so many to share.
    #[must_use]
    pub fn update(&mut self, tables: &Frames, time_ns: u64, shared: u16, new: &[u64]) -> bool {
        let shared = usize::from(shared);
        if shared > self.words.len() {
            self.clear();
            return false;
        }
        self.words.truncate(shared);
        self.ends.truncate(shared);
        let kept = self.ends.last().map_or(0, |&end| end as usize);
        self.frames.truncate(kept);
        self.functions.truncate(kept);
        for &word in new.iter().rev() {
            let mark = (word & FRAME_SCANNED != 0).then(|| tables.scanned_mark());
            let frames = tables.frames_of(word, time_ns).iter().copied();
            for frame in frames.chain(mark) {
                self.frames.push(frame);
                self.functions.push(tables.frame(frame).function);
            }
            self.words.push(word);
            self.ends.push(self.frames.len() as u32);
        }
        true
    }

    /// The words as they came.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Frames and functions, outermost first, inside of those that say what is wrong with the stack.
    #[must_use]
    pub fn with_marks(
        &self,
        tables: &Frames,
        marks: &[FrameId],
    ) -> (Cow<'_, [FrameId]>, Cow<'_, [FunctionId]>) {
        if marks.is_empty() {
            return (Cow::Borrowed(&self.frames), Cow::Borrowed(&self.functions));
        }
        let functions = marks.iter().map(|&frame| tables.frame(frame).function);
        (
            marks.iter().chain(&self.frames).copied().collect(),
            functions.chain(self.functions.iter().copied()).collect(),
        )
    }
}

/// A thread that has a ring.
#[derive(Debug)]
pub struct Thread {
    /// Its id, as the process sees it.
    pub tid: u32,
    /// Its name.
    pub name: String,
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

/// A thread's name without its padding.
#[must_use]
pub fn thread_name(name: &ThreadName) -> String {
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
