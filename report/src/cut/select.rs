//! Which tracks and samples are kept.

use std::fmt;

use rsys_proto::KnownNamespace;
use rsys_proto::fields::event;
use rsys_proto::message::{Fields, Torn};
use rsys_traces::perfetto::{TrackIndex, Tracks};

/// Kinds of content that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Samples: call stacks with their weights
    Samples,
    /// Slices that are drawn of samples
    Stacks,
    /// Counters
    Counters,
    /// Arrows between slices
    Flows,
    /// Details of slices
    Details,
}

/// A process, a thread or a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// By its id.
    Id(u32),
    /// By a part of its name.
    Name(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Samples => "samples",
            Self::Stacks => "stacks",
            Self::Counters => "counters",
            Self::Flows => "flows",
            Self::Details => "details",
        })
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(formatter),
            Self::Name(part) => part.fmt(formatter),
        }
    }
}

impl From<String> for Pick {
    fn from(word: String) -> Self {
        word.parse().map_or(Self::Name(word), Self::Id)
    }
}

/// Whether one of the picks is of this id or name; without picks all are.
fn picked(picks: &[Pick], id: u32, name: &str) -> bool {
    let is_meant = |pick: &Pick| match pick {
        Pick::Id(wanted) => *wanted == id,
        Pick::Name(part) => name.contains(part.as_str()),
    };
    picks.is_empty() || picks.iter().any(is_meant)
}

/// What is kept of a trace, whatever its time.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Processes; none: all.
    pub processes: Vec<Pick>,
    /// Threads; none: all, and what belongs to no thread.
    pub threads: Vec<Pick>,
    /// Parts of names of tracks or of what they belong to; none: all, and the samples.
    pub tracks: Vec<String>,
    /// What is left out.
    pub dropped: Vec<Kind>,
}

/// The name of the track of a thread on which its samples are drawn.
const STACK: &str = "stack";

impl Selection {
    /// Whether a kind of content is left out.
    #[must_use]
    pub fn drops(&self, kind: Kind) -> bool {
        self.dropped.contains(&kind)
    }

    /// Whether the track is described in the result.
    pub(super) fn describes(&self, tracks: &Tracks, owners: &Owners, index: TrackIndex) -> bool {
        let owner = owners.of(tracks, index);
        let process = owner
            .process
            .is_none_or(|(pid, name)| picked(&self.processes, pid, name));
        let thread = owner
            .thread
            .is_none_or(|(tid, name)| picked(&self.threads, tid, name));
        process && thread
    }

    /// Whether events of the track are kept.
    pub(super) fn keeps(&self, tracks: &Tracks, owners: &Owners, index: TrackIndex) -> bool {
        let track = tracks.get(index);
        let is_stack = track.thread.is_some() && track.name == STACK;
        if is_stack && self.drops(Kind::Stacks)
            || track.counter.is_some() && self.drops(Kind::Counters)
        {
            return false;
        }
        let is_named = self.tracks.is_empty()
            || tracks.chain(index).any(|(_, track)| {
                let thread = track.thread.as_ref();
                let thread = thread.and_then(|one| one.thread_name.as_deref());
                let mut parts = self.tracks.iter();
                parts.any(|part| {
                    track.name.contains(part.as_str())
                        || thread.is_some_and(|name| name.contains(part.as_str()))
                })
            });
        let has_thread = || tracks.thread(index).is_some();
        is_named
            && (self.threads.is_empty() || has_thread())
            && self.describes(tracks, owners, index)
    }

    /// An event without what is left out of events.
    pub(super) fn strip(&self, bytes: &[u8]) -> Result<Vec<u8>, Torn> {
        let is_ours = |name: &[u8]| name.starts_with(b"rsys ");
        let (flows, details) = (self.drops(Kind::Flows), self.drops(Kind::Details));
        let mut kept = Vec::with_capacity(bytes.len());
        let mut is_metadata = false;
        for field in Fields::new(bytes) {
            let field = field?;
            is_metadata |= field.number == event::NAME && is_ours(field.value.bytes());
        }
        for field in Fields::new(bytes) {
            let field = field?;
            let is_dropped = match field.number {
                event::FLOW_IDS
                | event::TERMINATING_FLOW_IDS
                | event::FLOW_IDS_OLD
                | event::TERMINATING_FLOW_IDS_OLD => flows,
                event::DEBUG_ANNOTATIONS => details && !is_metadata,
                _ => false,
            };
            if !is_dropped {
                kept.extend_from_slice(field.encoded);
            }
        }
        Ok(kept)
    }

    /// Whether samples of a thread are kept.
    pub(super) fn keeps_samples(&self, tracks: &Tracks, pid: u32, tid: u32) -> bool {
        if self.drops(Kind::Samples) || !self.tracks.is_empty() {
            return false;
        }
        let name_of = |is_it: &dyn Fn(&rsys_traces::perfetto::Track) -> Option<String>| {
            tracks.iter().find_map(is_it).unwrap_or_default()
        };
        let process = || {
            name_of(&|track| {
                let process = track.process.as_ref()?;
                (process.pid == Some(pid.cast_signed()))
                    .then(|| process.process_name.clone().unwrap_or_default())
            })
        };
        let thread = || {
            name_of(&|track| {
                let thread = track.thread.as_ref()?;
                // Ids of threads of several hosts may be equal.
                let is_of_process = thread.pid.is_none_or(|one| one == pid.cast_signed());
                (thread.tid == Some(i64::from(tid)) && is_of_process)
                    .then(|| thread.thread_name.clone().unwrap_or_default())
            })
        };
        (self.processes.is_empty() || picked(&self.processes, pid, &process()))
            && (self.threads.is_empty() || picked(&self.threads, tid, &thread()))
    }
}

/// Whose tracks are whose.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Processes by the namespace of their tracks: those of GPUs stand beside their process, not below it.
    namespaces: Vec<(KnownNamespace, TrackIndex)>,
}

/// The process and the thread of a track, by id and name.
#[derive(Debug, Default)]
struct Owner<'t> {
    process: Option<(u32, &'t str)>,
    thread: Option<(u32, &'t str)>,
}

impl Owners {
    /// Takes in a track that was described.
    pub(super) fn learn(&mut self, tracks: &Tracks, index: TrackIndex) {
        let track = tracks.get(index);
        if track.process.is_some()
            && let Some(namespace) = KnownNamespace::of_track(track.uuid)
        {
            self.namespaces.push((namespace, index));
        }
    }

    fn of<'t>(&self, tracks: &'t Tracks, index: TrackIndex) -> Owner<'t> {
        let mut owner = Owner::default();
        let process_at = |track: &'t rsys_traces::perfetto::Track| {
            let process = track.process.as_ref()?;
            let name = process.process_name.as_deref().unwrap_or("");
            Some((process.pid?.cast_unsigned(), name))
        };
        let mut pid_of_thread = None;
        for (_, track) in tracks.chain(index) {
            if let (Some(thread), None) = (&track.thread, owner.thread) {
                let name = thread.thread_name.as_deref().unwrap_or("");
                owner.thread = thread.tid.map(|tid| (tid as u32, name));
                pid_of_thread = thread.pid;
            }
            owner.process = owner.process.or(process_at(track));
        }
        if let (None, Some(pid)) = (owner.process, pid_of_thread) {
            let of_pid = |track| process_at(track).filter(|(one, _)| *one == pid.cast_unsigned());
            owner.process = tracks.iter().find_map(of_pid);
        }
        if owner.process.is_none() {
            let uuid = tracks.get(index).uuid;
            let mut known = self.namespaces.iter();
            owner.process = known
                .find(|(namespace, _)| namespace.has_track(uuid))
                .and_then(|(_, index)| process_at(tracks.get(*index)));
        }
        owner
    }
}
