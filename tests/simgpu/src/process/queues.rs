//! The queues of a process: what the driver's calls ask of the engine, which executes them in a thread.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread::Thread;

use crate::simulation;

/// What a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// AQL packets.
    Packets,
    /// Packets of a copy engine.
    Copy,
}

/// A queue as the runtime asks for it.
#[derive(Debug)]
pub struct NewQueue {
    /// What it holds.
    pub kind: QueueKind,
    /// The GPU's index.
    pub gpu: usize,
    /// Address of its ring.
    pub ring_address: u64,
    /// Size of its ring.
    pub ring_bytes: u64,
    /// Where it tells how far it got.
    pub read_pointer_address: u64,
    /// Where its state would be saved; zero: nowhere. Errors are told there.
    pub save_area_address: u64,
    /// What it is told that there is more.
    pub doorbell: &'static AtomicU64,
}

/// What the engine is to do.
#[derive(Debug)]
pub enum Command {
    /// Execute the queue with this number.
    Create(u32, NewQueue),
    /// Forget a queue; answers whether there was one.
    Destroy(u32, mpsc::Sender<bool>),
    /// Suspend or resume a queue; answers whether there is one.
    Pause(u32, bool, mpsc::Sender<bool>),
}

/// The queues of a process, as the driver's calls see them.
#[derive(Debug, Default)]
pub struct Queues {
    commands: Mutex<Vec<Command>>,
    pending: AtomicBool,
    last_id: AtomicU32,
    thread: OnceLock<Option<Thread>>,
}

impl Queues {
    /// Has this queue executed from now on; returns its number. The first one starts the engine.
    pub fn create(&self, queue: NewQueue, start: impl FnOnce() -> Option<Thread>) -> u32 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.thread.get_or_init(start);
        self.send(Command::Create(id, queue));
        id
    }

    /// Ends a queue; when this returns, nothing of it is executed any more. Returns whether there was one.
    pub fn destroy(&self, id: u32) -> bool {
        self.ask(|reply| Command::Destroy(id, reply))
    }

    /// Suspends or resumes a queue; returns whether there is one.
    pub fn pause(&self, id: u32, paused: bool) -> bool {
        self.ask(|reply| Command::Pause(id, paused, reply))
    }

    fn ask(&self, command: impl FnOnce(mpsc::Sender<bool>) -> Command) -> bool {
        if !matches!(self.thread.get(), Some(Some(_))) {
            return false;
        }
        let (reply, answer) = mpsc::channel();
        self.send(command(reply));
        answer.recv().unwrap_or(false)
    }

    fn send(&self, command: Command) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.push(command);
        drop(commands);
        self.pending.store(true, Ordering::Release);
        match self.thread.get() {
            Some(Some(thread)) => thread.unpark(),
            _ => simulation::log("the engine could not be started: queues stand still"),
        }
    }

    /// What has been asked for since the last time.
    pub fn take_commands(&self) -> Vec<Command> {
        if !self.pending.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *commands)
    }
}
