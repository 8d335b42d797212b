//! The thread that looks after operations in flight: `rsys-gpu`.
//!
//! It looks at signals, oldest first, each queue by itself, and records what is complete. No thread waits for it: the program's signals are
//! completed by the GPU, and what is to be used again is looked at by the thread that does so. So it need not hurry, and a kernel that never
//! ends holds up nothing.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rsys_wire::event::{ArgWords, GpuOp, Key, OpKind, Value, WithText};
use rsys_wire::kernel_counters::{COUNTS_BYTES, KernelCounts};
use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::events;
use crate::sources::gpu::hip::names;
use crate::sources::gpu::hsa::abi::{SUCCESS, Signal};
use crate::sources::gpu::hsa::kernel_counters::{self, Verdict};
use crate::sources::gpu::hsa::operations::{self, List, Node, Operation, Phase, Ticket, Visited};
use crate::sources::gpu::hsa::queues;
use crate::sources::gpu::hsa::table;
use crate::sources::gpu::hsa::watch;
use crate::sources::gpu::instant;
use crate::sources::gpu::threads;
use crate::state;
use crate::state::departure;
use crate::sys;
use crate::sys::lock::Lock;
use crate::target::real;

/// Pauses between looks: the shorter while something completes.
const SHORT_NAP_NS: u64 = 100_000;
const LONG_NAP_NS: u64 = 1_000_000;
/// Looks without anything in flight before the thread sleeps until it is woken.
const IDLE_LOOKS: u32 = 50;
/// Longest sleep without being woken.
const SLEEP_NS: u64 = 1_000_000_000;
/// Operations of one queue that are found unfinished before the rest of it is left for later.
const PATIENCE: u32 = 64;
/// A signal may be complete a little before its times are there.
const TIMES_LATE_NS: u64 = 20_000_000;
/// Times outside of what is possible by more than this are moved. The clocks of a GPU and of the system are matched by the runtime, now
/// and then; a signal that was used before has no old times, so nothing else can be that wrong.
const EARLY_NS: u64 = 1_000_000_000;
const LATE_NS: u64 = 10_000_000;
/// The exit is held up so long at most, and so long when nothing completes any more.
const FLUSH_NS: u64 = 2_000_000_000;
const FLUSH_IDLE_NS: u64 = 200_000_000;

static STARTED: AtomicBool = AtomicBool::new(false);
/// Whether the thread is there, or is being made.
static IS_THERE: AtomicBool = AtomicBool::new(false);
static SLEEPING: AtomicU32 = AtomicU32::new(0);
/// Held while signals are looked at.
static LOOKING: Lock = Lock::new();
/// How often the thread has looked.
static LOOKS: AtomicU32 = AtomicU32::new(0);
/// In flight as of the last look.
static IN_FLIGHT: AtomicU64 = AtomicU64::new(0);

/// What the thread is asked to do before the caller goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Request {
    /// The process ends now: what is complete is recorded, the rest is counted.
    End = 1,
    /// The process may become another program: what completes soon is recorded.
    Exec = 2,
}

impl Request {
    /// How long the caller waits.
    const fn patience_ns(self) -> u64 {
        match self {
            Request::End => 1_000_000_000,
            Request::Exec => FLUSH_NS + 1_000_000_000,
        }
    }
}

/// No request.
const NOTHING: u32 = 0;
static ASKED: AtomicU32 = AtomicU32::new(NOTHING);
/// Whether what was in flight at the end is counted.
static IS_COUNTED: AtomicBool = AtomicBool::new(false);
/// The thread's number.
static TID: AtomicU32 = AtomicU32::new(0);

/// Has the thread do something, and waits for it for a limited time. Takes no lock and calls no runtime: the caller may be a handler of the program's, which has
/// interrupted a function of the runtime's that holds one.
pub fn ask(request: Request) {
    // The runtime may end the process on our thread.
    if TID.load(Ordering::Relaxed) == sys::gettid() {
        return;
    }
    if !IS_THERE.load(Ordering::Acquire) {
        return fulfil(request as u32);
    }
    ASKED.fetch_or(request as u32, Ordering::SeqCst);
    let deadline_ns = sys::boottime_ns().saturating_add(request.patience_ns());
    wake();
    loop {
        let asked = ASKED.load(Ordering::Acquire);
        if asked & request as u32 == 0 {
            return;
        }
        let left_ns = deadline_ns.saturating_sub(sys::boottime_ns());
        if left_ns == 0 {
            if request == Request::End && !IS_COUNTED.swap(true, Ordering::AcqRel) {
                counters::count(Counter::GpuLostAtEnd, IN_FLIGHT.load(Ordering::Relaxed));
            }
            return;
        }
        sys::futex_wait(&ASKED, asked, left_ns);
    }
}

/// Does what was asked for.
fn answer() {
    let asked = ASKED.load(Ordering::Acquire);
    if asked != NOTHING {
        fulfil(asked);
        ASKED.fetch_and(!asked, Ordering::Release);
        sys::futex_wake(&ASKED);
    }
}

fn fulfil(requests: u32) {
    if requests & Request::Exec as u32 != 0 {
        flush(true);
    }
    if requests & Request::End as u32 != 0 {
        flush(false);
        crate::sources::gpu::hsa::stop();
        if !IS_COUNTED.swap(true, Ordering::AcqRel) {
            give_up_all();
        }
    }
}

/// Starts the thread.
pub fn start() {
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    real::resolve_all();
    let Some(create) = real::pthread_create::get() else {
        return;
    };
    // It takes no signals, ours or the program's, but those of its own faults: at the end of a process a signal of the runtime's may be in memory that is gone.
    let before = sys::sigmask(libc::SIG_SETMASK, sys::ALL_BUT_FAULTS & sys::OF_OUR_THREADS);
    let mut thread: libc::pthread_t = 0;
    IS_THERE.store(true, Ordering::Release);
    // SAFETY: a start routine without argument; the thread is never joined.
    unsafe {
        if create(&raw mut thread, std::ptr::null(), run, std::ptr::null_mut()) == 0 {
            libc::pthread_detach(thread);
        } else {
            IS_THERE.store(false, Ordering::Release);
        }
    }
    sys::sigmask(libc::SIG_SETMASK, before);
}

/// The thread of a fork's parent is not in its child.
pub fn after_fork_in_child() {
    STARTED.store(false, Ordering::Relaxed);
    IS_THERE.store(false, Ordering::Relaxed);
    IS_COUNTED.store(false, Ordering::Relaxed);
    LOOKING.break_open();
    SLEEPING.store(0, Ordering::Relaxed);
    ASKED.store(NOTHING, Ordering::Relaxed);
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    sys::set_thread_name(c"rsys-gpu");
    threads::enter();
    TID.store(sys::gettid(), Ordering::Relaxed);
    let (mut idle, mut nap) = (0_u32, SHORT_NAP_NS);
    loop {
        if counters::is_sampler_gone() {
            departure::leave();
        }
        // The program's own signals are completed by the GPU.
        if !crate::sources::gpu::hsa::is_needed() {
            IS_THERE.store(false, Ordering::SeqCst);
            // A thread that asked before this waits for an answer.
            answer();
            return std::ptr::null_mut();
        }
        answer();
        let told = if crate::sources::gpu::hsa::is_recording() {
            look(PATIENCE, Reset::IsIncomplete)
        } else {
            0
        };
        LOOKS.fetch_add(1, Ordering::Release);
        if IN_FLIGHT.load(Ordering::Relaxed) == 0 {
            idle = idle.wrapping_add(1);
            if idle >= IDLE_LOOKS {
                sleep();
                idle = 0;
            }
        } else {
            idle = 0;
        }
        nap = if told > 0 {
            SHORT_NAP_NS
        } else {
            nap.saturating_mul(2).min(LONG_NAP_NS)
        };
        if ASKED.load(Ordering::Relaxed) == NOTHING {
            sys::nap(nap);
        }
    }
}

fn sleep() {
    SLEEPING.store(1, Ordering::SeqCst);
    if operations::is_inbox_empty() && ASKED.load(Ordering::SeqCst) == NOTHING {
        sys::futex_wait(&SLEEPING, 1, SLEEP_NS);
    }
    SLEEPING.store(0, Ordering::SeqCst);
}

/// Something was submitted.
#[inline]
pub fn wake() {
    // The collector says that it sleeps and then looks for what was submitted; we have submitted and look whether it sleeps. All four are in one order.
    if SLEEPING.load(Ordering::SeqCst) == 1 && SLEEPING.swap(0, Ordering::SeqCst) == 1 {
        sys::futex_wake(&SLEEPING);
    }
}

/// What a signal of the program's says that has the value from before its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reset {
    /// As a rule the copy is not complete.
    IsIncomplete,
    /// The program may have seen the copy complete and set the signal anew, for a use that will not come any more: the times tell.
    HasTimes,
}

/// Looks at what is in flight and records what is complete. Returns how many that were.
fn look(patience: u32, reset: Reset) -> u64 {
    LOOKING.with(|| look_alone(patience, reset)).unwrap_or(0)
}

fn look_alone(patience: u32, reset: Reset) -> u64 {
    operations::receive(queues::list);
    let now = sys::boottime_ns();
    let (mut told, mut left) = (0_u64, 0_u64);
    queues::for_each_list(|list| {
        // SAFETY: the lock makes the lists ours.
        let list: &mut List = unsafe { &mut *list };
        if list.length > 0 {
            let before = list.length;
            list.sweep(patience, |ticket, node| {
                visited(node, || finish(ticket, node, now, reset))
            });
            told = told.wrapping_add(u64::from(before.wrapping_sub(list.length)));
            left = left.wrapping_add(u64::from(list.length));
        }
    });
    IN_FLIGHT.store(left, Ordering::Relaxed);
    told
}

/// Visits an operation; a kernel that is done with is not in flight any more.
fn visited(node: &'static Node, visit: impl FnOnce() -> Visited) -> Visited {
    // SAFETY: it was handed over, and is given back after this.
    let operation = unsafe { node.operation() }.filter(|operation| operation.beside != 0);
    let agent = operation.map(|operation| operation.agent);
    let visited = visit();
    if visited == Visited::Done
        && let Some(agent) = agent
    {
        kernel_counters::for_each(|gpu| {
            if gpu.agent() == agent {
                gpu.beside.done();
            }
        });
    }
    visited
}

/// Tells what is complete now; with `wait`, also what completes soon: the process is about to end.
pub fn flush(wait: bool) {
    look(u32::MAX, Reset::IsIncomplete);
    if wait && IN_FLIGHT.load(Ordering::Relaxed) > 0 {
        // Once: the runtime is asked about each copy that is not complete, and builds for debugging say so on standard error.
        look(u32::MAX, Reset::HasTimes);
    }
    let begin = sys::boottime_ns();
    let mut progress = begin;
    while wait && IN_FLIGHT.load(Ordering::Relaxed) > 0 {
        sys::nap(SHORT_NAP_NS);
        let told = look(u32::MAX, Reset::IsIncomplete);
        let now = sys::boottime_ns();
        if told > 0 {
            progress = now;
        }
        if now.saturating_sub(begin) > FLUSH_NS || now.saturating_sub(progress) > FLUSH_IDLE_NS {
            return;
        }
    }
}

/// When AMD's library of counters has made objects that it destroys when the process exits.
#[derive(Debug, Clone, Copy)]
pub enum LibraryUse {
    /// It is loaded, and has made commands.
    Commands = 1,
    /// It has read values.
    Values = 2,
}

/// Has [`end_counting`] called before the destructors of what AMD's library of counters has made by now: what is registered last is called first.
pub fn register_end_of_counting(after: LibraryUse) {
    extern "C" fn before_destructors() {
        if state::is_own_process() {
            end_counting();
        }
    }
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    let after = after as u32;
    if REGISTERED.fetch_or(after, Ordering::Relaxed) & after == 0 {
        // SAFETY: a function without arguments.
        unsafe { libc::atexit(before_destructors) };
    }
}

/// AMD's library of counters is about to end with the process: has it called no more. What the library keeps for this thread is destroyed already, so the
/// collector's thread reads the last values.
fn end_counting() {
    if crate::sources::gpu::hsa::is_recording() {
        let_look();
    }
    LOOKING.with(kernel_counters::end);
}

/// Waits until the thread has looked at all that completed before now. Takes no lock: the process may be about to die of anything.
pub fn let_look() {
    // On a busy machine it may take a while until the thread runs.
    const PATIENCE_NS: u64 = 1_000_000_000;
    let before = LOOKS.load(Ordering::Acquire);
    let since = sys::boottime_ns();
    wake();
    while LOOKS.load(Ordering::Acquire).wrapping_sub(before) < 2 {
        if sys::boottime_ns().saturating_sub(since) > PATIENCE_NS {
            return;
        }
        sys::nap(SHORT_NAP_NS);
    }
}

/// What becomes of kernels that have ended, and whose counters are not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Their queue is gone, but not their values: they are recorded later.
    Wait,
    /// They are recorded without.
    AreTold,
}

fn give_up_list(list: *mut List, ended: Ended) {
    // SAFETY: the caller holds the lock.
    unsafe { &mut *list }.sweep(u32::MAX, |ticket, node| {
        visited(node, || give_up_one((ticket, node), ended))
    });
}

fn give_up_one((ticket, node): (Ticket, &'static Node), ended: Ended) -> Visited {
    // SAFETY: it was handed over.
    if let Some(operation) = unsafe { node.operation() } {
        if !operation.own && !node.give_up(ticket) {
            // The next look finds its times, or that there are none.
            node.orphan();
            return Visited::InFlight;
        }
        let counting = operation.counting;
        if let Some(counting) = counting.filter(|counting| counting.has_ended()) {
            let is_stopped = counting.stopped().is_some();
            if ended == Ended::Wait && is_stopped {
                return Visited::Kept;
            }
            if ended == Ended::Wait {
                // The queue is gone: its counters will not be read any more.
                counting.release();
            }
            tell(operation, node.times(), None);
            return Visited::Done;
        }
        if let Some(counting) = counting.filter(|_| ended == Ended::Wait) {
            // The queue is gone, so its commands are not executed any more.
            counting.release();
        }
        if operation.kind != OpKind::Barrier {
            counters::count(Counter::GpuLostAtEnd, 1);
        }
        if operation.own {
            node.forget_signal();
            node.set(ticket, Phase::Dead);
        } else {
            watch::done(operation.signal, ticket);
        }
    }
    Visited::Done
}

/// What is in flight on a queue will never complete.
pub fn give_up(place: u32) {
    LOOKING.with(|| {
        operations::receive(queues::list);
        if let Some(list) = queues::list(place) {
            give_up_list(list, Ended::Wait);
        }
    });
}

/// Nothing that is in flight will ever complete.
pub fn give_up_all() {
    LOOKING.with(|| {
        operations::receive(queues::list);
        queues::for_each_list(|list| give_up_list(list, Ended::AreTold));
        IN_FLIGHT.store(0, Ordering::Relaxed);
    });
}

/// What is found out about an operation.
enum Found {
    /// It is not complete.
    Nothing,
    /// Start and end: ticks of a kernel, nanoseconds of a copy.
    Times(u64, u64),
    /// Its times cannot be had, for the reason that a counter names.
    Failed(u32),
}

/// Tells an operation if it is complete.
fn finish(ticket: Ticket, node: &'static Node, now: u64, reset: Reset) -> Visited {
    // SAFETY: it was handed over, and only this function gives it back.
    let Some(operation) = (unsafe { node.operation() }) else {
        return Visited::Done;
    };
    if operation.kind == OpKind::Barrier {
        // SAFETY: ours are never destroyed.
        let complete = unsafe { Signal::new(operation.signal) }
            .is_none_or(|signal| signal.value() < operation.value);
        if !complete {
            return Visited::InFlight;
        }
        queues::is_over(operation.queue, operation.number);
        return Visited::Done;
    }
    let found = match node.phase(ticket) {
        Some(Phase::Pending) => {
            if !operation.own && node.change(ticket, Phase::Pending, Phase::Claimed).is_err() {
                return Visited::InFlight;
            }
            let found = read(operation, node, now, reset);
            if !operation.own {
                if matches!(found, Found::Nothing) {
                    node.set(ticket, Phase::Pending);
                } else {
                    node.set(ticket, Phase::Dead);
                    watch::done(operation.signal, ticket);
                }
            }
            found
        }
        Some(Phase::Taken) => {
            let (start, end) = node.times();
            Found::Times(start, end)
        }
        Some(Phase::Dead) => Found::Failed(node.cause()),
        Some(Phase::Cancelled) => return Visited::Done,
        _ => Found::Nothing,
    };
    if matches!(found, Found::Nothing) {
        return Visited::InFlight;
    }
    // A queue may be another one by the time that the counters of a kernel are known.
    let is_late = operation
        .counting
        .is_some_and(|counting| counting.has_ended());
    if !is_late && !node.is_orphaned() {
        queues::is_over(operation.queue, operation.number);
    }
    match found {
        Found::Nothing => {}
        Found::Times(start, end) => {
            return finish_timed((ticket, node), operation, (start, end), now);
        }
        Found::Failed(cause) => {
            counters::count(cause_of(cause), 1);
            if let Some(counting) = operation.counting {
                counting.release_when_stopped();
            }
        }
    }
    Visited::Done
}

/// Tells an operation whose times are known, unless it has to wait for its counters.
fn finish_timed(
    (ticket, node): (Ticket, &'static Node),
    operation: &Operation,
    times: (u64, u64),
    now: u64,
) -> Visited {
    let counts = match operation.counting {
        None => None,
        Some(counting) => match counting.verdict(operation.beside, now) {
            Verdict::Alone => {
                let counts = counting.counts();
                register_end_of_counting(LibraryUse::Values);
                counting.release();
                Some(counts)
            }
            Verdict::Shared => {
                counting.release();
                None
            }
            Verdict::Lost => {
                counting.release_when_stopped();
                None
            }
            Verdict::Unknown => {
                node.store_times(times.0, times.1);
                node.set(ticket, Phase::Taken);
                return Visited::Kept;
            }
        },
    };
    tell(operation, times, counts.as_ref());
    Visited::Done
}

fn cause_of(number: u32) -> Counter {
    if number == Counter::GpuTimeInvalid as u32 {
        Counter::GpuTimeInvalid
    } else {
        Counter::GpuTimeFailed
    }
}

/// Looks at the signal of an operation.
fn read(operation: &Operation, node: &Node, now: u64, reset: Reset) -> Found {
    // SAFETY: ours are never destroyed; the program's cannot be destroyed or used anew while the operation is claimed.
    let Some(signal) = (unsafe { Signal::new(operation.signal) }) else {
        return Found::Failed(Counter::GpuTimeFailed as u32);
    };
    let complete = signal.value() < operation.value;
    if operation.kind != OpKind::Kernel {
        if !complete {
            // What the signal has of the copy before began before this one was submitted; what it does not have yet is translated to
            // any time.
            let times = (reset == Reset::HasTimes && signal.value() == operation.value)
                .then(|| watch::copy_times(operation.signal))
                .flatten();
            let own = times.filter(|&(start, end)| {
                operation.submitted_ns <= start && start <= end && end <= now
            });
            return own.map_or(Found::Nothing, |(start, end)| Found::Times(start, end));
        }
        return watch::copy_times(operation.signal).map_or(
            Found::Failed(Counter::GpuTimeFailed as u32),
            |(start, end)| Found::Times(start, end),
        );
    }
    // The program may have set its signal for the next use already.
    match signal.ticks() {
        (0, 0) if !complete => Found::Nothing,
        (_, 0) | (0, _) if complete && node.waited_ns(now) < TIMES_LATE_NS => Found::Nothing,
        (start, end) if complete || !operation.own && start != 0 && end != 0 => {
            Found::Times(start, end)
        }
        _ => Found::Nothing,
    }
}

/// The system's time at a tick of a GPU.
fn translate(agent: u64, tick: u64) -> Option<u64> {
    let convert = table::profiling_convert_tick_to_system_domain::get()?;
    let mut time = 0;
    // SAFETY: the agent is a GPU of the runtime's, and there is room for the time.
    (unsafe { convert(agent, tick, &raw mut time) } == SUCCESS).then_some(time)
}

fn tell(operation: &Operation, (start, end): (u64, u64), counts: Option<&KernelCounts>) {
    if start == 0 || end == 0 {
        return counters::count(Counter::GpuTimeInvalid, 1);
    }
    let times = if operation.kind == OpKind::Kernel {
        // The end first: the runtime may look at its clocks for it, and both should be translated by the same ones.
        let end = translate(operation.agent, end);
        translate(operation.agent, start).zip(end)
    } else {
        Some((start, end))
    };
    let Some((start, end)) = times else {
        return counters::count(Counter::GpuTimeFailed, 1);
    };
    let now = sys::boottime_ns();
    let submitted = operation.submitted_ns;
    let (mut from, mut to, mut wrong) = (start, end, None);
    if from > to {
        (from, to) = (to, from);
        wrong = Some(b"ended before it began".as_slice());
    }
    if to.saturating_add(EARLY_NS) < submitted || from > now.saturating_add(LATE_NS) {
        return counters::count(Counter::GpuTimeInvalid, 1);
    }
    if from.saturating_add(EARLY_NS) < submitted {
        from = submitted;
        wrong = Some(b"began before it was submitted");
    }
    if to > now.saturating_add(LATE_NS) {
        to = now.max(from);
        wrong = Some(b"ended after it was seen complete");
    }
    if wrong.is_some() {
        counters::count(Counter::GpuClamped, 1);
    }
    let op = GpuOp {
        kind: operation.kind,
        start_ns: from,
        end_ns: to,
        correlation: operation.correlation,
        device: operation.device,
        queue: u64::from(operation.queue_number),
        stream: 0,
        name: operation.name,
    };
    let mut args = ArgWords::new();
    if operation.kind == OpKind::Kernel {
        instant::look(from, to);
        let [x, y, z] = operation.workgroup.map(u32::from);
        args.push(Key::Grid, Value::Size3(groups(operation)));
        args.push(Key::Workgroup, Value::Size3([x, y, z]));
        let [group, private] = operation.memory;
        if group > 0 {
            args.push(Key::SharedMemory, Value::Uint(u64::from(group)));
        }
        if private > 0 {
            args.push(Key::PrivateMemory, Value::Uint(u64::from(private)));
        }
        if operation.source != 0 {
            args.push(Key::SourceLine, Value::Known(operation.source));
        }
    } else {
        args.push(Key::Bytes, Value::Uint(operation.bytes));
        args.push(Key::Direction, Value::Known(operation.direction));
    }
    if operation.launch_stack != 0 {
        args.push(Key::LaunchStack, Value::Uint(operation.launch_stack));
    }
    if let Some(wrong) = wrong {
        args.push(Key::Clamped, Value::Known(names::key(wrong)));
    }
    match counts {
        None => events::gpu(&op, &args),
        Some(counts) => tell_counted(&op, &args, counts),
    }
}

/// By itself, so that operations without counters do not pay for the room.
#[cold]
#[inline(never)]
fn tell_counted(op: &GpuOp, args: &ArgWords, counts: &KernelCounts) {
    let mut bytes = [0; COUNTS_BYTES];
    let text = Some((Key::Counters, counts.put(&mut bytes)));
    events::gpu(op, &WithText { args, text });
}

/// Work-groups in three dimensions.
fn groups(operation: &Operation) -> [u32; 3] {
    let [x, y, z] = operation.grid;
    let [wide, high, deep] = operation.workgroup.map(|items| u32::from(items).max(1));
    [x.div_ceil(wide), y.div_ceil(high), z.div_ceil(deep)]
}
