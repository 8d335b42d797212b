//! The engine's thread.

use std::thread::Thread;

use super::context::Context;
use super::copies::CopyQueue;
use super::idle::Idle;
use super::packets::PacketQueue;
use crate::clock::boottime_ns;
use crate::kernels::Kernels;
use crate::memory::View;
use crate::process::Process;
use crate::process::queues::{Command, QueueKind};
use crate::simulation;
use crate::truth::Truth;

/// What a queue did when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Something.
    Worked,
    /// Nothing; at this CLOCK_BOOTTIME it will.
    Until(u64),
    /// Nothing, until it is told or what it waits for happens.
    Idle,
}

#[derive(Debug)]
enum Queue {
    Packets(Box<PacketQueue>),
    Copy(Box<CopyQueue>),
}

#[derive(Debug)]
struct Slot {
    id: u32,
    paused: bool,
    queue: Queue,
}

/// Starts the thread; none when there cannot be another one.
pub fn start(process: &'static Process) -> Option<Thread> {
    // Signals of the program are not for this thread.
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid places, and the old mask is restored below, on the same thread.
    unsafe {
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, before.as_mut_ptr());
    }
    let started = std::thread::Builder::new()
        .name("simgpu".to_owned())
        .spawn(move || run(process));
    // SAFETY: filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.ok().map(|handle| handle.thread().clone())
}

fn run(process: &'static Process) {
    // Sleeps end when they should, not up to 50 µs later.
    // SAFETY: this option takes a plain number.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    let strict = process.simulation.machine.queues.strict_memory;
    let mut context = Context {
        process,
        view: View::new(&process.memory, strict),
        kernels: Kernels::new(&process.simulation.machine),
        truth: Truth::new(process.simulation),
        counters: Vec::new(),
    };
    let gpus = process.simulation.machine.gpus.len();
    context.counters.resize_with(gpus, Default::default);
    let mut slots: Vec<Slot> = Vec::new();
    let mut idle = Idle::default();
    loop {
        for command in process.queues.take_commands() {
            obey(&mut context, &mut slots, command);
            idle.worked(boottime_ns());
        }
        let now_ns = boottime_ns();
        let mut deadline_ns = u64::MAX;
        let mut worked = false;
        for slot in slots.iter_mut().filter(|slot| !slot.paused) {
            let step = match &mut slot.queue {
                Queue::Packets(queue) => queue.step(&mut context, now_ns),
                Queue::Copy(queue) => queue.step(&mut context, now_ns),
            };
            match step {
                Step::Worked => worked = true,
                Step::Until(time) => deadline_ns = deadline_ns.min(time),
                Step::Idle => {}
            }
        }
        if worked {
            idle.worked(now_ns);
        } else {
            idle.rest(boottime_ns(), deadline_ns);
        }
    }
}

fn obey(context: &mut Context, slots: &mut Vec<Slot>, command: Command) {
    let (answer, reply) = match command {
        Command::Create(id, new) => {
            let gpu = new.gpu;
            let queue = match new.kind {
                QueueKind::Packets => {
                    PacketQueue::new(id, new, context).map(|queue| Queue::Packets(Box::new(queue)))
                }
                QueueKind::Copy => {
                    CopyQueue::new(id, new, context).map(|queue| Queue::Copy(Box::new(queue)))
                }
            };
            match queue {
                Ok(queue) => slots.push(Slot {
                    id,
                    paused: false,
                    queue,
                }),
                Err(unmapped) => simulation::log(&format!(
                    "queue {id} of GPU {gpu} is not in memory: {:#x}",
                    unmapped.0
                )),
            }
            return;
        }
        Command::Destroy(id, reply) => {
            let before = slots.len();
            slots.retain(|slot| slot.id != id);
            (slots.len() < before, reply)
        }
        Command::Pause(id, paused, reply) => {
            let slot = slots.iter_mut().find(|slot| slot.id == id);
            (slot.map(|slot| slot.paused = paused).is_some(), reply)
        }
    };
    if reply.send(answer).is_err() {
        simulation::log("nobody waits for the answer to a command");
    }
}
