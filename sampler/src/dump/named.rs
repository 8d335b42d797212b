//! What was seen of a process, with names: functions, files and lines, Python frames where they belong among native ones.

use std::sync::Arc;
use std::time::Duration;

use super::owner::Owner;
use super::process::SeenProcess;
use super::thread::{Doing, Seen};
use crate::emit::learned::Learned;
use crate::emit::learned::frames::{FrameId, Frames};
use crate::emit::learned::stacks::ShownStack;
use crate::identity::Identity;
use crate::python::PythonView;
use crate::resolve::Resolver;
use crate::waits::record::{Completeness, Wait};

/// How many innermost frames may be the C library's own while a thread waits for a lock.
const OF_LOCK: usize = 8;

/// A process, for whoever prints it.
#[derive(Debug)]
pub(super) struct Process {
    pub pid: u32,
    pub own_pid: u32,
    pub name: String,
    pub command: Vec<String>,
    pub executable: String,
    pub tracer: Option<(u32, String)>,
    pub time: String,
    pub threads: Vec<Thread>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// For how long a thread was stopped at most.
    pub stood: Duration,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub tid: u32,
    pub own_tid: u32,
    pub name: String,
    pub doing: Doing,
    pub cpu: Duration,
    /// What it waits for; empty where that is not known, or nothing.
    pub waits_for: Arc<str>,
    /// The thread that holds it, or whose end it is.
    pub holder: Option<Holder>,
    pub holds_interpreter: bool,
    /// Innermost first.
    pub frames: Vec<Frame>,
    pub completeness: Completeness,
    pub trouble: Option<String>,
}

/// A thread that another one waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    pub tid: u32,
    pub name: String,
    pub owner: Option<Owner>,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub function: String,
    pub source: Option<Arc<str>>,
    /// The line, or 0.
    pub line: u32,
    /// The file of its code; for Python the same as `source`.
    pub module: String,
    pub is_python: bool,
}

/// Finds all names.
pub(super) fn name(seen: SeenProcess, resolver: &Resolver, view: PythonView) -> Process {
    let mut learned = Learned::new(Identity {
        pid: seen.own_pid,
        host_pid: seen.reader,
        executable: seen.executable.clone(),
        root: seen.root.clone(),
        ..Identity::default()
    });
    let notes = learned.learn_waits(&seen.records, resolver, Some(resolver));
    let names: Vec<(u32, u32, String)> = seen
        .threads
        .iter()
        .map(|thread| (thread.tid, thread.own_tid, thread.name.clone()))
        .collect();
    let mut threads = Vec::new();
    for thread in seen.threads {
        threads.push(named(thread, &names, &mut learned, view, seen.time_ns));
    }
    Process {
        pid: seen.pid,
        own_pid: seen.own_pid,
        name: seen.name,
        command: seen.command,
        executable: seen.executable,
        tracer: seen.tracer,
        time: seen.time,
        threads,
        notes,
        stood: seen.stood,
    }
}

fn named(
    thread: Seen,
    names: &[(u32, u32, String)],
    learned: &mut Learned,
    view: PythonView,
    time_ns: u64,
) -> Thread {
    let wait = thread.wait.as_deref();
    let frames = wait.map_or_else(Vec::new, |wait| frames_of(wait, learned, view, time_ns));
    let holder = |tid: u32, owner: Option<Owner>| {
        let known = names.iter().find(|known| known.0 == tid);
        known.map(|known| Holder {
            tid,
            name: known.2.clone(),
            owner,
        })
    };
    let innermost = || {
        let frames = frames.iter().take(OF_LOCK);
        frames.map(|frame| frame.function.as_str())
    };
    let lock = wait.and_then(|wait| wait.lock.as_ref());
    let holder = match (lock, thread.owner) {
        (Some(lock), _) => {
            let known = names.iter().find(|known| known.1 == lock.holder_tid);
            known.and_then(|known| holder(known.0, None))
        }
        (None, Some(owner)) if owner.fits(innermost()) => holder(owner.tid, Some(owner)),
        (None, _) => None,
    };
    Thread {
        tid: thread.tid,
        own_tid: thread.own_tid,
        name: thread.name,
        doing: thread.doing,
        cpu: thread.cpu,
        waits_for: wait.map_or_else(|| "".into(), |wait| Arc::clone(&wait.label)),
        holder,
        holds_interpreter: thread.holds_interpreter,
        completeness: wait.map_or(Completeness::Complete, |wait| wait.completeness),
        frames,
        trouble: thread.trouble,
    }
}

/// The frames of a stack, innermost first.
fn frames_of(wait: &Wait, learned: &mut Learned, view: PythonView, time_ns: u64) -> Vec<Frame> {
    let mut shown = ShownStack::default();
    shown.push_wait(&mut learned.frames, learned.marks, wait, view, time_ns);
    let frames = shown.frames.iter().rev();
    frames.map(|id| frame(&learned.frames, *id)).collect()
}

fn frame(frames: &Frames, id: FrameId) -> Frame {
    let found = frames.frame(id);
    let function = frames.function(found.function);
    let module = frames.file(function.file);
    let source = found.source.clone();
    // The file of a Python function is its source.
    let is_python = source.as_deref() == Some(module.path.as_str());
    let name = match function.name.rsplit_once(" (") {
        Some((name, _)) if is_python => name,
        _ => &function.name,
    };
    Frame {
        function: name.to_owned(),
        source,
        line: found.line,
        module: module.path.clone(),
        is_python,
    }
}
