//! What executes the queues: one thread per process, for all its GPUs.
//!
//! Time is simulated exactly and does not depend on when the thread gets to run. A packet starts at the later of the
//! moment that it was seen and the end of what it has to wait for; its end is its start plus its duration. Its effects
//! (data, signals, events) come as soon as that end has passed. So a late thread makes completions late, but neither
//! kernels longer nor gaps between them wider.
//!
//! - `worker`: the loop, `idle`: how it rests; `arrivals`: when packets were seen.
//! - `packets`, `packet`: queues of AQL packets and what is in them; `fault`: what goes wrong there.
//! - `copies`, `copy_packet`: queues of the copy engines.
//! - `signal`: how completion is told.

mod arrivals;
mod context;
mod copies;
mod copy_packet;
mod fault;
mod idle;
mod packet;
mod packets;
mod scratch;
mod signal;
mod worker;

pub use packet::Dispatch;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread::Thread;

use crate::process::Process;
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

#[derive(Debug)]
enum Command {
    Create(u32, NewQueue),
    Destroy(u32, mpsc::Sender<bool>),
    Pause(u32, bool, mpsc::Sender<bool>),
}

/// The side of the driver's calls.
#[derive(Debug, Default)]
pub struct Engine {
    commands: Mutex<Vec<Command>>,
    pending: AtomicBool,
    last_id: AtomicU32,
    thread: OnceLock<Option<Thread>>,
}

impl Engine {
    /// Executes this queue from now on; returns its number.
    pub fn create(&self, process: &'static Process, queue: NewQueue) -> u32 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.thread.get_or_init(|| worker::start(process));
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

    fn take_commands(&self) -> Vec<Command> {
        if !self.pending.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *commands)
    }
}
