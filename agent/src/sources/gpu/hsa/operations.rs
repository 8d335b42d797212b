//! Operations in flight: what was submitted and is not recorded yet.
//!
//! Each is a node of an arena that only grows. Threads that submit take nodes and hand them over without a lock; the collector
//! ([`crate::sources::gpu::hsa::collector`]) takes them all and gives them back. A ticket names one use of a node, so that a holder of an old one
//! notices: its number is in the node's state.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use rsys_wire::event::OpKind;
use rsys_wire::layout::Counter;

use crate::sources::gpu::hsa::abi::Signal;
use crate::sources::gpu::hsa::kernel_counters::Counting;
use crate::sys;
use crate::sys::apart::{Apart, fetch_for_reading, fetch_for_writing};

const CHUNK: u32 = 2048;
const CHUNKS: usize = 2048;

/// One use of a node: its index and the number of the use. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    fn new(index: u32, number: u32) -> Self {
        Ticket(u64::from(number) << 32 | u64::from(index.wrapping_add(1)))
    }

    /// As a word; 0 is none.
    pub fn to_word(self) -> u64 {
        self.0
    }

    /// The ticket in a word, if there is one.
    pub fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Ticket(word))
    }

    fn index(self) -> u32 {
        (self.0 as u32).wrapping_sub(1)
    }

    /// The state of a node in this use.
    fn state(self, phase: Phase) -> u64 {
        self.0 >> 32 << 8 | phase as u64
    }
}

/// What happens to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Its times are with its signal.
    Pending = 1,
    /// The collector reads them.
    Claimed = 2,
    /// A thread that is about to use the signal anew reads them.
    Taking = 3,
    /// Its times are in the node.
    Taken = 4,
    /// They cannot be had; why is in the node.
    Dead = 5,
    /// It was never submitted after all.
    Cancelled = 6,
}

/// What is known of an operation when it is submitted.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// What it is.
    pub kind: OpKind,
    /// The signal that it completes.
    pub signal: u64,
    /// Whether that is ours.
    pub own: bool,
    /// The signal's value before.
    pub value: i64,
    /// Place of the queue in [`crate::sources::gpu::hsa::queues`], or 0 for copies.
    pub queue: u32,
    /// The agent whose clock counts.
    pub agent: u64,
    /// The number of its GPU.
    pub device: u32,
    /// The queue's number in the trace, or 0.
    pub queue_number: u32,
    /// When it was submitted, or the call began that did so, CLOCK_BOOTTIME ns.
    pub submitted_ns: u64,
    /// The call that submitted it, or 0.
    pub correlation: u64,
    /// The stack that submitted it, or 0.
    pub launch_stack: u64,
    /// Key of its name.
    pub name: u64,
    /// Of kernels: key of the source line that it came from, or 0.
    pub source: u64,
    /// Of kernels: work-items.
    pub grid: [u32; 3],
    /// Of kernels: work-items of a group.
    pub workgroup: [u16; 3],
    /// Of kernels: memory of a group and of a work-item.
    pub memory: [u32; 2],
    /// Of copies: how much.
    pub bytes: u64,
    /// Of copies: from where to where.
    pub direction: u64,
    /// Of kernels: which of its queue's packets it was.
    pub number: u64,
    /// Of kernels on a GPU where some are counted: the number by which `Beside` knows whether it was alone; else 0.
    pub beside: u64,
    /// Of kernels: the commands that count it, if any do.
    pub counting: Option<Counting>,
}

/// A node.
#[derive(Debug)]
pub struct Node {
    state: AtomicU64,
    next: AtomicU32,
    /// How often it was used.
    number: AtomicU32,
    /// Why it is dead: a [`Counter`].
    cause: AtomicU32,
    /// Not 0 when its queue is gone, and perhaps another one in its place.
    orphaned: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
    /// When its signal was complete without times, CLOCK_BOOTTIME ns; only the collector's.
    waiting_since: AtomicU64,
    operation: UnsafeCell<Option<Operation>>,
    /// Our signal, which stays with the node; 0 before it has one.
    own_signal: AtomicU64,
}

// SAFETY: the operation is written by the thread that took the node, before it hands it over, and read after that.
unsafe impl Sync for Node {}

static CHUNK_LIST: [AtomicPtr<Node>; CHUNKS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
/// Nodes that were ever used.
static USED: AtomicU32 = AtomicU32::new(0);
/// Free nodes: a count of changes, and the index of the first plus one.
static FREE: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// Handed over: index plus one of the latest.
static INBOX: Apart<AtomicU32> = Apart(AtomicU32::new(0));

fn node_at(index: u32) -> Option<&'static Node> {
    let chunk = CHUNK_LIST
        .get((index / CHUNK) as usize)?
        .load(Ordering::Acquire);
    // SAFETY: chunks are published complete and never unmapped; the index is within one.
    unsafe { chunk.wrapping_add((index % CHUNK) as usize).as_ref() }.filter(|_| !chunk.is_null())
}

/// The node of a ticket.
pub fn node(ticket: Ticket) -> Option<&'static Node> {
    node_at(ticket.index())
}

fn pop_free() -> Option<u32> {
    let mut head = FREE.0.load(Ordering::Acquire);
    loop {
        let index = (head as u32).checked_sub(1)?;
        let next = node_at(index)?.next.load(Ordering::Relaxed);
        let changed = (head >> 32).wrapping_add(1) << 32 | u64::from(next);
        match FREE
            .0
            .compare_exchange_weak(head, changed, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => {
                if let Some(next) = next.checked_sub(1).and_then(node_at) {
                    next.fetch();
                }
                return Some(index);
            }
            Err(now) => head = now,
        }
    }
}

/// Makes the nodes of a chain free: from one to the other, by their `next`.
fn push_free(first: u32, last: u32) {
    let Some(node) = node_at(last) else { return };
    let mut head = FREE.0.load(Ordering::Relaxed);
    loop {
        node.next.store(head as u32, Ordering::Relaxed);
        let changed = (head >> 32).wrapping_add(1) << 32 | u64::from(first.wrapping_add(1));
        match FREE
            .0
            .compare_exchange_weak(head, changed, Ordering::AcqRel, Ordering::Relaxed)
        {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

fn fresh() -> Option<u32> {
    let index = USED.fetch_add(1, Ordering::Relaxed);
    let place = CHUNK_LIST.get((index / CHUNK) as usize)?;
    if place.load(Ordering::Acquire).is_null() {
        let bytes = CHUNK as usize * size_of::<Node>();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // Zeroed memory is an array of nodes that were never used.
        let memory = sys::mmap(bytes, flags, -1).ok()?.cast::<Node>();
        let null = std::ptr::null_mut();
        if place
            .compare_exchange(null, memory, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: no other thread knows this one.
            unsafe { sys::munmap(memory.cast(), bytes) };
        }
    }
    Some(index)
}

/// Takes a node. `None` when there are millions in flight or no memory.
pub fn take() -> Option<Ticket> {
    let index = pop_free().or_else(fresh)?;
    let number = node_at(index)?.number.fetch_add(1, Ordering::Relaxed);
    Some(Ticket::new(index, number.wrapping_add(1)))
}

/// Gives a node back that was not handed over.
pub fn give_back(ticket: Ticket) {
    push_free(ticket.index(), ticket.index());
}

/// Hands an operation over to the collector. What comes after, another thread sees after this ([`is_inbox_empty`]).
pub fn submit(ticket: Ticket, operation: Operation) {
    let Some(node) = node(ticket) else { return };
    // SAFETY: the node is the caller's until it is handed over.
    unsafe { node.operation.get().write(Some(operation)) };
    node.waiting_since.store(0, Ordering::Relaxed);
    node.orphaned.store(0, Ordering::Relaxed);
    node.state
        .store(ticket.state(Phase::Pending), Ordering::Release);
    let mut head = INBOX.0.load(Ordering::Relaxed);
    loop {
        node.next.store(head, Ordering::Relaxed);
        let first = ticket.index().wrapping_add(1);
        match INBOX
            .0
            .compare_exchange_weak(head, first, Ordering::SeqCst, Ordering::Relaxed)
        {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

impl Node {
    /// Has the processor fetch what the next use of the node writes: the collector's processor had it last.
    #[inline]
    fn fetch(&self) {
        const LINE: usize = 64;
        let node = std::ptr::from_ref(self).cast::<u8>();
        for offset in (0..size_of::<Node>()).step_by(LINE) {
            fetch_for_writing(node.wrapping_add(offset));
        }
    }

    /// The operation.
    ///
    /// # Safety
    /// The node must have been handed over, and not be given back as long as the result is used.
    pub unsafe fn operation(&self) -> Option<&Operation> {
        // SAFETY: written before it was handed over, and not again before it was given back.
        unsafe { &*self.operation.get() }.as_ref()
    }

    /// Changes the phase. Returns whether it was the expected one, of the same use.
    pub fn change(&self, ticket: Ticket, from: Phase, to: Phase) -> Result<(), bool> {
        let claimed = ticket.state(Phase::Claimed);
        self.state
            .compare_exchange(
                ticket.state(from),
                ticket.state(to),
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .map(|_| ())
            .map_err(|now| now == claimed)
    }

    /// The phase of this use.
    pub fn phase(&self, ticket: Ticket) -> Option<Phase> {
        let state = self.state.load(Ordering::Acquire);
        [
            Phase::Pending,
            Phase::Claimed,
            Phase::Taking,
            Phase::Taken,
            Phase::Dead,
            Phase::Cancelled,
        ]
        .into_iter()
        .find(|phase| ticket.state(*phase) == state)
    }

    /// Stores times: ticks of a kernel, nanoseconds of a copy. Only for the thread that is [`Phase::Taking`].
    pub fn store_times(&self, start: u64, end: u64) {
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }

    /// What [`Node::store_times`] stored.
    pub fn times(&self) -> (u64, u64) {
        (
            self.start.load(Ordering::Relaxed),
            self.end.load(Ordering::Relaxed),
        )
    }

    /// Sets a phase; no other thread may change it meanwhile.
    pub fn set(&self, ticket: Ticket, phase: Phase) {
        self.state.store(ticket.state(phase), Ordering::Release);
    }

    /// Gives up what is pending. False while another thread takes the times: it writes into the node yet.
    pub fn give_up(&self, ticket: Ticket) -> bool {
        self.change(ticket, Phase::Pending, Phase::Dead).is_ok()
            || self.phase(ticket) != Some(Phase::Taking)
    }

    /// Its queue is gone.
    pub fn orphan(&self) {
        self.orphaned.store(1, Ordering::Relaxed);
    }

    /// Whether its queue is gone.
    pub fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Relaxed) != 0
    }

    /// Notes why the times cannot be had.
    pub fn set_cause(&self, cause: Counter) {
        self.cause.store(cause as u32, Ordering::Relaxed);
    }

    /// Why the times cannot be had, as the number of a counter.
    pub fn cause(&self) -> u32 {
        self.cause.load(Ordering::Relaxed)
    }

    /// How long the signal has been complete without times.
    pub fn waited_ns(&self, now_ns: u64) -> u64 {
        let since = self.waiting_since.load(Ordering::Relaxed);
        if since == 0 {
            self.waiting_since.store(now_ns, Ordering::Relaxed);
        }
        now_ns.saturating_sub(if since == 0 { now_ns } else { since })
    }

    /// Never uses its signal again: a kernel that will not end has it.
    pub fn forget_signal(&self) {
        self.own_signal.store(0, Ordering::Relaxed);
    }

    /// Our signal, made by `make` when the node has none yet.
    pub fn own_signal(&self, make: impl FnOnce() -> u64) -> Option<(u64, Signal)> {
        let mut handle = self.own_signal.load(Ordering::Relaxed);
        if handle == 0 {
            handle = make();
            self.own_signal.store(handle, Ordering::Relaxed);
        }
        // SAFETY: ours are never destroyed while the runtime lives.
        Some((handle, unsafe { Signal::new(handle) }?))
    }
}

/// What became of an operation that was visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visited {
    /// It is recorded, or never will be: its node is free.
    Done,
    /// It is not over; those behind it are not either, as a rule.
    InFlight,
    /// It is over, and stays until its counters are known.
    Kept,
}

/// A list of operations, oldest first. Only the collector's.
#[derive(Debug, Clone, Copy)]
pub struct List {
    first: u32,
    last: u32,
    /// How many.
    pub length: u32,
}

impl List {
    /// An empty list.
    pub const EMPTY: List = List {
        first: 0,
        last: 0,
        length: 0,
    };

    fn append(&mut self, link: u32) {
        if let Some(last) = self.last.checked_sub(1).and_then(node_at) {
            last.next.store(link, Ordering::Relaxed);
        } else {
            self.first = link;
        }
        self.last = link;
        self.length = self.length.wrapping_add(1);
    }

    /// Visits operations from the oldest on, and removes those of which `visit` says so. Stops after `patience` that are not over in a row.
    pub fn sweep(
        &mut self,
        patience: u32,
        mut visit: impl FnMut(Ticket, &'static Node) -> Visited,
    ) {
        let (mut before, mut link, mut staying) = (0_u32, self.first, 0_u32);
        // The first and the last that are done with: they become free together.
        let mut done: Option<(u32, u32)> = None;
        while let Some(index) = link.checked_sub(1) {
            let Some(node) = node_at(index) else { break };
            let next = node.next.load(Ordering::Relaxed);
            let ticket = Ticket::new(index, node.number.load(Ordering::Relaxed));
            let visited = visit(ticket, node);
            if visited == Visited::Done {
                match before.checked_sub(1).and_then(node_at) {
                    Some(before) => before.next.store(next, Ordering::Relaxed),
                    None => self.first = next,
                }
                if next == 0 {
                    self.last = before;
                }
                self.length = self.length.wrapping_sub(1);
                done = Some(match done {
                    None => (index, index),
                    Some((first, last)) => {
                        if let Some(last) = node_at(last) {
                            last.next.store(link, Ordering::Relaxed);
                        }
                        (first, index)
                    }
                });
                staying = 0;
            } else {
                before = link;
                staying = staying.wrapping_add(u32::from(visited == Visited::InFlight));
                if staying >= patience {
                    break;
                }
            }
            link = next;
        }
        if let Some((first, last)) = done {
            push_free(first, last);
        }
    }
}

/// Takes what was handed over and puts it into the lists of their queues.
pub fn receive(mut list_of: impl FnMut(u32) -> Option<*mut List>) {
    let mut link = INBOX.0.swap(0, Ordering::AcqRel);
    // The latest comes first: turn the chain around.
    let mut turned = 0;
    while let Some(node) = link.checked_sub(1).and_then(node_at) {
        // The threads that launch had it last; it is looked at when all are turned around.
        node.fetch();
        let next = node.next.load(Ordering::Relaxed);
        node.next.store(turned, Ordering::Relaxed);
        turned = link;
        link = next;
    }
    while let Some(node) = turned.checked_sub(1).and_then(node_at) {
        let next = node.next.load(Ordering::Relaxed);
        node.next.store(0, Ordering::Relaxed);
        // SAFETY: it was handed over.
        let queue = unsafe { node.operation() }.map_or(0, |operation| {
            fetch_for_reading(std::ptr::without_provenance::<u64>(
                operation.signal as usize,
            ));
            operation.queue
        });
        if let Some(list) = list_of(queue) {
            // SAFETY: a list of the collector's, who is the caller.
            unsafe { (*list).append(turned) };
        }
        turned = next;
    }
}

/// Whether something was handed over that was not received.
pub fn is_inbox_empty() -> bool {
    INBOX.0.load(Ordering::SeqCst) == 0
}

/// Destroys the signals of all nodes: their runtime is about to go.
pub fn drop_signals(destroy: impl Fn(u64)) {
    let used = USED.load(Ordering::Relaxed);
    for node in (0..used).map_while(node_at) {
        let handle = node.own_signal.swap(0, Ordering::Relaxed);
        if handle != 0 {
            destroy(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: Operation = Operation {
        kind: OpKind::Copy,
        signal: 64,
        own: false,
        value: 1,
        queue: 0,
        agent: 0,
        device: 0,
        queue_number: 0,
        submitted_ns: 0,
        correlation: 0,
        launch_stack: 0,
        name: 0,
        source: 0,
        grid: [0; 3],
        workgroup: [0; 3],
        memory: [0; 2],
        bytes: 0,
        direction: 0,
        number: 0,
        beside: 0,
        counting: None,
    };

    #[test]
    fn a_node_is_not_given_up_while_another_thread_takes_its_times() {
        let ticket = take().unwrap();
        let node = node(ticket).unwrap();
        submit(ticket, COPY);
        node.change(ticket, Phase::Pending, Phase::Taking).unwrap();
        assert!(!node.give_up(ticket));
        assert_eq!(node.phase(ticket), Some(Phase::Taking));
        node.change(ticket, Phase::Taking, Phase::Taken).unwrap();
        assert!(node.give_up(ticket));
        let later = Ticket::new(ticket.index(), (ticket.0 >> 32) as u32 + 1);
        submit(later, COPY);
        assert!(node.change(ticket, Phase::Taking, Phase::Dead).is_err());
        assert_eq!(node.phase(later), Some(Phase::Pending));
        assert!(node.give_up(later));
        assert_eq!(node.phase(later), Some(Phase::Dead));
    }
}
