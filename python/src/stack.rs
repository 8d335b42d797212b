//! The frames of one thread, from the innermost outwards, each as one word.

use core::ops::Range;

use rsys_unwind::Memory;

use crate::code::{self, KEY_BITS};
use crate::interpreter::Interpreter;
use crate::layout::{Chain, Entry, Instruction, OWNED_BY_C};

/// Set in a frame's word when the interpreter's C function was entered with it: the frames inside of it, up to the next one with
/// this bit, ran in the same call.
pub const ENTRY: u64 = 1 << 63;
/// Bits of the instruction's number, in units of two bytes.
pub const INSTRUCTION_BITS: u32 = 63 - KEY_BITS;
/// The number of an instruction that is not known.
pub const NO_INSTRUCTION: u64 = (1 << INSTRUCTION_BITS) - 1;

/// The key of the code object in a frame's word.
#[must_use]
pub fn key_of(word: u64) -> u64 {
    (word & !ENTRY) >> INSTRUCTION_BITS
}

/// The number of the instruction in a frame's word, if it is known.
#[must_use]
pub fn instruction_of(word: u64) -> Option<u32> {
    let number = word & NO_INSTRUCTION;
    (number != NO_INSTRUCTION).then_some(number as u32)
}

/// The word of a frame.
#[inline]
#[must_use]
pub fn word(key: u64, instruction: u64, entry: bool) -> u64 {
    let entry = if entry { ENTRY } else { 0 };
    entry | (key << INSTRUCTION_BITS & !ENTRY) | instruction.min(NO_INSTRUCTION)
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the outermost frame.
    Complete,
    /// The buffer was full.
    Truncated,
    /// Something on the way was not what it had to be.
    Broken,
}

/// What a walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// Frames in the buffer.
    pub count: usize,
    /// How it ended.
    pub end: End,
    /// Address of the outermost frame that has code, or 0.
    pub outermost: u64,
    /// Number of the thread's interpreter, 0 for the main one.
    pub interpreter: u64,
}

/// Bytes of a thread state, at most.
const STATE_BYTES: u64 = 8 * 1024;
/// Frames without code that may follow each other.
const SHIMS_MAX: u32 = 10_000;
/// States whose frames are put together.
pub const STATES_MAX: usize = 8;

/// Writes the frames of a thread state into `words`, the innermost first. `code` is called for each with the key and the address of
/// its code object.
///
/// # Signal safety
/// Guarded reads; at most one step per word of the buffer and frame without code.
// Inlined with all that takes `code`: `tests/tests/agent/purity.rs` tells such functions by their names alone, and not all that record codes are handlers.
#[inline(always)]
pub fn walk(
    memory: &impl Memory,
    interpreter: &Interpreter,
    thread: u64,
    words: &mut [u64],
    mut code: impl FnMut(u64, u64),
) -> Walked {
    let mut walked = Walked::nothing();
    let Some(mut frames) = Frames::of(memory, interpreter, thread) else {
        return walked;
    };
    walked.interpreter = interpreter_of(memory, interpreter, thread);
    loop {
        let end = frames.run(memory, interpreter, words, &mut walked, &mut code);
        if let Some(end) = end {
            walked.end = end;
            return walked;
        }
    }
}

/// The same of a thread that has entered several interpreters, in each of which it has a state: what the last one runs stands inside of what the one
/// before runs, and any may have been entered again. `states` are in the order from the innermost where nothing tells it (before 3.11).
///
/// # Signal safety
/// As [`walk`], for each of the states.
#[inline(always)]
pub fn walk_all(
    memory: &impl Memory,
    interpreter: &Interpreter,
    states: &[u64],
    words: &mut [u64],
    mut code: impl FnMut(u64, u64),
) -> Walked {
    let mut walked = Walked::nothing();
    let mut all: [Option<Frames>; STATES_MAX] = [const { None }; STATES_MAX];
    for (place, state) in all.iter_mut().zip(states) {
        *place = Frames::of(memory, interpreter, *state);
    }
    loop {
        let mut next: Option<(u64, &mut Frames)> = None;
        for frames in all.iter_mut().flatten() {
            // What was entered last lies lowest on the stack.
            if let Some(entered) = frames.entered(memory, interpreter)
                && next.as_ref().is_none_or(|(lowest, _)| entered < *lowest)
            {
                next = Some((entered, frames));
            }
        }
        let Some((_, frames)) = next else {
            walked.end = End::Complete;
            return walked;
        };
        if walked.count == 0 {
            walked.interpreter = interpreter_of(memory, interpreter, frames.thread);
        }
        match frames.run(memory, interpreter, words, &mut walked, &mut code) {
            None => {}
            Some(End::Complete) => frames.frame = 0,
            Some(end) => {
                walked.end = end;
                return walked;
            }
        }
    }
}

/// Where the stack of a thread is of which the C library keeps the description at `handle`, and whose stack pointer is `sp`.
#[must_use]
pub fn stack_of(handle: u64, sp: u64) -> Range<u64> {
    // glibc puts it at the end of the stack, but for the first thread's, above which there is no other.
    sp..if handle > sp { handle } else { u64::MAX }
}

/// Whether a thread state was entered on this stack last, as far as that is known; `is_own`: it says that it is of the stack's thread. From 3.11 on the
/// place tells: until 3.12, a script may run with the state of the thread that made its interpreter.
///
/// # Signal safety
/// Guarded reads; bounded.
#[must_use]
pub fn is_entered_on(
    memory: &impl Memory,
    interpreter: &Interpreter,
    thread: u64,
    is_own: bool,
    stack: &Range<u64>,
) -> bool {
    let may_be_borrowed = matches!(interpreter.layout.thread.chain, Chain::CFrame(_));
    (is_own || may_be_borrowed)
        && entered(memory, interpreter, thread).map_or(is_own, |at| stack.contains(&at))
}

/// Whether a thread state has a frame.
///
/// # Signal safety
/// Guarded reads; bounded.
#[must_use]
pub fn is_running(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> bool {
    Frames::of(memory, interpreter, thread)
        .is_some_and(|mut frames| frames.entered(memory, interpreter).is_some())
}

fn interpreter_of(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> u64 {
    let layout = &interpreter.layout.thread;
    memory
        .read_u64(thread.wrapping_add(layout.interpreter))
        .and_then(|state| memory.read_u64(state.wrapping_add(layout.interpreter_id)))
        .unwrap_or(0)
}

impl Walked {
    const fn nothing() -> Self {
        Self {
            count: 0,
            end: End::Broken,
            outermost: 0,
            interpreter: 0,
        }
    }
}

/// The frames of a thread state that were not walked yet.
#[derive(Debug)]
struct Frames {
    thread: u64,
    /// The next one, or 0.
    frame: u64,
    /// The frame outside of the innermost call.
    outside: Option<u64>,
    /// The variable of the call that runs the next one, where the thread state leads to it.
    call: u64,
    shims: u32,
}

impl Frames {
    #[inline]
    fn of(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> Option<Self> {
        Some(Self {
            thread,
            frame: innermost(memory, interpreter, thread)?,
            outside: outside_of_innermost_call(memory, interpreter, thread),
            call: memory.read_u64(thread.wrapping_add(interpreter.layout.thread.frame))?,
            shims: 0,
        })
    }

    /// Writes the frames of one call of the interpreter's function. Says how the walk ended, if it did.
    #[inline(always)]
    fn run(
        &mut self,
        memory: &impl Memory,
        interpreter: &Interpreter,
        words: &mut [u64],
        walked: &mut Walked,
        code: &mut impl FnMut(u64, u64),
    ) -> Option<End> {
        let layout = &interpreter.layout;
        let first = walked.count;
        loop {
            let frame = self.frame;
            if frame == 0 {
                return Some(End::Complete);
            }
            let Some(previous) = memory.read_u64(frame.wrapping_add(layout.frame.previous)) else {
                return Some(End::Broken);
            };
            let entry = match layout.frame.entry {
                Entry::Every => true,
                Entry::Flag(offset) => match memory.read_u8(frame.wrapping_add(offset)) {
                    Some(flag) => flag != 0 || self.outside == Some(previous),
                    None => return Some(End::Broken),
                },
                Entry::Shim(offset) => match memory.read_u8(frame.wrapping_add(offset)) {
                    Some(owner) if owner >= OWNED_BY_C => {
                        self.frame = previous;
                        self.shims = self.shims.wrapping_add(1);
                        if self.shims > SHIMS_MAX {
                            return Some(End::Broken);
                        }
                        if walked.count == first {
                            continue;
                        }
                        // The frame inside of it is where the interpreter was entered.
                        let last = words.get_mut(walked.count.wrapping_sub(1));
                        if let Some(inside) = last {
                            *inside |= ENTRY;
                        }
                        return None;
                    }
                    Some(_) => false,
                    None => return Some(End::Broken),
                },
            };
            let Some((key, address, instruction)) = read(memory, interpreter, frame) else {
                return Some(End::Broken);
            };
            let Some(place) = words.get_mut(walked.count) else {
                return Some(End::Truncated);
            };
            *place = word(key, instruction, entry);
            code(key, address);
            walked.outermost = frame;
            walked.count = walked.count.wrapping_add(1);
            self.frame = previous;
            if entry {
                self.leave_call(memory, interpreter);
                return None;
            }
        }
    }

    /// The call that runs the next frame is the one outside.
    #[inline]
    fn leave_call(&mut self, memory: &impl Memory, interpreter: &Interpreter) {
        if let Chain::CFrame(current) = interpreter.layout.thread.chain {
            // `_PyCFrame`: `current_frame`, then `previous`.
            let previous = self.call.wrapping_add(current).wrapping_add(8);
            self.call = memory.read_u64(previous).unwrap_or(0);
        }
    }

    /// Where on the stack the call is that runs the next frame; 0 before 3.11, where nothing tells it. `None` when there is no further frame.
    fn entered(&mut self, memory: &impl Memory, interpreter: &Interpreter) -> Option<u64> {
        let layout = &interpreter.layout;
        let Entry::Shim(owner) = layout.frame.entry else {
            let is_known = matches!(layout.thread.chain, Chain::CFrame(_));
            return (self.frame != 0).then_some(if is_known { self.call } else { 0 });
        };
        let is_shim = |frame: u64| Some(memory.read_u8(frame.wrapping_add(owner))? >= OWNED_BY_C);
        let outer = |frame: u64| memory.read_u64(frame.wrapping_add(layout.frame.previous));
        let mut frame = self.frame;
        let mut has_code = false;
        for _ in 0..SHIMS_MAX {
            if frame == 0 {
                // Without a shim: outside of all others.
                return has_code.then_some(u64::MAX);
            }
            match (is_shim(frame)?, has_code) {
                (true, true) => return Some(frame),
                (true, false) => self.frame = outer(frame)?,
                (false, _) => has_code = true,
            }
            frame = outer(frame)?;
        }
        None
    }
}

#[inline]
fn innermost(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> Option<u64> {
    let layout = &interpreter.layout.thread;
    let frame = memory.read_u64(thread.wrapping_add(layout.frame))?;
    match layout.chain {
        Chain::Direct => Some(frame),
        Chain::CFrame(current) => memory.read_u64(frame.wrapping_add(current)),
    }
}

/// The frame that was innermost when C entered the interpreter last.
///
/// A frame that C calls is marked as an entry a few instructions after the thread state leads to it: 3.11's function begins with
/// `tstate->cframe = &cframe`, where the call before has left the same frame, sets the mark, and only then fills `cframe` in. Such
/// a frame is known by the one outside of it.
#[inline]
fn outside_of_innermost_call(
    memory: &impl Memory,
    interpreter: &Interpreter,
    thread: u64,
) -> Option<u64> {
    let layout = &interpreter.layout.thread;
    let Chain::CFrame(current) = layout.chain else {
        return None;
    };
    let call = memory.read_u64(thread.wrapping_add(layout.frame))?;
    // `_PyCFrame`: `current_frame`, then `previous`.
    let call_before = memory.read_u64(call.wrapping_add(current).wrapping_add(8))?;
    memory.read_u64(call_before.wrapping_add(current))
}

/// Where on its C stack a thread has entered the interpreter last: the address of a variable of that call. `None` before 3.11, when
/// nothing leads there, and when no Python runs.
#[must_use]
pub fn entered(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> Option<u64> {
    let layout = &interpreter.layout;
    let first = memory.read_u64(thread.wrapping_add(layout.thread.frame))?;
    if matches!(layout.thread.chain, Chain::CFrame(_)) {
        return Some(first);
    }
    let Entry::Shim(owner) = layout.frame.entry else {
        return None;
    };
    let mut frame = first;
    for _ in 0..SHIMS_MAX {
        if memory.read_u8(frame.wrapping_add(owner))? >= OWNED_BY_C {
            // From 3.15 on the outermost frame of a thread is one in its own state, where nothing was entered.
            return Some(frame).filter(|frame| frame.wrapping_sub(thread) > STATE_BYTES);
        }
        frame = memory.read_u64(frame.wrapping_add(layout.frame.previous))?;
    }
    None
}

/// The key and address of a frame's code object and the number of its instruction. `None` when it is no frame.
#[inline]
fn read(memory: &impl Memory, interpreter: &Interpreter, frame: u64) -> Option<(u64, u64, u64)> {
    let layout = &interpreter.layout;
    let code = memory.read_u64(frame.wrapping_add(layout.frame.code))?;
    let code = layout.frame.object(code);
    if memory.read_u64(code.wrapping_add(layout.type_of))? != interpreter.code_type {
        return None;
    }
    let key = code::key(memory, &layout.code, code)?;
    let position = frame.wrapping_add(layout.frame.instruction);
    let instruction = match layout.frame.form {
        // -1, before the first instruction, becomes a number that is too large.
        Instruction::ByteOffset => u64::from(memory.read_u32(position)? >> 1),
        Instruction::UnitOffset => u64::from(memory.read_u32(position)?),
        Instruction::Address => {
            let first = first_instruction(memory, interpreter, frame, code)?;
            memory.read_u64(position)?.wrapping_sub(first) >> 1
        }
    };
    Some((key, code, instruction))
}

/// Address of the first instruction of the code that a frame runs.
#[inline]
fn first_instruction(
    memory: &impl Memory,
    interpreter: &Interpreter,
    frame: u64,
    code: u64,
) -> Option<u64> {
    let layout = &interpreter.layout;
    if let (Some(copy), Some(copies)) = (layout.frame.copy, layout.code.copies) {
        // `_PyCodeArray`: its size, then the addresses.
        let copies = memory.read_u64(code.wrapping_add(copies))?;
        let number = u64::from(memory.read_u32(frame.wrapping_add(copy))?);
        if number >= memory.read_u64(copies)? {
            return None;
        }
        return memory.read_u64(copies.wrapping_add(8).wrapping_add(number.wrapping_mul(8)));
    }
    Some(code.wrapping_add(layout.code.instructions))
}
