//! Where CPython keeps what a stack is made of: one table for each version whose interpreter has no table of its own.
//!
//! Source: `offsetof` on the headers of the releases named at each table (`Include/internal`, `Py_BUILD_CORE`, x86-64 and any other
//! 64-bit machine). The tests run every interpreter that is installed against its table.

use crate::debug_offsets;
use rsys_unwind::Memory;

/// How the innermost frame hangs on the thread state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// The thread state points to it.
    Direct,
    /// The thread state points to a `_PyCFrame`, which points to it from this offset.
    CFrame(u64),
}

/// How it is known that the interpreter's C function was entered with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It is with every frame (3.8 to 3.10).
    Every,
    /// A byte in the frame says so (3.11).
    Flag(u64),
    /// A frame without code stands outside of it; the byte at this offset, its owner, is [`OWNED_BY_C`] or more.
    Shim(u64),
}

/// `FRAME_OWNED_BY_CSTACK`, called `FRAME_OWNED_BY_INTERPRETER` from 3.14 on: such frames have no code of the user's.
pub const OWNED_BY_C: u8 = 3;

/// What a frame says about the instruction that it is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// An `int`: its offset in bytes (3.8, 3.9).
    ByteOffset,
    /// An `int`: its number in units of two bytes (3.10).
    UnitOffset,
    /// Its address.
    Address,
}

/// The form of a code object's table of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LineTable {
    /// `co_lnotab` (3.8, 3.9).
    Lnotab = 1,
    /// `co_linetable` of PEP 626 (3.10).
    Ranges = 2,
    /// `co_linetable` of PEP 657 (3.11 and later).
    Locations = 3,
}

/// Where the threads of an interpreter are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lists {
    /// In the runtime: the first interpreter.
    pub first_interpreter: u64,
    /// In an interpreter: the next one.
    pub next_interpreter: u64,
    /// In an interpreter: its first thread state.
    pub first_thread: u64,
    /// In a thread state: the one before.
    pub previous_thread: u64,
    /// In a thread state: the next one.
    pub next_thread: u64,
    /// In a thread state: the bits of `_status`, where they tell which state of a thread is in use (3.14).
    pub status: Option<u64>,
}

/// Where the interpreter's lock is (`struct _gil_runtime_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// In the runtime, at this offset: one for all interpreters.
    InRuntime(u64),
    /// In an interpreter, at this offset, is its address.
    BehindInterpreter(u64),
}

/// How the state of the calling thread is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadLookup {
    /// In thread-specific storage. The `Py_tss_t` of its key is expected at `key` in the runtime; in the versions before 3.12, which
    /// do not change it when a thread enters another interpreter, the state that holds the GIL stands `holder_before` bytes before.
    Storage {
        /// Offset of `autoTSSkey` in the runtime. Looked for when it is elsewhere.
        key: u64,
        /// Distance from it back to `tstate_current`.
        holder_before: Option<u64>,
    },
    /// In the lists (3.14 keeps it in thread-local storage that has no fixed place).
    Lists,
}

/// The thread state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadLayout {
    /// The interpreter that it belongs to.
    pub interpreter: u64,
    /// `pthread_self()` of its thread.
    pub id: u64,
    /// The innermost frame, or what leads to it.
    pub frame: u64,
    /// Which of the two.
    pub chain: Chain,
    /// How the own one is found.
    pub lookup: ThreadLookup,
    /// Where all of them are found.
    pub lists: Lists,
    /// The kernel's id of its thread, from 3.11 on.
    pub native_id: Option<u64>,
    /// In the interpreter state: its number, 0 for the main one.
    pub interpreter_id: u64,
}

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLayout {
    /// Its code object.
    pub code: u64,
    /// Whether the low bits of references, of that one too, are flags (3.14).
    pub tagged: bool,
    /// The frame outside of it.
    pub previous: u64,
    /// Where it is in the code.
    pub instruction: u64,
    /// In which form.
    pub form: Instruction,
    /// How entries are marked.
    pub entry: Entry,
    /// The first local variable.
    pub locals: u64,
    /// Which copy of the code it runs, where each thread may have its own (free-threaded 3.14).
    pub copy: Option<u64>,
}

impl FrameLayout {
    /// The address of the object that a reference in a frame means.
    #[inline]
    #[must_use]
    pub fn object(&self, reference: u64) -> u64 {
        if self.tagged {
            reference & !3
        } else {
            reference
        }
    }
}

/// A code object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLayout {
    /// `co_qualname`, or `co_name` before 3.11.
    pub name: u64,
    /// `co_filename`.
    pub filename: u64,
    /// `co_firstlineno`.
    pub first_line: u64,
    /// The table of lines.
    pub line_table: u64,
    /// Its form.
    pub line_table_form: LineTable,
    /// The first instruction; 0 where frames hold offsets.
    pub instructions: u64,
    /// The array of the threads' copies (free-threaded 3.14).
    pub copies: Option<u64>,
}

/// `str` and `bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLayout {
    /// `str`: number of characters.
    pub length: u64,
    /// `str`: the word of flags.
    pub state: u64,
    /// Bit of the flags where the character size starts; compact and ASCII follow its three bits. `None` in 3.14, whose releases
    /// and builds differ: a number below 4 in front of it takes two bits, a byte or two bytes.
    pub kind_bit: Option<u32>,
    /// Characters of a compact ASCII `str`.
    pub ascii: u64,
    /// Characters of any other compact `str`.
    pub compact: u64,
    /// `bytes`: number of bytes.
    pub bytes_length: u64,
    /// `bytes`: the first.
    pub bytes: u64,
}

/// Where the attributes of an instance are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attributes {
    /// In a dictionary, found through the type (3.8 to 3.10).
    Dictionary,
    /// In values 32 bytes before the object, else in the dictionary 24 bytes before it (3.11).
    ValuesBefore,
    /// In one of both, tagged, 24 bytes before the object (3.12).
    TaggedBefore,
    /// In values behind the object's head, or in a dictionary before it (3.13 and later).
    Inline {
        /// Bytes of the head of any object.
        head: u64,
        /// How far before it the dictionary's address is.
        dictionary_before: u64,
    },
}

/// What leads from an object to an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLayout {
    /// Where they are.
    pub attributes: Attributes,
    /// In a type: `tp_flags`.
    pub type_flags: u64,
    /// In a type: `tp_dictoffset`.
    pub dictionary_offset: u64,
    /// In a heap type: `ht_cached_keys`.
    pub cached_keys: u64,
}

/// All of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// In any object: its type.
    pub type_of: u64,
    /// The thread state.
    pub thread: ThreadLayout,
    /// A frame.
    pub frame: FrameLayout,
    /// A code object.
    pub code: CodeLayout,
    /// Strings.
    pub text: TextLayout,
    /// The interpreter's lock.
    pub lock: Lock,
    /// The way to the name that `threading` gave to a thread, of which the kernel knows nothing before 3.14, and 15 bytes then.
    pub names: Option<NameLayout>,
    /// Whether it was built without the GIL.
    pub free_threaded: bool,
}

/// The part of a version number that tables depend on: major and minor.
#[must_use]
pub fn minor(version: u32) -> u32 {
    version >> 16
}

/// CPython 3.8 (3.8.18).
const V3_8: Layout = Layout {
    type_of: 8,
    thread: ThreadLayout {
        interpreter: 16,
        id: 176,
        frame: 24,
        chain: Chain::Direct,
        lookup: ThreadLookup::Storage {
            key: 1392,
            holder_before: Some(24),
        },
        lists: Lists {
            first_interpreter: 32,
            next_interpreter: 0,
            first_thread: 8,
            previous_thread: 0,
            next_thread: 8,
            status: None,
        },
        native_id: None,
        interpreter_id: 16,
    },
    frame: FrameLayout {
        code: 32,
        tagged: false,
        previous: 24,
        instruction: 104,
        form: Instruction::ByteOffset,
        entry: Entry::Every,
        locals: 360,
        copy: None,
    },
    code: CodeLayout {
        name: 112,
        filename: 104,
        first_line: 40,
        line_table: 120,
        line_table_form: LineTable::Lnotab,
        instructions: 0,
        copies: None,
    },
    text: TextLayout {
        length: 16,
        state: 32,
        kind_bit: Some(2),
        ascii: 48,
        compact: 72,
        bytes_length: 16,
        bytes: 32,
    },
    lock: Lock::InRuntime(1152),
    names: Some(NameLayout {
        attributes: Attributes::Dictionary,
        type_flags: 168,
        dictionary_offset: 288,
        cached_keys: 872,
    }),
    free_threaded: false,
};

/// CPython 3.9 (3.9.18).
const V3_9: Layout = Layout {
    thread: ThreadLayout {
        lookup: ThreadLookup::Storage {
            key: 584,
            holder_before: Some(16),
        },
        interpreter_id: 24,
        ..V3_8.thread
    },
    lock: Lock::InRuntime(352),
    ..V3_8
};

/// CPython 3.10 (3.10.13).
const V3_10: Layout = Layout {
    frame: FrameLayout {
        instruction: 96,
        form: Instruction::UnitOffset,
        locals: 352,
        ..V3_8.frame
    },
    code: CodeLayout {
        line_table_form: LineTable::Ranges,
        ..V3_8.code
    },
    ..V3_9
};

/// CPython 3.11 (3.11.2, 3.11.7).
const V3_11: Layout = Layout {
    thread: ThreadLayout {
        interpreter: 16,
        id: 152,
        frame: 56,
        chain: Chain::CFrame(8),
        lookup: ThreadLookup::Storage {
            key: 592,
            holder_before: Some(16),
        },
        lists: Lists {
            first_interpreter: 40,
            first_thread: 16,
            ..V3_10.thread.lists
        },
        native_id: Some(160),
        interpreter_id: 48,
    },
    frame: FrameLayout {
        code: 32,
        tagged: false,
        previous: 48,
        instruction: 56,
        form: Instruction::Address,
        entry: Entry::Flag(68),
        locals: 72,
        copy: None,
    },
    code: CodeLayout {
        name: 128,
        filename: 112,
        first_line: 72,
        line_table: 136,
        line_table_form: LineTable::Locations,
        instructions: 184,
        copies: None,
    },
    lock: Lock::InRuntime(360),
    names: Some(NameLayout {
        attributes: Attributes::ValuesBefore,
        type_flags: 168,
        dictionary_offset: 288,
        cached_keys: 872,
    }),
    ..V3_10
};

/// CPython 3.12 (3.12.1).
const V3_12: Layout = Layout {
    thread: ThreadLayout {
        interpreter: 16,
        id: 136,
        frame: 56,
        chain: Chain::CFrame(0),
        lookup: ThreadLookup::Storage {
            key: 1544,
            holder_before: None,
        },
        lists: Lists {
            first_thread: 72,
            ..V3_11.thread.lists
        },
        native_id: Some(144),
        interpreter_id: 8,
    },
    frame: FrameLayout {
        code: 0,
        tagged: false,
        previous: 8,
        instruction: 56,
        form: Instruction::Address,
        entry: Entry::Shim(70),
        locals: 72,
        copy: None,
    },
    code: CodeLayout {
        name: 128,
        filename: 112,
        first_line: 68,
        line_table: 136,
        line_table_form: LineTable::Locations,
        instructions: 192,
        copies: None,
    },
    text: TextLayout {
        length: 16,
        state: 32,
        kind_bit: Some(2),
        ascii: 40,
        compact: 56,
        bytes_length: 16,
        bytes: 32,
    },
    lock: Lock::BehindInterpreter(384),
    names: Some(NameLayout {
        attributes: Attributes::TaggedBefore,
        type_flags: 168,
        dictionary_offset: 288,
        cached_keys: 880,
    }),
    ..V3_11
};

/// The layout of a version (as in `PY_VERSION_HEX`) whose `_PyRuntime` is at `runtime`; `None` when it is not known.
#[must_use]
pub fn of_version(version: u32, memory: &impl Memory, runtime: u64) -> Option<Layout> {
    match minor(version) {
        0x0308 => Some(V3_8),
        0x0309 => Some(V3_9),
        0x030a => Some(V3_10),
        0x030b => Some(V3_11),
        0x030c => Some(V3_12),
        0x030d.. => debug_offsets::read(memory, runtime),
        _ => None,
    }
}
