//! The tracks of a process and its threads.

use rsys_proto::hashing::FastMap;
use rsys_proto::{ChildOrdering, NamedTrack, ProcessNamespace, ThreadTrack, TrackSequence};

use super::Output;

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
    /// The tracks of threads, and whether the thread has ended. A thread has one: a second would
    /// make it two threads in viewers.
    threads: FastMap<u32, (u64, bool)>,
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

    /// A thread with this id starts: if another had it before, it gets a track of its own.
    pub fn thread_starts(&mut self, tid: u32) {
        if self.tracks.threads.get(&tid).is_some_and(|(_, over)| *over) {
            self.tracks.threads.remove(&tid);
        }
    }

    /// A thread is over. What is still to come of it goes to its track.
    pub fn thread_ends(&mut self, tid: u32) {
        if let Some((_, over)) = self.tracks.threads.get_mut(&tid) {
            *over = true;
        }
    }

    fn thread_track(&mut self, tid: u32, name: &str) -> u64 {
        if let Some((uuid, _)) = self.tracks.threads.get(&tid) {
            return *uuid;
        }
        let uuid = self.new_track();
        self.tracks.threads.insert(tid, (uuid, false));
        let pid = self.pid;
        self.writer.buffer().thread(&ThreadTrack {
            uuid,
            pid,
            tid,
            name,
            title: STACK,
        });
        uuid
    }

    /// The track of a thread.
    pub fn thread(&mut self, tid: u32, name: &str) -> TrackSequence {
        let uuid = self.thread_track(tid, name);
        TrackSequence::new(self.writer.buffer(), uuid)
    }

    /// A track for the waits of a thread, beside its own, of which the uuid is given as well.
    pub fn wait_track(&mut self, tid: u32, name: &str) -> (u64, TrackSequence) {
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
        (thread, TrackSequence::new(out, waits))
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

    /// Says that a thread has another name now.
    pub fn rename(&mut self, track: &TrackSequence, tid: u32, name: &str) {
        self.rename_thread(track.track(), tid, name);
    }

    /// Says that the thread with the track `uuid` has another name now.
    pub fn rename_thread(&mut self, uuid: u64, tid: u32, name: &str) {
        let thread = ThreadTrack {
            uuid,
            pid: self.pid,
            tid,
            name,
            title: STACK,
        };
        self.writer.buffer().thread(&thread);
    }
}
