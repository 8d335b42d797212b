//! The frames of one thread, from the innermost outwards, each as one word.

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

/// Writes the frames of a thread state into `words`, the innermost first. `code` is called for each with the key and the address of
/// its code object.
///
/// # Signal safety
/// Guarded reads; at most one step per word of the buffer and frame without code.
#[inline]
pub fn walk(
    memory: &impl Memory,
    interpreter: &Interpreter,
    thread: u64,
    words: &mut [u64],
    mut code: impl FnMut(u64, u64),
) -> Walked {
    let mut walked = Walked {
        count: 0,
        end: End::Broken,
        outermost: 0,
        interpreter: 0,
    };
    let Some(mut frame) = innermost(memory, interpreter, thread) else {
        return walked;
    };
    let layout = &interpreter.layout;
    walked.interpreter = memory
        .read_u64(thread.wrapping_add(layout.thread.interpreter))
        .and_then(|state| memory.read_u64(state.wrapping_add(layout.thread.interpreter_id)))
        .unwrap_or(0);
    let outside = outside_of_innermost_call(memory, interpreter, thread);
    let mut shims = 0;
    loop {
        if frame == 0 {
            walked.end = End::Complete;
            return walked;
        }
        let Some(previous) = memory.read_u64(frame.wrapping_add(layout.frame.previous)) else {
            return walked;
        };
        let entry = match layout.frame.entry {
            Entry::Every => true,
            Entry::Flag(offset) => match memory.read_u8(frame.wrapping_add(offset)) {
                Some(flag) => flag != 0 || outside == Some(previous),
                None => return walked,
            },
            Entry::Shim(offset) => match memory.read_u8(frame.wrapping_add(offset)) {
                Some(owner) if owner >= OWNED_BY_C => {
                    // The frame inside of it is where the interpreter was entered.
                    if let Some(inside) = walked
                        .count
                        .checked_sub(1)
                        .and_then(|last| words.get_mut(last))
                    {
                        *inside |= ENTRY;
                    }
                    shims = u32::wrapping_add(shims, 1);
                    if shims > SHIMS_MAX {
                        return walked;
                    }
                    frame = previous;
                    continue;
                }
                Some(_) => false,
                None => return walked,
            },
        };
        let Some((key, address, instruction)) = read(memory, interpreter, frame) else {
            return walked;
        };
        let Some(place) = words.get_mut(walked.count) else {
            walked.end = End::Truncated;
            return walked;
        };
        *place = word(key, instruction, entry);
        code(key, address);
        walked.outermost = frame;
        walked.count = walked.count.wrapping_add(1);
        frame = previous;
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
