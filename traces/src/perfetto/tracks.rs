//! The tree of tracks.

use std::collections::HashMap;

use rsys_proto::schema::{CounterDescriptor, ProcessDescriptor, ThreadDescriptor, TrackDescriptor};

/// The place of a track among the [`Tracks`] of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackIndex(u32);

impl TrackIndex {
    /// Its place in tables by track.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A track.
#[derive(Debug, Clone, Default)]
pub struct Track {
    /// Its id in the file.
    pub uuid: u64,
    /// The id of the track that it belongs to; 0 if none.
    pub parent: u64,
    /// Name.
    pub name: String,
    /// The process whose track it is.
    pub process: Option<Box<ProcessDescriptor>>,
    /// The thread whose track it is.
    pub thread: Option<Box<ThreadDescriptor>>,
    /// What a counter's values are.
    pub counter: Option<CounterDescriptor>,
    /// Whether a descriptor was read.
    pub is_described: bool,
}

/// All tracks that events or descriptors have named.
#[derive(Debug, Default)]
pub struct Tracks {
    list: Vec<Track>,
    by_uuid: HashMap<u64, TrackIndex>,
}

/// Tracks nest a few levels; a damaged trace may have a circle.
const LEVELS_MAX: usize = 16;

impl Tracks {
    /// The track with an id, which is new if nothing has named it.
    pub fn index(&mut self, uuid: u64) -> TrackIndex {
        let list = &mut self.list;
        *self.by_uuid.entry(uuid).or_insert_with(|| {
            list.push(Track {
                uuid,
                ..Track::default()
            });
            TrackIndex((list.len() - 1) as u32)
        })
    }

    /// The track with an id, if something has named it.
    #[must_use]
    pub fn find(&self, uuid: u64) -> Option<TrackIndex> {
        self.by_uuid.get(&uuid).copied()
    }

    /// Takes in a descriptor. What a later one does not say stays.
    pub fn describe(&mut self, descriptor: TrackDescriptor) -> TrackIndex {
        let index = self.index(descriptor.uuid.unwrap_or(0));
        let track = &mut self.list[index.index()];
        track.is_described = true;
        track.parent = descriptor.parent_uuid.unwrap_or(track.parent);
        track.name = descriptor.name.unwrap_or(std::mem::take(&mut track.name));
        track.process = descriptor.process.map(Box::new).or(track.process.take());
        track.thread = descriptor.thread.map(Box::new).or(track.thread.take());
        track.counter = descriptor.counter.or(track.counter.take());
        index
    }

    /// A track.
    ///
    /// # Panics
    /// When the index is one of another trace.
    #[must_use]
    pub fn get(&self, index: TrackIndex) -> &Track {
        &self.list[index.index()]
    }

    /// A track and those that it belongs to, from the inside out.
    pub fn chain(&self, index: TrackIndex) -> impl Iterator<Item = (TrackIndex, &Track)> {
        let mut at = Some(index);
        let chain = std::iter::from_fn(move || {
            let index = at?;
            let track = self.list.get(index.index())?;
            at = (track.parent != 0)
                .then(|| self.find(track.parent))
                .flatten();
            Some((index, track))
        });
        chain.take(LEVELS_MAX)
    }

    /// The thread's track that a track is or belongs to.
    #[must_use]
    pub fn thread(&self, index: TrackIndex) -> Option<TrackIndex> {
        let mut chain = self.chain(index);
        chain.find_map(|(index, track)| track.thread.is_some().then_some(index))
    }

    /// All tracks, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &Track> {
        self.list.iter()
    }

    /// How many there are; indices are below.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
