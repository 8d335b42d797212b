//! The call stack of a call that launches something, native and Python frames, recorded once and referred to by its id.

use std::sync::atomic::{AtomicU64, Ordering};

use rsys_unwind::{End, Engine, FrameBuffer, Registers, WalkedAgain};
use rsys_wire::event::{self, Stack};
use rsys_wire::handshake::PythonChoice;
use rsys_wire::record::{FRAME_ADDRESS, SAMPLE_BROKEN, SAMPLE_TRUNCATED};

use crate::code::modules;
use crate::code::rules;
use crate::events;
use crate::events::rings::{self, EventRing, STACK_DEPTH};
use crate::sampling::python;
use crate::sampling::seen::{self, Seen};
use crate::signals::faults;
use crate::state;
use crate::sys::guard::Guarded;
use crate::sys::recent::Recent;

/// Ids of stacks that were recorded; one that was driven out is recorded again.
static RECORDED: Recent<{ 16 * 1024 }> = Recent::new();
/// The agent's own code, of which no frame is shown: its first address and one past its last.
static OURS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// The stack of a call that launches something.
#[derive(Debug, Clone, Copy)]
pub struct LaunchStack {
    /// By which other events refer to it; 0 when launch stacks are off or there was no room.
    pub id: u64,
    /// Whether it is that of the thread's last walk: it took so little time that the clock need not be looked at again.
    pub was_last: bool,
}

/// Records the stack of the calling function's caller, if that was not done before.
#[inline(never)]
pub fn launch_stack() -> LaunchStack {
    launch_stack_with(|_, _| {})
}

/// The same. `look` sees the native frames, innermost first, and whether there are Python frames beside them, before the id is returned.
#[inline(never)]
pub fn launch_stack_with(look: impl FnOnce(&[u64], bool)) -> LaunchStack {
    let mut stack = LaunchStack {
        id: 0,
        was_last: false,
    };
    if !state::settings().launch_stacks {
        return stack;
    }
    let registers = here();
    put_in(|ring| {
        // SAFETY: the ring is the calling thread's, and `put_in` runs once at a time.
        let (words, last, hashes) = unsafe {
            (
                &mut *ring.frames.get(),
                &mut *ring.last_walk.get(),
                &mut *ring.hashes.get(),
            )
        };
        let seen = Seen::new(ring.new_modules.get().cast());
        let mut buffer = FrameBuffer::new(words);
        let walked = rules::cfi_engine().walk_again(&registers, &Guarded, &seen, last, &mut buffer);
        if seen::some_unreported() {
            for word in buffer.words() {
                seen.note(word & FRAME_ADDRESS);
            }
        }
        let flags = match walked.end {
            End::Root => 0,
            End::Truncated => SAMPLE_TRUNCATED,
            End::Broken(_) => SAMPLE_BROKEN,
        };
        let all = buffer.words();
        stack.was_last = walked.shared == all.len();
        let frames = without_ours(all);
        // What is new may be an interpreter.
        seen.report_now(ring.producer());
        let (python, python_flags) = python_frames(ring);
        let hash = hash(
            native_hash(all, all.len() - frames.len(), walked, hashes),
            python,
            u64::from(flags) | u64::from(python_flags) << 4,
        );
        stack.id = hash;
        stack.was_last &= python.is_empty();
        look(frames, !python.is_empty());
        if RECORDED.has(hash) {
            return true;
        }
        stack.was_last = false;
        let record = Stack {
            id: hash,
            flags,
            frames,
            python_flags,
            python,
        };
        if ring.put_or_wait(&|ring| event::put_stack(ring, &record)) {
            RECORDED.put(hash);
        } else {
            stack.id = 0;
        }
        true
    });
    stack
}

/// As [`rings::put_in`], for what reads in vain now and then.
#[inline]
fn put_in(what: impl FnOnce(&EventRing) -> bool) -> bool {
    rings::put_in(|ring| faults::while_open(|| what(ring)).unwrap_or(false))
}

/// The calling thread's Python frames, innermost first, and their flags.
fn python_frames(ring: &EventRing) -> (&[u64], u8) {
    if state::settings().python == PythonChoice::Off {
        return (&[], 0);
    }
    // SAFETY: the ring is the calling thread's, and `put_in` runs once at a time.
    let (words, known) = unsafe {
        (
            &mut *ring.python_frames.get(),
            &mut *ring.python_thread.get(),
        )
    };
    let (count, flags) = python::frames(known, words, |interpreter, key, address| {
        ring.put_or_wait(&|ring| python::record_code(ring, interpreter, key, address));
    });
    (words.get(..count).unwrap_or(&[]), flags)
}

/// Where the functions return to that called into the agent, innermost first. Zeros where the stack ends, or cannot be walked now.
#[inline(never)]
pub fn callers<const COUNT: usize>() -> [u64; COUNT] {
    /// Frames of our own that may lie in front.
    const OURS: usize = 16;
    let registers = here();
    let mut callers = [0; COUNT];
    put_in(|ring| {
        // SAFETY: as in `launch_stack`.
        let words = unsafe { &mut *ring.frames.get() };
        let room = words.get_mut(..OURS + COUNT).unwrap_or_default();
        let seen = Seen::new(ring.new_modules.get().cast());
        let mut buffer = FrameBuffer::new(room);
        rules::cfi_engine().walk(&registers, &Guarded, &seen, &mut buffer);
        for (to, frame) in callers.iter_mut().zip(without_ours(buffer.words())) {
            *to = frame & FRAME_ADDRESS;
        }
        true
    });
    callers
}

/// What a word more makes of a hash.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A hash of the callstack without its `first` innermost frames, made from the outermost frame on: frames that are shared with the thread's last walk are hashed already.
/// `hashes[n]` is the hash of the `n + 1` outermost frames of the last walk that was kept, with the innermost ones too: at the next walk they may have other callees.
fn native_hash(
    frames: &[u64],
    first: usize,
    walked: WalkedAgain,
    hashes: &mut [u64; STACK_DEPTH],
) -> u64 {
    let wanted = frames.len().saturating_sub(first);
    let hash_of = |count: usize| count.checked_sub(1).and_then(|place| hashes.get(place));
    let mut hash = hash_of(walked.shared).copied().unwrap_or(0);
    let mut found = hash_of(wanted)
        .filter(|_| wanted <= walked.shared)
        .copied()
        .unwrap_or(0);
    let new = frames.iter().rev().enumerate().skip(walked.shared);
    for ((place, frame), kept) in new.zip(hashes.iter_mut().skip(walked.shared)) {
        hash = mix(hash, *frame);
        if walked.kept {
            *kept = hash;
        }
        if place < wanted {
            found = hash;
        }
    }
    found
}

/// A number for the stack that another one will hardly have.
fn hash(native: u64, python: &[u64], flags: u64) -> u64 {
    // The same addresses mean something else when libraries come and go, and a fork's child has a trace of its own.
    let mut hash = u64::from(modules::libraries_generation()) << 8 | flags;
    hash ^= events::generation() << 40;
    hash = mix(hash, native);
    for frame in python {
        hash = mix(hash, *frame);
    }
    hash | 1
}

/// The frames outside of the agent.
fn without_ours(frames: &[u64]) -> &[u64] {
    let [start, end] = &OURS;
    if end.load(Ordering::Relaxed) == 0
        && let Some(object) = modules::find((launch_stack as *const ()).addr() as u64)
    {
        start.store(object.start, Ordering::Relaxed);
        end.store(object.end, Ordering::Relaxed);
    }
    let ours = start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed);
    let inside = frames
        .iter()
        .take_while(|frame| ours.contains(&(**frame & FRAME_ADDRESS)))
        .count();
    frames.get(inside..).unwrap_or(&[])
}

/// The registers here, as far as a walk needs them.
#[inline(always)]
fn here() -> Registers {
    use rsys_unwind::register::{R12, R13, R14, R15, RBP, RBX};
    let mut values = [0_u64; 8];
    // SAFETY: stores eight registers into the array, and changes nothing else.
    unsafe {
        std::arch::asm!(
            "mov [{to}], rbx",
            "mov [{to} + 8], rbp",
            "mov [{to} + 16], r12",
            "mov [{to} + 24], r13",
            "mov [{to} + 32], r14",
            "mov [{to} + 40], r15",
            "mov [{to} + 48], rsp",
            "lea {pc}, [rip]",
            "mov [{to} + 56], {pc}",
            to = in(reg) values.as_mut_ptr(),
            pc = out(reg) _,
            options(nostack),
        );
    }
    let [rbx, rbp, r12, r13, r14, r15, rsp, rip] = values;
    let mut registers = Registers::new(rip, rsp, rbp);
    for (register, value) in [
        (RBX, rbx),
        (RBP, rbp),
        (R12, r12),
        (R13, r13),
        (R14, r14),
        (R15, r15),
    ] {
        registers.set(register, value);
    }
    registers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the hash is made of nothing known.
    fn anew(frames: &[u64], first: usize) -> u64 {
        let wanted = frames.get(first..).unwrap_or(&[]);
        wanted.iter().rev().fold(0, |hash, frame| mix(hash, *frame))
    }

    #[test]
    fn a_hash_that_is_continued_is_that_made_anew() {
        let mut hashes = [0; STACK_DEPTH];
        let mut last: Vec<u64> = Vec::new();
        let mut random = 1_u64;
        let mut next = |below: usize| {
            random = mix(random, 0x5bd1);
            (random >> 33) as usize % below
        };
        for _ in 0..20_000 {
            // Some of the outermost frames of the last walk, and others before them.
            let kept_frames = next(last.len() + 1);
            let mut frames: Vec<u64> = (0..next(6)).map(|_| next(4) as u64 + 1).collect();
            frames.extend(&last[last.len() - kept_frames..]);
            if frames.is_empty() || frames.len() > 40 {
                frames = vec![7];
            }
            let equal = frames.iter().rev().zip(last.iter().rev());
            let equal = equal.take_while(|(one, other)| one == other).count();
            let walked = WalkedAgain {
                end: End::Root,
                shared: next(equal + 1),
                kept: next(4) > 0,
            };
            // As many as there are of the agent's own may be anywhere, also among those that are shared.
            let first = next(frames.len() + 1);
            let hash = native_hash(&frames, first, walked, &mut hashes);
            assert_eq!(hash, anew(&frames, first), "{frames:?} {last:?} {walked:?}");
            if walked.kept {
                last = frames;
            }
        }
    }
}
