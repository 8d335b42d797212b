//! Threads, from their first instruction to their last.
//!
//! `pthread_create` gets a trampoline as start routine, which gives the thread its slot, clock and
//! signal stack, and takes them back at the end. `pthread_exit` and cancellation unwind through the
//! trampoline (it has call-frame information and nothing to clean up) and end in the destructor of
//! a thread-specific key instead.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use rsys_unwind::Registers;
use rsys_wire::handshake::UnwinderChoice;
use rsys_wire::record::{self, Clock};
use rsys_wire::ring::DropCause;

use crate::clocks::clock::ThreadClock;
use crate::code::snapshot;
use crate::events;
use crate::sampling::adopt;
use crate::sampling::framehop;
use crate::sampling::slots::{self, Slot};
use crate::sampling::tail;
use crate::sampling::words;
use crate::signals::{believed, program_mask};
use crate::state;
use crate::sys;
use crate::sys::calls;
use crate::sys::lock::without_signals;
use crate::sys::signal_stack;

const NO_KEY: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);

/// Makes the key whose destructor ends threads.
#[unsafe(link_section = "rsys_start")]
pub fn register_hooks() {
    let mut key = 0;
    // SAFETY: `key` is valid; the destructor has the right signature.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(on_exit)) } == 0 {
        KEY.store(key, Ordering::Relaxed);
    }
}

unsafe extern "C" {
    /// The start routine of every thread: `slot` in, the real routine's result out.
    pub fn rsys_thread_trampoline(slot: *mut c_void) -> *mut c_void;
    /// Where the trampoline goes on after the end of the thread.
    fn rsys_thread_trampoline_end();
}

std::arch::global_asm!(
    ".text",
    ".globl rsys_thread_trampoline",
    ".hidden rsys_thread_trampoline",
    ".type rsys_thread_trampoline, @function",
    "rsys_thread_trampoline:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "push r12",
    ".cfi_def_cfa_offset 24",
    ".cfi_offset r12, -24",
    "sub rsp, 8",
    ".cfi_def_cfa_offset 32",
    "mov rbx, qword ptr [rdi]",
    "mov r12, qword ptr [rdi + 8]",
    "mov qword ptr [rdi + 16], rsp",
    "call {begin}",
    "mov rdi, r12",
    "call rbx",
    "mov rbx, rax",
    "mov rdi, rsp",
    "call {end}",
    ".globl rsys_thread_trampoline_end",
    ".hidden rsys_thread_trampoline_end",
    "rsys_thread_trampoline_end:",
    "mov rax, rbx",
    "add rsp, 8",
    ".cfi_def_cfa_offset 24",
    "pop r12",
    ".cfi_def_cfa_offset 16",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size rsys_thread_trampoline, . - rsys_thread_trampoline",
    begin = sym begin,
    end = sym end_from_trampoline,
);

/// Takes a slot for a thread that is about to be created; null when it cannot be sampled.
pub fn prepare(start: *mut c_void, argument: *mut c_void) -> *mut Slot {
    if KEY.load(Ordering::Relaxed) == NO_KEY {
        // Before glibc 2.34 a program may have loaded its threads later than us.
        register_hooks();
    }
    // Without a system call there may be a slot, but no new ones.
    let from_dispatched = calls::is_dispatched();
    let claimed = if from_dispatched {
        slots::claim_existing()
    } else {
        snapshot::renew();
        before_first_thread();
        slots::claim()
    };
    let Some(slot) = claimed else {
        return std::ptr::null_mut();
    };
    // SAFETY: the slot is ours until the thread starts.
    unsafe {
        (*slot).start = start;
        (*slot).argument = argument;
        (*slot).inherited_signals = believed::all();
        (*slot).clock.not_before_ns = sys::boottime_ns();
        (*slot).from_dispatched = from_dispatched;
    }
    slot
}

/// The calling thread makes the first one that the process makes: it gets its whole clock before it has company.
fn before_first_thread() {
    /// The process in which it was done: the child of a fork begins with one thread.
    static DONE_IN: AtomicU32 = AtomicU32::new(0);
    // A child after vfork has the memory of its parent.
    if !state::may_set_up() || state::is_deferred() {
        return;
    }
    let process = sys::getpid();
    if DONE_IN.swap(process, Ordering::Relaxed) == process {
        return;
    }
    let Some(slot) = words::own_slot() else {
        return;
    };
    without_signals(|| {
        if Slot::occupy(slot) {
            slot.clock.join_before_threads();
            Slot::vacate(slot);
        }
    });
}

/// Begins the calling thread, which is not new: the first of a process, or of a fork child.
pub fn begin_current() {
    let Some(slot) = slots::claim() else { return };
    // SAFETY: the slot is ours.
    unsafe {
        (*slot).start = std::ptr::null_mut();
        (*slot).inherited_signals = believed::all();
        (*slot).clock.cpu_base_ns = sys::thread_cpu_ns();
        begin(slot);
    }
}

/// Gives the calling thread its clock and signal stack.
///
/// # Safety
/// The slot must have been claimed for this thread.
unsafe extern "C" fn begin(slot: *mut Slot) {
    // SAFETY: claimed for this thread; its handler does not run before the clock starts.
    let state = unsafe { &mut *slot };
    state.clock.tid = sys::gettid();
    believed::inherit(state.inherited_signals);
    words::set_slot(slot);
    Slot::guard_signal_stack(slot);
    if state::settings().unwinder == UnwinderChoice::Framehop {
        // SAFETY: a slot begins at the top of its signal stack, which is not in use yet.
        state.framehop = unsafe { framehop::make_engine(slot.cast()) };
    }
    signal_stack::enter(Slot::signal_stack(slot));
    program_mask::begin_thread(!state.from_dispatched);
    keep_for_the_end(slot.cast());
    adopt::start_recording(state, ThreadClock::prepare);
}

/// Begins the only thread of a process whose start was deferred: its timer runs and its signal stack is there. It began at `began_ns`
/// (the sampler's CLOCK_BOOTTIME).
pub fn begin_deferred(slot: *mut Slot, began_ns: u64) {
    // SAFETY: claimed for this thread, and its timer does not find it yet.
    let state = unsafe { &mut *slot };
    state.clock.tid = sys::gettid();
    words::set_slot(slot);
    let clock = if state.clock.has_timer() {
        state.clock.prepare_perf(Clock::Timer)
    } else {
        state.clock.prepare()
    };
    adopt::record_start(state, clock, began_ns);
    Slot::vacate(slot);
    state.clock.start_perf();
}

/// Lets [`on_exit`] be called at the end of the calling thread, with anything but null.
#[unsafe(link_section = "rsys_start")]
pub fn keep_for_the_end(argument: *mut c_void) {
    let key = KEY.load(Ordering::Relaxed);
    if key != NO_KEY {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(key, argument) };
    }
    events::make_room_for_key();
}

/// The calling thread has a new name. The sampler looks at names now and then only, and not at those of processes that are gone.
pub fn note_name() {
    // A child after vfork has the memory of its parent.
    if !state::may_set_up() || state::is_deferred() {
        return;
    }
    let Some(slot) = words::own_slot() else {
        return;
    };
    // No handler of the program may leave this by a jump.
    without_signals(|| {
        if Slot::occupy(slot) {
            put_name(slot);
            Slot::vacate(slot);
        }
    });
}

/// Records the calling thread's name into its slot, which must be occupied.
pub fn put_name(slot: &Slot) {
    if !record::put_thread_name(slot.ring(), &sys::thread_name()) {
        slot.ring().header().count_drop(DropCause::RingFull, 0);
    }
}

extern "C" fn on_exit(_slot: *mut c_void) {
    end_current(None);
}

extern "C" fn end_from_trampoline(sp: u64) {
    end_current(Some(in_trampoline(sp)));
}

fn in_trampoline(sp: u64) -> Registers {
    let pc = (rsys_thread_trampoline_end as *const ()).addr() as u64;
    Registers::new(pc, sp, 0)
}

/// The registers of the trampoline that runs below all frames of a thread, if one does.
pub fn bottom(slot: &Slot) -> Option<Registers> {
    (slot.bottom != 0).then(|| in_trampoline(slot.bottom))
}

/// Ends the calling thread's recording. `bottom` are the trampoline's registers, if it runs.
fn end_current(bottom: Option<Registers>) {
    let slot = words::slot();
    // SAFETY: the thread's own slot or null.
    let Some(state) = (unsafe { slot.as_mut() }) else {
        return;
    };
    let is_active = state::is_active();
    // Signals that come from here on find the slot occupied and do nothing. Once the clocks are stopped none is on its way: the
    // kernel hands out what it has for a thread before the thread returns from a system call.
    if state::is_confined() || (is_active && !Slot::occupy(slot)) {
        // What would have to be done may be forbidden, or the thread that ends the process has the slot.
        // It stays the thread's until another looks whether that is gone.
        state.adopted.store(true, Ordering::Relaxed);
        words::set_slot(std::ptr::null_mut());
        return;
    }
    if !is_active {
        state.clock.stop();
        state.counters.close();
        return give_back(state);
    }
    let cpu_time_ns = state.clock.cpu_ns_at_end(sys::boottime_ns());
    let tail = state.clock.unsampled_periods(cpu_time_ns);
    tail::account_for_tail(state, tail, bottom);
    state.clock.stop();
    words::set_slot(std::ptr::null_mut());
    let time_ns = sys::boottime_ns();
    let ring = *state.ring();
    state.counters.record(&ring, time_ns);
    state.counters.close();
    // The name of a thread without samples is not shown.
    let named = state.stacks.previous_frames() > 0 || tail > 0;
    let name = if named { sys::thread_name() } else { [0; 16] };
    if !record::put_thread_end(state.ring(), time_ns, cpu_time_ns, &name) {
        state.ring().header().count_drop(DropCause::RingFull, 0);
    }
    give_back(state);
}

/// Takes the signal stack from the calling thread and gives its slot back, which must have no clocks any more.
fn give_back(slot: &mut Slot) {
    words::set_slot(std::ptr::null_mut());
    signal_stack::leave();
    slot.framehop = std::ptr::null_mut();
    framehop::drop_engine();
    let key = KEY.load(Ordering::Relaxed);
    if key != NO_KEY {
        // SAFETY: the key exists; the destructor need not run again.
        unsafe { libc::pthread_setspecific(key, std::ptr::null()) };
    }
    slot.release();
}
