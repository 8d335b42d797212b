//! Hardware counters of single kernels: commands in front of a kernel start them, commands behind it read and stop them.
//!
//! AMD's library writes the commands ([`load`]); a [`GpuCounters`] has them ready, many times over, because each kernel in flight has memory of its own for its
//! values. The counters are those of the whole GPU, so a counted kernel runs by itself in its queue. Queues do not wait for each other: one that waits
//! for another's kernel could wait for ever, if the program has that kernel wait for this one. Values of a kernel beside which one of another queue ran are
//! left out instead ([`beside`]).

mod beside;
mod gpu;
mod load;

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use rsys_wire::kernel_counters::CounterSet;

use crate::events;
use crate::sources::gpu::hsa::agents;
pub use crate::sources::gpu::hsa::kernel_counters::beside::Verdict;
pub use crate::sources::gpu::hsa::kernel_counters::gpu::{Counting, GpuCounters};
use crate::state;
use crate::sys::lock::Lock;
use crate::sys::text::Text;

/// Most GPUs of a process.
const MOST: usize = 64;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Held while a GPU is made ready.
static PREPARING: Lock = Lock::new();
/// Held while AMD's library is called: a launching thread has it make commands while the collector has it read others.
static LIBRARY: Lock = Lock::new();
static GPUS: [AtomicPtr<GpuCounters>; MOST] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
/// GPUs that cannot be counted, or are not to be: their agents. Asked about once.
static REFUSED: [std::sync::atomic::AtomicU64; MOST] =
    [const { std::sync::atomic::AtomicU64::new(0) }; MOST];

/// Whether counters of kernels are asked for and can be recorded here.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The runtime is set up, and its operations are recorded from here.
pub fn start() {
    let is_asked = state::settings().kernel_counters.words().next().is_some();
    IS_ON.store(is_asked, Ordering::Release);
}

/// The counters of a GPU, if any are to be counted there; made ready when its first queue is made. Null for none.
pub fn of_gpu(agent: u64) -> *mut GpuCounters {
    if !is_on() {
        return std::ptr::null_mut();
    }
    let made = PREPARING.with(|| {
        let known = GPUS.iter().find(|gpu| {
            // SAFETY: never unmapped.
            let gpu = unsafe { gpu.load(Ordering::Acquire).as_ref() };
            gpu.is_some_and(|gpu| gpu.agent() == agent)
        });
        if let Some(known) = known {
            return known.load(Ordering::Acquire);
        }
        if REFUSED
            .iter()
            .any(|refused| refused.load(Ordering::Relaxed) == agent)
        {
            return std::ptr::null_mut();
        }
        let gpu = prepare(agent);
        let is_free = |place: &&AtomicPtr<GpuCounters>| place.load(Ordering::Relaxed).is_null();
        match GPUS.iter().find(is_free).filter(|_| !gpu.is_null()) {
            Some(place) => place.store(gpu, Ordering::Release),
            None => {
                let mut free = REFUSED.iter();
                if let Some(place) = free.find(|place| place.load(Ordering::Relaxed) == 0) {
                    place.store(agent, Ordering::Relaxed);
                }
            }
        }
        gpu
    });
    made.unwrap_or(std::ptr::null_mut())
}

/// Makes a GPU ready, if it is in one of the sets. Says what cannot be counted.
fn prepare(agent: u64) -> *mut GpuCounters {
    let address = agents::address(agent);
    let sets = state::settings().kernel_counters;
    let set = sets.words().enumerate().find_map(|(place, word)| {
        let set = CounterSet::parse(word)?;
        set.is_of(&address).then_some((place as u64, set))
    });
    let Some(set) = set else {
        return std::ptr::null_mut();
    };
    let library = match load::library() {
        Ok(library) => library,
        Err(load::AlreadySaid) => return std::ptr::null_mut(),
    };
    GpuCounters::new(library, agent, &address, set).unwrap_or_else(|why| {
        say(&[b"on the GPU at ", &address, b": ", why]);
        std::ptr::null_mut()
    })
}

/// Says a line about counters of kernels that are not recorded.
fn say(parts: &[&[u8]]) {
    let mut buffer = [0_u8; 1024];
    let mut text = Text::new(&mut buffer);
    text.put(b"counters of kernels are not recorded ");
    for part in parts {
        text.put(part);
    }
    events::note(text.bytes());
}

/// Does something for each GPU that is counted.
pub fn for_each(mut what: impl FnMut(&'static GpuCounters)) {
    for gpu in &GPUS {
        // SAFETY: never unmapped.
        if let Some(gpu) = unsafe { gpu.load(Ordering::Acquire).as_ref() } {
            what(gpu);
        }
    }
}

/// No library is called any more, and no kernel counted. Only for the holder of the collector's lock, under which values are read.
pub fn end() {
    IS_ON.store(false, Ordering::Release);
    // Until no thread makes commands.
    LIBRARY.with(|| ());
}

/// The runtime is gone, and its memory with it.
pub fn forget() {
    for gpu in &GPUS {
        gpu.store(std::ptr::null_mut(), Ordering::Release);
    }
    for refused in &REFUSED {
        refused.store(0, Ordering::Relaxed);
    }
    IS_ON.store(false, Ordering::Release);
}

/// A fork's child has no GPU work of ours.
pub fn after_fork_in_child() {
    PREPARING.break_open();
    LIBRARY.break_open();
    forget();
}
