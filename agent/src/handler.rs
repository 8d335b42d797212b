//! The handler of the sample signal: one sample.
//!
//! The order of things: whose signal is it, what time is it, walk the stack into the slot's buffer,
//! report modules that are new, read the Python frames, write what differs from the stack before. No lock, no allocation, no
//! system call (but those of [`counters`], where the user asked for events, of [`clock::vary`], and of [`faults`] in handlers of
//! faults), no panic, errno untouched (nothing here sets it).
//! `tests/tests/purity.rs` proves that on the machine code.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use rsys_unwind::{End, Engine, FrameBuffer, FramePointerEngine, Registers};
use rsys_wire::adopt::{ADOPT_COOKIE, SAMPLE_SIGNAL};
use rsys_wire::handshake::{PythonChoice, UnwinderChoice};
use rsys_wire::layout::Counter;
use rsys_wire::record::{self, SAMPLE_BROKEN, SAMPLE_PERF, SAMPLE_TAIL, SAMPLE_TRUNCATED};
use rsys_wire::ring::DropCause;

use crate::birth;
use crate::clock;
use crate::counters;
use crate::faults;
use crate::guard::Guarded;
use crate::markers::gate;
use crate::modules::{self, Seen};
use crate::perf;
use crate::process;
use crate::python;
use crate::signals;
use crate::slots::{self, Slot};
use crate::sys;
use crate::threads;
use crate::tls;

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
pub unsafe extern "C-unwind" fn on_sample(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes valid pointers; the prefix read here is part of every siginfo_t.
    let details = unsafe { &*info.cast::<SignalInfo>() };
    // SAFETY: the third argument of a handler with SA_SIGINFO.
    let machine = unsafe { &*context.cast::<libc::ucontext_t>() };
    match details.code {
        libc::SI_TIMER => {
            let value = std::ptr::with_exposed_provenance_mut(details.value as usize);
            if value == birth::mark() {
                if let Some(slot) = birth::slot_of_timer(details.first) {
                    return on_timer(slot, details.second, machine);
                }
            } else if let Some(slot) = slots::look_up(value) {
                // SAFETY: an active slot belongs to the thread that its timer signals, and its
                // timer is the one that signalled: this thread's.
                if unsafe { (*slot).timer } == details.first {
                    return on_timer(slot, details.second, machine);
                }
            }
        }
        perf::TRAP_PERF if signal == libc::SIGTRAP => {
            let value = std::ptr::with_exposed_provenance_mut(details.value as usize);
            if let Some(slot) = slots::look_up(value)
                && std::ptr::eq(slot, tls::slot())
            {
                return on_perf(slot, machine);
            }
        }
        // POLL_IN to POLL_HUP: what F_SETSIG turns perf's wake-ups into.
        1..=6 if signal == SAMPLE_SIGNAL => {
            let slot = tls::slot();
            // SAFETY: the thread's own slot or null.
            let fd = unsafe { slot.as_ref() }.map_or(-1, |slot| slot.perf);
            if fd >= 0 && fd == details.value as c_int {
                return on_perf(slot, machine);
            }
        }
        libc::SI_QUEUE if details.value as u32 == ADOPT_COOKIE => {
            return threads::adopt_self();
        }
        _ => {}
    }
    if signals::is_meant_for_program(signal, details.code, details.first) {
        // SAFETY: passes the kernel's arguments on.
        unsafe { signals::forward(signal, info, context) }
    } else {
        count_unattributed();
    }
}

/// One period of perf's clock. One that comes during another sample is left to the timer.
#[inline]
fn on_perf(slot: *mut Slot, machine: &libc::ucontext_t) {
    if !Slot::occupy(slot) {
        return;
    }
    // SAFETY: the thread's own slot, and no sample of it is under way.
    let state = unsafe { &mut *slot };
    state.perf_balance = state.perf_balance.wrapping_add(1);
    sample_if_there_is_room(state, 1, SAMPLE_PERF, machine);
    clock::vary(state);
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
    let missing = missing_ticks(state, ticks);
    if missing > 0 {
        sample_if_there_is_room(state, missing, 0, machine);
    }
    Slot::vacate(slot);
}

/// How many of the timer's ticks nothing accounts for yet.
#[inline]
fn missing_ticks(slot: &mut Slot, ticks: u64) -> u64 {
    if slot.perf < 0 && slot.perf_balance == 0 {
        return ticks;
    }
    // perf sampled, or an end that did not come accounted for, some of these ticks already; the rest
    // is time in the kernel and merged signals.
    slot.perf_balance = slot.perf_balance.wrapping_sub_unsigned(ticks);
    if slot.perf_balance >= 0 {
        return 0;
    }
    let missing = slot.perf_balance.unsigned_abs();
    slot.perf_balance = 0;
    missing
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
        clock::without_traps(slot);
    }
    if room >= ROOM_FOR_A_LEAF && clock::hold(slot) {
        sample(slot, weight, kind, machine, room);
        return clock::let_go(slot);
    }
    slot.accounted_weight = slot.accounted_weight.wrapping_add(weight);
    slot.ring()
        .header()
        .count_drop(DropCause::SmallStack, weight);
}

/// Records one stack. The handler may take `room` bytes of stack.
// A frame of its own, which a stack without room does not bear.
#[inline(never)]
fn sample(slot: &mut Slot, weight: u64, kind: u8, machine: &libc::ucontext_t, room: usize) {
    slot.accounted_weight = slot.accounted_weight.wrapping_add(weight);
    if gate::is_paused(slot.tid) {
        return slots::count(Counter::Paused, weight);
    }
    let time_ns = sys::boottime_ns();
    if time_ns < slots::quiet_until_ns() {
        return slots::count(Counter::NotWanted, 1);
    }
    counters::record(slot, time_ns);
    let depth = Slot::depth();
    // SAFETY: the slot's buffers have `depth` words each and belong to this thread.
    let (current, previous) = unsafe {
        (
            std::slice::from_raw_parts_mut(slot.current, depth),
            std::slice::from_raw_parts(slot.previous, slot.previous_frames as usize),
        )
    };
    let seen = Seen::new(slot.new_modules);
    let mut frames = FrameBuffer::new(current);
    let confined = room < ROOM_FOR_OURS || !faults::let_through(blocked(machine));
    let choice = process::settings().python;
    let end = match choice {
        PythonChoice::Only => {
            // Interpreters are found by their modules.
            seen.note(registers(machine).pc());
            End::Root
        }
        _ if confined => leaf(&registers(machine), &mut frames),
        _ => walk(slot, &registers(machine), &seen, room, &mut frames),
    };
    let stack_flags = match end {
        End::Root => 0,
        End::Truncated => SAMPLE_TRUNCATED,
        End::Broken(_) => SAMPLE_BROKEN,
    };
    let mut flags = kind | stack_flags;
    seen.report(slot.ring(), time_ns);
    if choice != PythonChoice::Off && !confined {
        slot.python_flags = python::read(slot);
        flags |= slot.python_flags;
    }
    faults::block_again();
    let frames = frames.words();
    let shared = shared(frames, previous);
    let new = frames
        .get(..frames.len().wrapping_sub(shared))
        .unwrap_or(frames);
    let weight_word = u32::try_from(weight).unwrap_or(u32::MAX);
    let written = record::put_sample(slot.ring(), time_ns, weight_word, flags, shared as u16, new);
    if written {
        slot.previous_frames = frames.len() as u32;
        slot.stack_flags = stack_flags;
        std::mem::swap(&mut slot.current, &mut slot.previous);
    } else {
        slot.ring().header().count_drop(DropCause::RingFull, weight);
    }
}

/// How many outermost frames two stacks share.
#[inline]
pub fn shared(frames: &[u64], previous: &[u64]) -> usize {
    let both = frames.iter().rev().zip(previous.iter().rev());
    both.take_while(|(a, b)| a == b).count()
}

/// The stack of a thread in which a fault or the walk itself would kill the process: the leaf has to do.
#[inline]
fn leaf(registers: &Registers, frames: &mut FrameBuffer<'_>) -> End {
    match frames.push(registers.pc(), rsys_unwind::EXACT) {
        Ok(()) => End::Broken(rsys_unwind::Broken::UnreadableStack),
        Err(_) => End::Truncated,
    }
}

#[inline]
fn walk(
    slot: &Slot,
    registers: &Registers,
    seen: &Seen,
    room: usize,
    frames: &mut FrameBuffer<'_>,
) -> End {
    let choice = match process::settings().unwinder {
        // Ours is content with a tenth of the room.
        UnwinderChoice::Framehop if room < ROOM_FOR_FRAMEHOP + fault_bytes() => UnwinderChoice::Cfi,
        choice => choice,
    };
    let engine = process::cfi_engine();
    // Guesses read in vain now and then.
    let mut engine = match room < ROOM_FOR_OURS + fault_bytes() {
        true => engine.by_tables_only(),
        false => engine,
    };
    match choice {
        UnwinderChoice::Cfi => {
            let end = engine.walk(registers, &Guarded, seen, frames);
            if modules::some_unreported() {
                note_all(seen, frames);
            }
            end
        }
        UnwinderChoice::FramePointer => {
            let end = FramePointerEngine::new(engine).walk(registers, &Guarded, seen, frames);
            note_all(seen, frames);
            end
        }
        UnwinderChoice::Framehop => {
            let end = crate::framehop::walk(slot, registers, seen, frames);
            note_all(seen, frames);
            end
        }
    }
}

/// The CFI engine asks for the module of every address it does not know; the others do not.
fn note_all(seen: &Seen, frames: &FrameBuffer<'_>) {
    for word in frames.words() {
        seen.note(word & record::FRAME_ADDRESS);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn registers(machine: &libc::ucontext_t) -> Registers {
    Registers::from_gregs(&machine.uc_mcontext.gregs)
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn registers(machine: &libc::ucontext_t) -> Registers {
    let context = &machine.uc_mcontext;
    Registers::from_mcontext(&context.regs, context.sp, context.pc)
}

/// The room on the stack that a sample takes, in bytes: of the leaf alone, with a walk by our engines, and with one by framehop.
const ROOM_FOR_A_LEAF: usize = 1280;
const ROOM_FOR_OURS: usize = 3584;
const ROOM_FOR_FRAMEHOP: usize = rsys_unwind::FRAMEHOP_STACK_BYTES + 1024;
/// What the handler has taken when it holds perf's clock, and what a signal takes that finds a sample under way.
const ROOM_FOR_AN_INTERRUPTION: usize = 512;
/// The most of these.
const ROOM_FOR_ANY: usize = ROOM_FOR_FRAMEHOP;

/// What the kernel and our handler take of the same stack for a fault in a guarded read, in bytes.
static FAULT_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// Asks how large the registers are that the kernel saves for a handler; kernels before 5.14 do not say.
pub fn learn_frame_size() {
    // SAFETY: reads the vector that the kernel passed.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    if frame != 0 {
        FAULT_BYTES.store(frame + 256, Ordering::Relaxed);
    }
}

fn fault_bytes() -> usize {
    FAULT_BYTES.load(Ordering::Relaxed)
}

/// How many bytes of the program's alternate stack are left for the handler, if it runs there; else more than it can take.
#[inline]
fn stack_room(machine: &libc::ucontext_t) -> usize {
    let here = (&raw const *machine).addr();
    let stack = &machine.uc_stack;
    let room = here.wrapping_sub(stack.ss_sp.addr());
    // Elsewhere, the difference is larger than the stack.
    if stack.ss_flags & libc::SS_DISABLE == 0 && room < stack.ss_size {
        room
    } else {
        usize::MAX
    }
}

/// The signals that were blocked when this one arrived.
#[inline]
fn blocked(machine: &libc::ucontext_t) -> u64 {
    // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
    unsafe { (&raw const machine.uc_sigmask).cast::<u64>().read() }
}

/// Records what a thread did between its last tick and its end: with the stack of its last sample,
/// or, if it had none, as its start routine. `bottom` are the registers of the trampoline that called
/// that routine. The first thread starts at the program's entry. Runs when the thread's clocks have stopped or are blocked, not in the handler.
pub fn account_for_tail(slot: &mut Slot, periods: u64, bottom: Option<Registers>) {
    if periods == 0 {
        return;
    }
    if gate::is_paused(slot.tid) {
        return slots::count(Counter::Paused, periods);
    }
    let time_ns = sys::boottime_ns();
    if time_ns < slots::quiet_until_ns() {
        return slots::count(Counter::NotWanted, 1);
    }
    let weight = u32::try_from(periods).unwrap_or(u32::MAX);
    let mut words = [0_u64; 16];
    let sampled = slot.previous_frames > 0 || slot.python_flags != 0;
    let (shared, frames): (u16, &[u64]) = if sampled {
        (slot.previous_frames as u16, &[])
    } else if let Some(bottom) = bottom {
        let seen = Seen::new(slot.new_modules);
        let mut frames = FrameBuffer::new(&mut words);
        process::cfi_engine().walk(&bottom, &Guarded, &seen, &mut frames);
        let length = frames.len();
        // In the trampoline's place, what it called.
        if let Some(innermost) = words.first_mut() {
            *innermost = slot.start.addr() as u64 | record::FRAME_EXACT;
        }
        seen.note(slot.start.addr() as u64);
        seen.report(slot.ring(), time_ns);
        (0, words.get(..length).unwrap_or(&[]))
    } else {
        let entry = match slot.start.addr() as u64 {
            0 => sys::program_entry(),
            routine => routine,
        };
        let seen = Seen::new(slot.new_modules);
        seen.note(entry);
        seen.report(slot.ring(), time_ns);
        words[0] = entry | record::FRAME_EXACT;
        (0, &words[..1])
    };
    let flags = SAMPLE_TAIL | slot.python_flags | if sampled { slot.stack_flags } else { 0 };
    if !record::put_sample(slot.ring(), time_ns, weight, flags, shared, frames) {
        slot.ring()
            .header()
            .count_drop(DropCause::RingFull, periods);
    }
}

/// Counts a signal that no thread can be found for.
pub fn count_unattributed() {
    slots::count(Counter::Unattributed, 1);
}
