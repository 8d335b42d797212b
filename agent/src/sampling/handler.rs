//! The handler of the sample signal: one sample.
//!
//! The order of things: whose signal is it, what time is it, walk the stack into the slot's buffer,
//! report modules that are new, read the Python frames, write what differs from the stack before. No lock, no allocation, no
//! system call (but those of [`crate::clocks::thread_counters`], where the user asked for events, of [`crate::clocks::clock::ThreadClock::missing_ticks`] and [`crate::clocks::clock::ThreadClock::vary`], of [`faults`] in handlers of
//! faults, and of [`interrupted`] where a sample ends a wait), no panic, errno untouched (nothing here sets it).
//! `tests/tests/agent/purity.rs` proves that on the machine code.

use std::ffi::{c_int, c_void};

use rsys_unwind::{End, FrameBuffer};
use rsys_wire::adopt::{ADOPT_COOKIE, SAMPLE_SIGNAL};
use rsys_wire::handshake::PythonChoice;
use rsys_wire::layout::Counter;
use rsys_wire::record::{self, SAMPLE_BROKEN, SAMPLE_PERF, SAMPLE_TRUNCATED};
use rsys_wire::ring::DropCause;

use crate::channel::announce;
use crate::channel::counters::{self, count_unattributed};
use crate::clocks::perf;
use crate::sampling::adopt;
use crate::sampling::buffers::shared;
use crate::sampling::closing;
use crate::sampling::deferred;
use crate::sampling::seen::Seen;
use crate::sampling::slots::{self, Slot};
use crate::sampling::stack_room::{
    ROOM_FOR_A_LEAF, ROOM_FOR_AN_INTERRUPTION, ROOM_FOR_ANY, ROOM_FOR_OURS, fault_bytes, stack_room,
};
use crate::sampling::walk::{leaf, registers, walk};
use crate::sampling::words;
use crate::signals;
use crate::signals::{faults, held, interrupted};
use crate::state;
use crate::state::{departure, pause};
use crate::sys;
use crate::sys::thread_pointer;

/// The part of `siginfo_t` that timers, perf and queued signals fill in (sigaction(2), 64-bit).
#[derive(Debug)]
#[repr(C)]
struct SignalInfo {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    /// Timer: its id. perf: half of the band. Queued: the sender's pid.
    first: c_int,
    /// Timer: the overrun. Queued: the sender's uid.
    second: c_int,
    /// Timer and queued: the value. perf: the descriptor.
    value: u64,
}

/// The handler that the kernel calls.
///
/// # Safety
/// For the kernel alone.
///
/// # Signal safety
/// See the module's text. Forwarding a signal that is not ours does what the target's handler does.
// "C-unwind" only so that the compiler adds no code that would panic if something could unwind.
#[unsafe(link_section = "rsys_sample_handler")]
pub unsafe extern "C-unwind" fn on_sample(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes valid pointers; the prefix read here is part of every siginfo_t.
    let details = unsafe { &*info.cast::<SignalInfo>() };
    // SAFETY: the third argument of a handler with SA_SIGINFO.
    let machine = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if !thread_pointer::is_of_c_library() {
        // SAFETY: the kernel's arguments.
        return unsafe { without_words(signal, info, context) };
    }
    let is_ours = faults::in_sample(|| {
        let is_ours = take(signal, details, machine);
        let may_have_ended = is_ours && interrupted::may_have_ended(machine);
        if may_have_ended && stack_room(machine) >= ROOM_FOR_OURS + 2 * fault_bytes() {
            interrupted::begin_again(machine);
        }
        is_ours
    });
    if !is_ours {
        // SAFETY: the kernel's arguments.
        unsafe { on_other(signal, info, context) };
    } else if details.code == libc::SI_TIMER {
        // SAFETY: as above.
        unsafe { closing::after_sample(details.value, context) };
    }
}

/// A signal that comes where the thread pointer is not the C library's, so that nothing is known of the thread.
///
/// # Safety
/// Within the handler, with its arguments.
#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn without_words(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: as in the handler.
    let details = unsafe { &*info.cast::<SignalInfo>() };
    let asks = details.code == libc::SI_QUEUE && details.value as u32 == ADOPT_COOKIE;
    if !asks && signals::is_meant_for_program(signal, details.code, details.first) {
        // SAFETY: passes the kernel's arguments on.
        unsafe { signals::forward(signal, info, context) }
    } else {
        count_unattributed();
    }
}

/// Takes a sample if the signal brings one. Returns whether it was ours.
#[inline(never)]
fn take(signal: c_int, details: &SignalInfo, machine: &libc::ucontext_t) -> bool {
    match details.code {
        libc::SI_TIMER => {
            let value = std::ptr::with_exposed_provenance_mut(details.value as usize);
            if value == deferred::mark() {
                if let Some(slot) = deferred::slot_of_timer(details.first) {
                    on_timer(slot, details.second, machine);
                    return true;
                }
            } else if let Some(slot) = slots::look_up(value) {
                // SAFETY: an active slot belongs to the thread that its timer signals, and its
                // timer is the one that signalled: this thread's.
                if unsafe { (*slot).clock.is_timer(details.first) } {
                    on_timer(slot, details.second, machine);
                    return true;
                }
            }
        }
        perf::TRAP_PERF if signal == libc::SIGTRAP => {
            let value = std::ptr::with_exposed_provenance_mut(details.value as usize);
            if let Some(slot) = slots::look_up(value)
                && std::ptr::eq(slot, words::slot())
            {
                on_perf(slot, machine);
                return true;
            }
        }
        // POLL_IN to POLL_HUP: what F_SETSIG turns perf's wake-ups into.
        1..=6 if signal == SAMPLE_SIGNAL => {
            let slot = words::slot();
            // SAFETY: the thread's own slot or null.
            if unsafe { slot.as_ref() }
                .is_some_and(|slot| slot.clock.is_perf(details.value as c_int))
            {
                on_perf(slot, machine);
                return true;
            }
        }
        libc::SI_QUEUE if details.value as u32 == ADOPT_COOKIE => {
            adopt::adopt_self();
            return true;
        }
        _ => {}
    }
    false
}

/// A signal that brings no sample: the program's, or what is left of a clock.
///
/// # Safety
/// Within the handler, with its arguments.
#[inline(never)]
unsafe extern "C-unwind" fn on_other(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: as in the handler.
    let details = unsafe { &*info.cast::<SignalInfo>() };
    // SAFETY: as above.
    let machine = unsafe { &*context.cast::<libc::ucontext_t>() };
    if signals::is_meant_for_program(signal, details.code, details.first) {
        if signal == libc::SIGTRAP && held::is_early(signal, blocked(machine)) {
            // It will wait, and perf's would be taken for it.
            leave_to_timer();
        }
        // SAFETY: passes the kernel's arguments on.
        unsafe { signals::forward(signal, info, context) }
    } else {
        count_unattributed();
    }
}

/// Ends perf's clock in a thread that has a timer beside it.
fn leave_to_timer() {
    let slot = words::slot();
    if slot.is_null() || !Slot::occupy(slot) {
        return;
    }
    // SAFETY: the thread's own slot, and no sample of it is under way.
    unsafe { (*slot).clock.without_traps() };
    Slot::vacate(slot);
}

/// One period of perf's clock. One that comes during another sample adds to the weight of that or of the next.
#[inline]
fn on_perf(slot: *mut Slot, machine: &libc::ucontext_t) {
    if !Slot::occupy(slot) {
        return Slot::merge(slot);
    }
    // SAFETY: the thread's own slot, and no sample of it is under way.
    let state = unsafe { &mut *slot };
    state.clock.count_perf(1);
    sample_if_there_is_room(state, 1, SAMPLE_PERF, machine);
    state.clock.vary();
    Slot::vacate(slot);
}

/// One timer expiry and its overruns.
#[inline]
fn on_timer(slot: *mut Slot, overrun: c_int, machine: &libc::ucontext_t) {
    if !Slot::occupy(slot) {
        return;
    }
    let ticks = u64::try_from(overrun).unwrap_or(0).wrapping_add(1);
    // SAFETY: the thread's own slot, and no sample of it is under way.
    let state = unsafe { &mut *slot };
    let merged = state.take_merged();
    let weight = merged.wrapping_add(state.clock.missing_ticks(ticks));
    if weight > 0 {
        sample_if_there_is_room(state, weight, 0, machine);
    }
    state.clock.count_timer();
    Slot::vacate(slot);
}

/// Records one stack, unless that would take more of the program's alternate stack than there is.
#[inline]
fn sample_if_there_is_room(slot: &mut Slot, weight: u64, kind: u8, machine: &libc::ucontext_t) {
    let room = stack_room(machine);
    if room >= ROOM_FOR_ANY + 2 * fault_bytes() {
        return sample(slot, weight, kind, machine, room);
    }
    // perf's next SIGTRAP would come on the same stack, and it may come before the clock is held.
    if room < ROOM_FOR_AN_INTERRUPTION + fault_bytes() {
        slot.clock.without_traps();
    }
    if room >= ROOM_FOR_A_LEAF && slot.clock.hold() {
        sample(slot, weight, kind, machine, room);
        return slot.clock.let_go();
    }
    slot.clock.account(weight);
    slot.ring()
        .header()
        .count_drop(DropCause::SmallStack, weight);
}

/// Records one stack. The handler may take `room` bytes of stack.
// A frame of its own, which a stack without room does not bear.
#[inline(never)]
fn sample(slot: &mut Slot, weight: u64, kind: u8, machine: &libc::ucontext_t, room: usize) {
    // Who ends the recording waits for the samples that did not see it; see `lifecycle::attach`.
    if !state::is_active() {
        return;
    }
    if counters::is_sampler_gone() {
        return departure::leave();
    }
    slot.clock.account(weight);
    if pause::is_paused(slot.clock.tid) {
        return counters::count(Counter::Paused, weight);
    }
    let time_ns = sys::boottime_ns();
    if announce::is_unheard(time_ns) {
        return departure::leave();
    }
    if time_ns < counters::quiet_until_ns() {
        return counters::count(Counter::NotWanted, 1);
    }
    let ring = *slot.ring();
    slot.counters.record(&ring, time_ns);
    // SAFETY: the thread's own buffers, in its own sample.
    let (current, previous) = unsafe { slot.stacks.slices() };
    let seen = Seen::new(slot.new_modules);
    let mut frames = FrameBuffer::new(current);
    let opened = if room < ROOM_FOR_OURS {
        None
    } else {
        faults::let_through(blocked(machine))
    };
    let confined = opened.is_none();
    let choice = state::settings().python;
    let end = match choice {
        PythonChoice::Only => {
            // Interpreters are found by their modules.
            seen.note(registers(machine).pc());
            End::Root
        }
        _ if confined => leaf(&registers(machine), &mut frames),
        _ => walk(slot.framehop, &registers(machine), &seen, room, &mut frames),
    };
    let stack_flags = match end {
        End::Root => 0,
        End::Truncated => SAMPLE_TRUNCATED,
        End::Broken(_) => SAMPLE_BROKEN,
    };
    let mut flags = kind | stack_flags;
    seen.report(&ring, time_ns);
    if choice != PythonChoice::Off && !confined {
        slot.python.read(&ring, registers(machine).sp());
        flags |= slot.python.flags;
    }
    faults::block_again(opened.unwrap_or(0));
    let frames = frames.words();
    let shared = shared(frames, previous);
    let new = frames
        .get(..frames.len().wrapping_sub(shared))
        .unwrap_or(frames);
    let merged = slot.take_merged();
    slot.clock.account(merged);
    let weight = weight.wrapping_add(merged);
    let weight_word = u32::try_from(weight).unwrap_or(u32::MAX);
    let written = record::put_sample(&ring, time_ns, weight_word, flags, shared as u16, new);
    if written {
        slot.stack_flags = stack_flags;
        slot.stacks.swap(frames.len());
    } else {
        ring.header().count_drop(DropCause::RingFull, weight);
    }
}

/// The signals that were blocked when this one arrived.
#[inline]
fn blocked(machine: &libc::ucontext_t) -> u64 {
    // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
    unsafe { (&raw const machine.uc_sigmask).cast::<u64>().read() }
}
