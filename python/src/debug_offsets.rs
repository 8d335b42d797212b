//! `_Py_DebugOffsets`: the interpreter's own table of offsets, from 3.13 on, at the start of `_PyRuntime`.
//!
//! Source: `Include/internal/pycore_runtime.h` of 3.13.0 and `Include/internal/pycore_debug_offsets.h` of 3.14. The structure holds
//! 64-bit words; each version has its own order of them, so only the versions named here are understood.

use rsys_unwind::Memory;

use crate::layout::{
    Chain, CodeLayout, Entry, FrameLayout, Instruction, Layout, LineTable, Lists, Lock, TextLayout,
    ThreadLayout, ThreadLookup, V3_13_KEY, V3_13_NAMES, minor,
};

/// The first eight bytes.
pub const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// No offset is that large: the largest structure, an interpreter, has some hundred kilobytes.
const OFFSET_MAX: u64 = 1 << 20;

/// The numbers of the words in one version.
#[derive(Debug)]
struct Order {
    first_interpreter: u64,
    interpreter_id: u64,
    next_interpreter: u64,
    first_thread: u64,
    lock: u64,
    /// prev, next, interp, current_frame, thread_id, native_thread_id follow each other; status is two further.
    thread: u64,
    /// previous, executable, instr_ptr, localsplus, owner follow each other.
    frame: u64,
    /// filename, name, qualname, linetable, firstlineno follow each other.
    code: u64,
    instructions: u64,
    type_of: u64,
    /// ob_size, ob_sval.
    bytes: u64,
    /// state, length, asciiobject_size.
    text: u64,
    /// Of the frame and of the code object.
    copies: Option<(u64, u64)>,
}

const V3_13: Order = Order {
    first_interpreter: 5,
    interpreter_id: 7,
    next_interpreter: 8,
    first_thread: 9,
    lock: 14,
    thread: 20,
    frame: 29,
    code: 35,
    instructions: 43,
    type_of: 45,
    bytes: 65,
    text: 68,
    copies: None,
};

const V3_14: Order = Order {
    first_interpreter: 5,
    interpreter_id: 7,
    next_interpreter: 8,
    first_thread: 9,
    lock: 15,
    thread: 23,
    frame: 32,
    code: 40,
    instructions: 48,
    type_of: 51,
    bytes: 75,
    text: 78,
    copies: Some((38, 49)),
};

/// The version that an interpreter says it has, and whether it runs threads without the GIL.
#[must_use]
pub fn identity(memory: &impl Memory, runtime: u64) -> Option<(u32, bool)> {
    if memory.read_u64(runtime)? != COOKIE {
        return None;
    }
    let version = u32::try_from(memory.read_u64(runtime.wrapping_add(8))?).ok()?;
    let free_threaded = memory.read_u64(runtime.wrapping_add(16))? != 0;
    Some((version, free_threaded))
}

/// Reads the table at `runtime`. `None` when it is of no known version or makes no sense.
#[must_use]
pub fn read(memory: &impl Memory, runtime: u64) -> Option<Layout> {
    let (version, free_threaded) = identity(memory, runtime)?;
    let (order, is_3_13) = match minor(version) {
        0x030d => (&V3_13, true),
        0x030e => (&V3_14, false),
        _ => return None,
    };
    let word = |number: u64| {
        memory
            .read_u64(runtime.wrapping_add(number.wrapping_mul(8)))
            .filter(|offset| *offset < OFFSET_MAX)
    };
    let after = |first: u64, number: u64| word(first.wrapping_add(number));
    let lookup = if is_3_13 {
        ThreadLookup::Storage {
            key: V3_13_KEY,
            holder_before: None,
        }
    } else {
        ThreadLookup::Lists
    };
    let lists = Lists {
        first_interpreter: word(order.first_interpreter)?,
        next_interpreter: word(order.next_interpreter)?,
        first_thread: word(order.first_thread)?,
        previous_thread: after(order.thread, 0)?,
        next_thread: after(order.thread, 1)?,
        status: match lookup {
            ThreadLookup::Lists => Some(after(order.thread, 7)?),
            ThreadLookup::Storage { .. } => None,
        },
    };
    let (copy, copies) = match order.copies {
        Some((frame, code)) if free_threaded => (Some(word(frame)?), Some(word(code)?)),
        _ => (None, None),
    };
    let ascii = after(order.text, 2)?;
    let layout = Layout {
        type_of: word(order.type_of)?,
        thread: ThreadLayout {
            interpreter: after(order.thread, 2)?,
            frame: after(order.thread, 3)?,
            id: after(order.thread, 4)?,
            chain: Chain::Direct,
            lookup,
            lists,
            native_id: after(order.thread, 5),
            interpreter_id: word(order.interpreter_id)?,
        },
        frame: FrameLayout {
            previous: after(order.frame, 0)?,
            code: after(order.frame, 1)?,
            tagged: !is_3_13,
            instruction: after(order.frame, 2)?,
            form: Instruction::Address,
            locals: after(order.frame, 3)?,
            entry: Entry::Shim(after(order.frame, 4)?),
            copy,
        },
        code: CodeLayout {
            filename: after(order.code, 0)?,
            name: after(order.code, 2)?,
            line_table: after(order.code, 3)?,
            first_line: after(order.code, 4)?,
            line_table_form: LineTable::Locations,
            instructions: word(order.instructions)?,
            copies,
        },
        text: TextLayout {
            state: after(order.text, 0)?,
            length: after(order.text, 1)?,
            kind_bit: is_3_13.then_some(2),
            ascii,
            // utf8_length and utf8 lie between.
            compact: ascii.wrapping_add(16),
            bytes_length: after(order.bytes, 0)?,
            bytes: after(order.bytes, 1)?,
        },
        lock: Lock::BehindInterpreter(word(order.lock)?),
        // 3.14 tells the kernel.
        names: (is_3_13 && !free_threaded).then_some(V3_13_NAMES),
    };
    // Offsets that differ in every version say whether the order is the one that we know.
    let code = &layout.code;
    let distinct = code.filename != code.name
        && code.name != code.line_table
        && code.instructions > code.line_table
        && layout.frame.locals > layout.frame.instruction
        && layout.type_of >= 8
        && layout.text.ascii > layout.text.state;
    distinct.then_some(layout)
}
