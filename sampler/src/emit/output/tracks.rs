//! The tracks of a process and its threads.

use rsys_proto::hashing::FastMap;
use rsys_proto::{ChildOrdering, NamedTrack, ProcessNamespace, ThreadTrack, TrackSequence};

use super::Output;
use crate::emit::thread_name::ThreadName;

/// Name of the tracks of times off the processor.
const OFF_CPU: &str = "off-CPU";

/// Name of the tracks of waits.
const WAITS: &str = "waiting";

/// Name of the tracks of sampled stacks: behind those of calls and ranges, of which the deep stacks
/// would push away what follows. Viewers order the tracks of a thread by their names.
const STACK: &str = "stack";

pub(super) const PROCESS_TRACK: u32 = 1;
pub(super) const METADATA_TRACK: u32 = 2;
const FIRST_THREAD_TRACK: u32 = 3;

/// The ids of tracks.
#[derive(Debug)]
pub(super) struct TrackIds {
    pub(super) namespace: ProcessNamespace,
    next: u32,
    threads: FastMap<u32, KnownThread>,
}

/// What is known of a thread.
#[derive(Debug, Default)]
struct KnownThread {
    name: ThreadName,
    /// Its track, once something is drawn on it. A second would make it two threads in viewers.
    track: Option<u64>,
    is_over: bool,
}

impl TrackIds {
    pub(super) fn new(namespace: ProcessNamespace) -> Self {
        Self {
            namespace,
            next: FIRST_THREAD_TRACK,
            threads: FastMap::default(),
        }
    }
}

/// A track that holds others, in the order in which they are made.
#[derive(Debug)]
pub struct Group {
    pub(super) uuid: u64,
    children: i32,
}

impl Group {
    /// The id of the track.
    #[must_use]
    pub fn uuid(&self) -> u64 {
        self.uuid
    }

    /// The rank of the next of its tracks.
    pub fn next_rank(&mut self) -> i32 {
        self.children += 1;
        self.children
    }
}

impl Output {
    pub(super) fn new_track(&mut self) -> u64 {
        let uuid = self.tracks.namespace.track(self.tracks.next);
        self.tracks.next += 1;
        uuid
    }

    /// A thread with this id starts, with its creator's name: if another had the id before, it gets
    /// a track of its own.
    pub fn thread_starts(&mut self, tid: u32, name: &str) {
        if self.tracks.threads.get(&tid).is_some_and(|it| it.is_over) {
            self.tracks.threads.remove(&tid);
        }
        self.name_thread(tid, |names| names.begin(name));
    }

    /// A thread is over. What is still to come of it goes to its track.
    pub fn thread_ends(&mut self, tid: u32) {
        if let Some(known) = self.tracks.threads.get_mut(&tid) {
            known.is_over = true;
        }
    }

    /// Takes over a name of a thread; `take_over` says whether another one is shown from now on.
    pub fn name_thread(&mut self, tid: u32, take_over: impl FnOnce(&mut ThreadName) -> bool) {
        let known = self.tracks.threads.entry(tid).or_default();
        if take_over(&mut known.name)
            && let Some(uuid) = known.track
        {
            self.describe_thread(tid, uuid);
        }
    }

    /// Takes over the names of threads that another trace of the process knows.
    pub fn adopt_names(&mut self, other: &Output) {
        for (&tid, known) in &other.tracks.threads {
            let thread = self.tracks.threads.entry(tid).or_default();
            thread.name = known.name.clone();
        }
    }

    fn describe_thread(&mut self, tid: u32, uuid: u64) {
        let known = self.tracks.threads.get(&tid);
        self.writer.buffer().thread(&ThreadTrack {
            uuid,
            pid: self.pid,
            tid,
            name: known.map_or("", |known| known.name.shown()),
            title: STACK,
        });
    }

    /// The track of a thread. The kernel's `name` stands where none is known.
    fn thread_track(&mut self, tid: u32, name: &str) -> u64 {
        if let Some(uuid) = self.tracks.threads.get(&tid).and_then(|it| it.track) {
            return uuid;
        }
        let uuid = self.new_track();
        let known = self.tracks.threads.entry(tid).or_default();
        known.track = Some(uuid);
        if known.name.shown().is_empty() {
            known.name.by_kernel(name);
        }
        self.describe_thread(tid, uuid);
        uuid
    }

    /// The track of a thread.
    pub fn thread(&mut self, tid: u32, name: &str) -> TrackSequence {
        let uuid = self.thread_track(tid, name);
        TrackSequence::new(self.writer.buffer(), uuid)
    }

    /// A track for the waits of a thread, beside its own.
    pub fn wait_track(&mut self, tid: u32, name: &str) -> TrackSequence {
        let thread = self.thread_track(tid, name);
        let waits = self.new_track();
        let out = self.writer.buffer();
        out.track(&NamedTrack {
            uuid: waits,
            parent: Some(thread),
            name: WAITS,
            description: Some("What this thread waited for, by the wall clock"),
            ..NamedTrack::default()
        });
        TrackSequence::new(out, waits)
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The uuid of the process's track.
    #[must_use]
    pub fn process_track(&self) -> u64 {
        self.tracks.namespace.track(PROCESS_TRACK)
    }

    /// The uuid of a thread's track.
    pub fn thread_uuid(&mut self, tid: u32, name: &str) -> u64 {
        self.thread_track(tid, name)
    }

    /// The id of the flow between a call and what it caused.
    #[must_use]
    pub fn flow(&self, correlation: u64) -> u64 {
        self.tracks.namespace.flow(correlation)
    }

    /// A group of tracks above all processes, of which it is number `rank`. Viewers put it there
    /// because its name begins with a capital letter, and the names of tracks of processes and
    /// threads do not: they number all of these in the order of their names, and what has a high
    /// number comes below the processes.
    pub fn group(&mut self, rank: u32, name: &str, description: &str) -> Group {
        let uuid = self.new_track();
        self.write_group(uuid, Some(rank.cast_signed()), name, description)
    }

    pub(super) fn write_group(
        &mut self,
        uuid: u64,
        rank: Option<i32>,
        name: &str,
        description: &str,
    ) -> Group {
        self.writer.buffer().track(&NamedTrack {
            uuid,
            rank,
            name,
            child_ordering: Some(ChildOrdering::Explicit),
            description: Some(description),
            ..NamedTrack::default()
        });
        Group { uuid, children: 0 }
    }

    /// A track for slices in a group. Those of equal name are drawn as one.
    pub fn group_track(&mut self, group: &Group, rank: i32, name: &str) -> TrackSequence {
        let uuid = self.new_track();
        let out = self.writer.buffer();
        out.track(&NamedTrack {
            uuid,
            parent: Some(group.uuid),
            rank: Some(rank),
            name,
            ..NamedTrack::default()
        });
        TrackSequence::new(out, uuid)
    }

    /// A track for slices below another. Those of equal name and parent are drawn as one.
    pub fn child_track(
        &mut self,
        parent: u64,
        name: &str,
        description: Option<&str>,
    ) -> TrackSequence {
        let uuid = self.new_track();
        let out = self.writer.buffer();
        out.track(&NamedTrack {
            uuid,
            parent: Some(parent),
            name,
            description,
            ..NamedTrack::default()
        });
        TrackSequence::new(out, uuid)
    }

    /// A track for the times of a thread off the processor, beside its own.
    pub fn off_cpu_track(&mut self, tid: u32, name: &str) -> TrackSequence {
        let thread = self.thread_track(tid, name);
        let description = "When this thread was off the processor, as the kernel recorded it";
        self.child_track(thread, OFF_CPU, Some(description))
    }
}
