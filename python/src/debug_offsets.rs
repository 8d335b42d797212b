//! `_Py_DebugOffsets`: the interpreter's own table of offsets, from 3.13 on, at the start of `_PyRuntime`.
//!
//! Source: `Include/internal/pycore_runtime.h` of 3.13.0, `Include/internal/pycore_debug_offsets.h` of 3.14.10 and of 3.15.2. The structure
//! holds 64-bit words; each version has its own order of them, so only the versions named here are understood. The size of each structure
//! stands in front of its offsets: they prove that the order is the one that we know.

use rsys_unwind::Memory;

use crate::layout::{
    Attributes, Chain, CodeLayout, Entry, FrameLayout, Instruction, Layout, LineTable, Lists, Lock,
    NameLayout, TextLayout, ThreadLayout, ThreadLookup, minor,
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
    /// prev, next, interp, current_frame follow each other.
    thread: u64,
    /// thread_id, native_thread_id.
    thread_id: u64,
    /// Where threads are found by their lists.
    status: Option<u64>,
    /// previous, executable, instr_ptr, localsplus, owner follow each other.
    frame: u64,
    /// filename, name, qualname, linetable, firstlineno follow each other.
    code: u64,
    instructions: u64,
    /// The size of a `PyObject`, ob_type.
    object: u64,
    /// ob_size, ob_sval.
    bytes: u64,
    /// state, length, asciiobject_size.
    text: u64,
    /// Of the frame and of the code object.
    copies: Option<(u64, u64)>,
    /// tp_flags, tp_dictoffset, ht_cached_keys.
    names: Option<[u64; 3]>,
}

const V3_13: Order = Order {
    first_interpreter: 5,
    interpreter_id: 7,
    next_interpreter: 8,
    first_thread: 9,
    lock: 14,
    thread: 20,
    thread_id: 24,
    status: None,
    frame: 29,
    code: 35,
    instructions: 43,
    object: 44,
    bytes: 65,
    text: 68,
    copies: None,
    names: None,
};

const V3_14: Order = Order {
    first_interpreter: 5,
    interpreter_id: 7,
    next_interpreter: 8,
    first_thread: 9,
    lock: 15,
    thread: 23,
    thread_id: 27,
    status: Some(30),
    frame: 32,
    code: 40,
    instructions: 48,
    object: 50,
    bytes: 75,
    text: 78,
    copies: Some((38, 49)),
    names: None,
};

const V3_15: Order = Order {
    first_interpreter: 5,
    interpreter_id: 7,
    next_interpreter: 8,
    first_thread: 9,
    lock: 15,
    thread: 23,
    thread_id: 30,
    status: Some(33),
    frame: 40,
    code: 48,
    instructions: 56,
    object: 58,
    bytes: 87,
    text: 90,
    copies: Some((46, 57)),
    names: Some([63, 65, 67]),
};

/// Offset of `autoTSSkey` in the runtime of 3.13.0.
const V3_13_KEY: u64 = 2160;
/// `sizeof(PyObject)` with the GIL.
const HEAD: u64 = 16;

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
    let order = match minor(version) {
        0x030d => &V3_13,
        0x030e => &V3_14,
        0x030f => &V3_15,
        _ => return None,
    };
    // 3.14 keeps thread states in thread-local storage, and flags in the low bits of references.
    let is_3_13 = minor(version) == 0x030d;
    let word = |number: u64| {
        memory
            .read_u64(runtime.wrapping_add(number.wrapping_mul(8)))
            .filter(|offset| *offset < OFFSET_MAX)
    };
    let after = |first: u64, number: u64| word(first.wrapping_add(number));
    // The offset of this number, which must lie in the structure whose size stands in front of the first.
    let within = |first: u64, number: u64| {
        after(first, number).filter(|offset| Some(*offset) < word(first.wrapping_sub(1)))
    };
    let thread_word = |number: u64| within(order.thread, number.wrapping_sub(order.thread));
    let lookup = match order.status {
        Some(_) => ThreadLookup::Lists,
        None => ThreadLookup::Storage {
            key: V3_13_KEY,
            holder_before: None,
        },
    };
    let status = match order.status {
        Some(status) => Some(thread_word(status)?),
        None => None,
    };
    let (copy, copies) = match order.copies {
        Some((frame, code)) if free_threaded => (Some(word(frame)?), Some(word(code)?)),
        _ => (None, None),
    };
    let head = word(order.object)?;
    let ascii = after(order.text, 2)?;
    let layout = Layout {
        type_of: within(order.object.wrapping_add(1), 0)?,
        thread: ThreadLayout {
            interpreter: thread_word(order.thread.wrapping_add(2))?,
            frame: thread_word(order.thread.wrapping_add(3))?,
            id: thread_word(order.thread_id)?,
            chain: Chain::Direct,
            lookup,
            lists: Lists {
                first_interpreter: within(order.first_interpreter.wrapping_sub(1), 1)?,
                next_interpreter: word(order.next_interpreter)?,
                first_thread: word(order.first_thread)?,
                previous_thread: thread_word(order.thread)?,
                next_thread: thread_word(order.thread.wrapping_add(1))?,
                status,
            },
            native_id: Some(thread_word(order.thread_id.wrapping_add(1))?),
            interpreter_id: within(order.interpreter_id, 0)?,
        },
        frame: FrameLayout {
            previous: within(order.frame, 0)?,
            code: within(order.frame, 1)?,
            tagged: !is_3_13,
            instruction: within(order.frame, 2)?,
            form: Instruction::Address,
            locals: after(order.frame, 3)?,
            entry: Entry::Shim(within(order.frame, 4)?),
            copy,
        },
        code: CodeLayout {
            filename: within(order.code, 0)?,
            name: within(order.code, 2)?,
            line_table: within(order.code, 3)?,
            first_line: within(order.code, 4)?,
            line_table_form: LineTable::Locations,
            instructions: word(order.instructions)?,
            copies,
        },
        text: TextLayout {
            state: within(order.text, 0)?,
            length: within(order.text, 1)?,
            kind_bit: is_3_13.then_some(2),
            ascii,
            // utf8_length and utf8 lie between.
            compact: ascii.wrapping_add(16),
            bytes_length: within(order.bytes, 0)?,
            bytes: within(order.bytes, 1)?,
        },
        lock: Lock::BehindInterpreter(word(order.lock)?),
        names: Some(match order.names {
            Some([flags, dictionary, keys]) => {
                names(word(flags)?, word(dictionary)?, word(keys)?, head)
            }
            None => known_names(head),
        }),
        free_threaded,
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

/// The way to names in 3.13 (3.13.0, 3.13.5) and 3.14 (3.14.10), which do not tell all of it.
fn known_names(head: u64) -> NameLayout {
    let more = head.saturating_sub(HEAD);
    let at = |offset: u64| offset.wrapping_add(more);
    names(at(168), at(288), at(880), head)
}

fn names(type_flags: u64, dictionary_offset: u64, cached_keys: u64, head: u64) -> NameLayout {
    NameLayout {
        attributes: Attributes::Inline {
            head,
            // Without the GIL, the words of the garbage collector are part of the head.
            dictionary_before: if head > HEAD { 8 } else { 24 },
        },
        type_flags,
        dictionary_offset,
        cached_keys,
    }
}
