//! Interpreters built by hand, word by word: what holds for versions that cannot be had everywhere, and for memory that is none.

#[path = "hand_built/from_outside.rs"]
mod from_outside;
#[path = "hand_built/own.rs"]
mod own;

use std::collections::HashMap;

use proptest::prelude::*;
use rsys_python::code::Code;
use rsys_python::layout::{self, LineTable, ThreadLookup};
use rsys_python::stack::{self, End};
use rsys_python::text::Text;
use rsys_python::thread::{self, Key};
use rsys_python::{Interpreter, outside, thread_name};
use rsys_unwind::Memory;

/// Memory of some words; the rest is not there.
#[derive(Debug, Default, Clone)]
struct Words(HashMap<u64, u64>);

impl Memory for Words {
    fn read_u64(&self, address: u64) -> Option<u64> {
        let shift = (address & 7) * 8;
        let low = *self.0.get(&(address & !7))?;
        if shift == 0 {
            return Some(low);
        }
        let high = *self.0.get(&(address & !7).checked_add(8)?)?;
        Some(low >> shift | high << (64 - shift))
    }
}

impl Words {
    fn put(&mut self, address: u64, value: u64) {
        assert_eq!(address % 8, 0);
        self.0.insert(address, value);
    }

    fn put_bytes(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            let word = self.0.entry(at & !7).or_default();
            let shift = (at & 7) * 8;
            *word = *word & !(0xff << shift) | u64::from(*byte) << shift;
        }
    }

    /// A range of zeros, for fields that are read together with others.
    fn zeros(&mut self, from: u64, to: u64) {
        for address in (from..to).step_by(8) {
            self.0.entry(address).or_insert(0);
        }
    }
}

const RUNTIME: u64 = 0x10_0000;
const INTERPRETER: u64 = 0x20_0000;
const CODE_TYPE: u64 = 0x30_0000;
const THREAD: u64 = 0x40_0000;
const OWN_ID: u64 = 0x7f00_0000_1000;

/// Where a version has what in its table of offsets. The number before the first of a structure is that of its size.
struct Numbers {
    version: u64,
    thread_id: u64,
    status: u64,
    frame: u64,
    copy: u64,
    code: u64,
    object: u64,
    /// tp_flags, tp_dictoffset, ht_cached_keys.
    names: Option<[u64; 3]>,
    bytes: u64,
    text: u64,
}

const V3_14: Numbers = Numbers {
    version: 0x030e_0af0,
    thread_id: 27,
    status: 30,
    frame: 32,
    copy: 38,
    code: 40,
    object: 51,
    names: None,
    bytes: 75,
    text: 78,
};
const V3_15: Numbers = Numbers {
    version: 0x030f_02f0,
    thread_id: 30,
    status: 33,
    frame: 40,
    copy: 46,
    code: 48,
    object: 59,
    names: Some([63, 65, 67]),
    bytes: 87,
    text: 90,
};

fn head(free_threaded: bool) -> u64 {
    if free_threaded { 32 } else { 16 }
}

fn python_3_14(free_threaded: bool) -> Words {
    python(&V3_14, free_threaded)
}

/// An interpreter with one thread that runs `outer`, which C called; it called C, which called `inner` and that `leaf`.
///
/// The numbers of the words and the places are those of the releases' headers.
fn python(numbers: &Numbers, free_threaded: bool) -> Words {
    let mut words = Words::default();
    let head = head(free_threaded);
    let type_of = if free_threaded { 24 } else { 8 };
    words.zeros(RUNTIME, RUNTIME + 0x400);
    words.put_bytes(RUNTIME, b"xdebugpy");
    words.put(RUNTIME + 8, numbers.version);
    words.put(RUNTIME + 16, u64::from(free_threaded));
    let Numbers {
        frame,
        code,
        object,
        bytes,
        text,
        ..
    } = *numbers;
    let copied = |offset: u64| if free_threaded { offset } else { 0 };
    let mut offsets = vec![
        // _PyRuntime: size, interpreters.head; interpreter: size, id, next, threads.head
        (3, 0x4d4c8),
        (5, 0x300),
        (6, 0x37000),
        (7, 0x10),
        (8, 0x18),
        (9, 0x20),
        // thread: size, prev, next, interp, current_frame, thread_id, native_thread_id, status
        (22, 0x150),
        (23, 0),
        (24, 8),
        (25, 16),
        (26, 72),
        (numbers.thread_id, 152),
        (numbers.thread_id + 1, 160),
        (numbers.status, 32),
        // frame: size, previous, executable, instr_ptr, localsplus, owner, tlbc_index
        (frame - 1, 88),
        (frame, 8),
        (frame + 1, 0),
        (frame + 2, 56),
        (frame + 3, 80),
        (frame + 4, 74),
        (numbers.copy, copied(76)),
        // code: size, filename, name, qualname, linetable, firstlineno, co_code_adaptive, co_tlbc
        (code - 1, head + 200),
        (code, head + 96),
        (code + 1, head + 104),
        (code + 2, head + 112),
        (code + 3, head + 120),
        (code + 4, head + 56),
        (code + 8, head + 192),
        (code + 9, copied(head + 176)),
        // object: size, ob_type; bytes: size, ob_size, ob_sval; unicode: size, state, length, asciiobject_size
        (object - 1, head),
        (object, type_of),
        (bytes - 1, head + 24),
        (bytes, head),
        (bytes + 1, head + 16),
        (text - 1, head + 48),
        (text, head + 16),
        (text + 1, head),
        (text + 2, head + 24),
    ];
    if let Some([flags, dictionary, keys]) = numbers.names {
        offsets.extend([
            (flags, head + 152),
            (dictionary, head + 272),
            (keys, head + 872),
        ]);
    }
    for (number, offset) in offsets {
        words.put(RUNTIME + number * 8, offset);
    }
    words.put(RUNTIME + 0x300, INTERPRETER);
    words.zeros(INTERPRETER, INTERPRETER + 0x40);
    words.put(INTERPRETER + 0x20, THREAD + 0x1000);
    // Another thread comes first in the list.
    words.zeros(THREAD, THREAD + 0x150);
    words.zeros(THREAD + 0x1000, THREAD + 0x1150);
    words.put(THREAD + 0x1000 + 8, THREAD);
    words.put(THREAD + 0x1000 + 152, OWN_ID + 1);
    words.put(THREAD, THREAD + 0x1000);
    words.put(THREAD + 16, INTERPRETER);
    words.put(THREAD + 152, OWN_ID);
    words.put(THREAD + 32, 1 << 4);

    // Three code objects.
    for (number, name) in (0_u64..).zip(["outer", "inner", "leaf"]) {
        let code = 0x50_0000 + number * 0x1000;
        words.zeros(code, code + 0x200);
        words.put(code + type_of, CODE_TYPE);
        words.put_bytes(code + head + 56, &(10 + number as u32).to_le_bytes());
        let strings = code + 0x400;
        words.put(code + head + 96, strings);
        words.put(code + head + 112, strings + 0x100);
        words.put(code + head + 120, strings + 0x200);
        put_str(&mut words, head, strings, b"file.py");
        put_str(&mut words, head, strings + 0x100, name.as_bytes());
        words.zeros(strings + 0x200, strings + 0x280);
        words.put(strings + 0x200 + head, 2);
        words.put_bytes(strings + 0x200 + head + 16, &[0x80 | 11 << 3, 0]);
        if free_threaded {
            let copies = code + 0x800;
            words.put(code + head + 176, copies);
            words.put(copies, 3);
            for copy in 0..3 {
                words.put(copies + 8 + copy * 8, 0x90_0000 + code + copy * 0x100);
            }
        }
    }
    words
}

/// An ASCII text.
fn put_str(words: &mut Words, head: u64, at: u64, text: &[u8]) {
    words.zeros(at, at + 0x80);
    words.put(at + head, text.len() as u64);
    words.put(at + head + 16, 1 << 16 | 1 << 19 | 1 << 20 | 3);
    words.put_bytes(at + head + 24, text);
}

/// Frames from the innermost: (code number or none, instruction, tag, copy).
fn put_frames(words: &mut Words, free_threaded: bool, frames: &[(Option<u64>, u64, u64, u64)]) {
    let head = if free_threaded { 32 } else { 16 };
    let place = |number: usize| 0x60_0000 + number as u64 * 0x100;
    words.put(THREAD + 72, if frames.is_empty() { 0 } else { place(0) });
    for (number, (code, instruction, tag, copy)) in frames.iter().enumerate() {
        let frame = place(number);
        words.zeros(frame, frame + 0x80);
        let previous = if number + 1 < frames.len() {
            place(number + 1)
        } else {
            0
        };
        words.put(frame + 8, previous);
        match code {
            Some(code) => {
                let code = 0x50_0000 + code * 0x1000;
                words.put(frame, code | tag);
                let first = if free_threaded {
                    0x90_0000 + code + copy * 0x100
                } else {
                    code + head + 192
                };
                words.put(frame + 56, first + instruction * 2);
            }
            // FRAME_OWNED_BY_INTERPRETER
            None => words.put_bytes(frame + 74, &[3]),
        }
        words.put_bytes(frame + 76, &(*copy as u32).to_le_bytes());
    }
}

fn interpreter(words: &Words) -> Interpreter {
    let version = words.read_u32(RUNTIME + 8).expect("a version");
    Interpreter {
        version,
        runtime: RUNTIME,
        code_type: CODE_TYPE,
        layout: layout::of_version(version, words, RUNTIME).expect("it is known"),
    }
}

fn own_thread(words: &Words, interpreter: &Interpreter) -> Option<u64> {
    thread::find(words, interpreter, &Key::new(), OWN_ID, |_| 0, &mut 0)
}

/// Name, instruction and entry of each frame.
fn walk(words: &Words, depth: usize) -> (Vec<(String, Option<u32>, bool)>, End) {
    let interpreter = interpreter(words);
    let thread = own_thread(words, &interpreter).expect("the thread is in the list");
    let mut buffer = vec![0; depth];
    let mut names = HashMap::new();
    let walked = stack::walk(words, &interpreter, thread, &mut buffer, |key, address| {
        let code = Code::at(words, &interpreter, address);
        names.insert(key, text(words, code.name));
        assert_eq!(text(words, code.filename), "file.py");
        assert_eq!(code.line_table_form, LineTable::Locations);
        assert_eq!((code.line_table.bytes, code.first_line / 10), (2, 1));
    });
    let frames = buffer[..walked.count]
        .iter()
        .map(|word| {
            (
                names[&stack::key_of(*word)].clone(),
                stack::instruction_of(*word),
                word & stack::ENTRY != 0,
            )
        })
        .collect();
    (frames, walked.end)
}

fn text(words: &Words, text: Text) -> String {
    let bytes: Vec<u8> = (0..text.bytes.div_ceil(8))
        .flat_map(|number| text.word(words, number * 8).to_le_bytes())
        .take(text.bytes as usize)
        .collect();
    String::from_utf8(bytes).expect("ASCII")
}

#[test]
fn versions_that_tell_their_offsets_are_read_with_and_without_the_gil() {
    for (numbers, free_threaded) in [&V3_14, &V3_15]
        .into_iter()
        .flat_map(|numbers| [false, true].map(|free| (numbers, free)))
    {
        let mut words = python(numbers, free_threaded);
        assert_eq!(interpreter(&words).layout.free_threaded, free_threaded);
        put_frames(
            &mut words,
            free_threaded,
            &[
                (Some(2), 7, 1, 2),
                (Some(1), 5, 0, 1),
                (None, 0, 0, 0),
                (Some(0), 3, 3, 0),
                (None, 0, 0, 0),
            ],
        );
        let expected = [
            ("leaf".to_owned(), Some(7), false),
            ("inner".to_owned(), Some(5), true),
            ("outer".to_owned(), Some(3), true),
        ];
        assert_eq!(walk(&words, 10), (expected.to_vec(), End::Complete));
        let (cut, end) = walk(&words, 2);
        assert_eq!((cut.as_slice(), end), (&expected[..2], End::Truncated));
    }
}

/// `Thread._bootstrap(self)`, whose `self` has its attributes in itself or in a dictionary.
#[test]
fn the_name_of_a_thread_is_found_with_and_without_the_gil() {
    const OBJECT: u64 = 0xa0_0000;
    const KIND: u64 = 0xa1_0000;
    const KEYS: u64 = 0xa2_0000;
    const DICTIONARY: u64 = 0xa3_0000;
    const NAMES: [u64; 2] = [0xa4_0000, 0xa5_0000];
    const INLINE_VALUES: u64 = 1 << 2;
    const MANAGED: u64 = 1 << 4;
    for (numbers, free_threaded) in [&V3_14, &V3_15]
        .into_iter()
        .flat_map(|numbers| [false, true].map(|free| (numbers, free)))
    {
        let head = head(free_threaded);
        let mut words = python(numbers, free_threaded);
        put_frames(
            &mut words,
            free_threaded,
            &[(Some(0), 0, 1, 0), (None, 0, 0, 0)],
        );
        put_str(&mut words, head, 0x50_0500, b"Thread._bootstrap");
        // The first variable of the outermost frame, with a flag.
        words.put(0x60_0000 + 80, OBJECT | 1);
        words.zeros(OBJECT - 0x20, OBJECT + 0x80);
        words.put(OBJECT + if free_threaded { 24 } else { 8 }, KIND);
        words.zeros(KIND, KIND + 0x400);
        words.put(KIND + head + 152, INLINE_VALUES | MANAGED);
        // `ht_cached_keys` is a word further behind in 3.15.
        let keys_at = head + if numbers.names.is_some() { 872 } else { 864 };
        words.put(KIND + keys_at, KEYS);
        // Keys alone (1), two of them, behind eight bytes of indices.
        words.zeros(KEYS, KEYS + 0x80);
        words.put_bytes(KEYS + 9, &[3, 1]);
        words.put(KEYS + 24, 2);
        for (number, text) in (0_u64..).zip([&b"_other"[..], b"_name"]) {
            let key = 0xa6_0000 + number * 0x1000;
            put_str(&mut words, head, key, text);
            words.put(KEYS + 40 + number * 16, key);
        }
        for (at, text) in NAMES.into_iter().zip([&b"inline"[..], b"in a dictionary"]) {
            put_str(&mut words, head, at, text);
        }
        words.put(OBJECT + head + 8 + 8, NAMES[0]);
        let known = interpreter(&words);
        let name = |words: &Words| {
            let found = thread_name::find(words, &known, 0x60_0000);
            found.map(|name| text(words, name))
        };
        assert_eq!(name(&words).as_deref(), Some("inline"));
        // The address of the dictionary stands before the object: directly, or behind the words of the garbage collector.
        let before = if free_threaded { 8 } else { 24 };
        words.put(OBJECT - before, DICTIONARY);
        words.zeros(DICTIONARY, DICTIONARY + 0x80);
        words.put(DICTIONARY + head + 16, KEYS);
        words.put(KEYS + 40 + 16 + 8, NAMES[1]);
        assert_eq!(name(&words).as_deref(), Some("in a dictionary"));
    }
}

/// 3.14.10 has the flags of a `str` where 3.13 has them; a free-threaded one keeps a byte in front, earlier ones two.
#[test]
fn a_str_of_any_3_14_is_read() {
    let mut words = python_3_14(false);
    let known = interpreter(&words);
    const OBJECT: u64 = 0x91_0000;
    for (kind_bit, interned, ascii, left) in [2, 8, 16]
        .into_iter()
        .flat_map(|bit| [0, 0xffff_ffff].map(|left| (bit, left)))
        .flat_map(|(bit, left)| {
            [(1, true), (3, true), (0, false)].map(|(interned, ascii)| (bit, interned, ascii, left))
        })
    {
        words.zeros(OBJECT, OBJECT + 0x80);
        words.put(OBJECT + 16, 5);
        let flags = 1 | 1 << 3 | u64::from(ascii) << 4;
        // Nobody clears what is behind the flags.
        let behind = left << (kind_bit + 6) & 0xffff_ffff;
        words.put(OBJECT + 32, interned | flags << kind_bit | behind);
        let characters = if ascii { 40 } else { 56 };
        words.put_bytes(OBJECT + characters, b"hello");
        let found = Text::of_str(&words, &known.layout.text, OBJECT).expect("a text");
        assert_eq!(
            text(&words, found),
            "hello",
            "{kind_bit} {interned} {behind:#x}"
        );
    }
}

#[test]
fn other_versions_are_not_understood() {
    let mut words = python_3_14(false);
    // Also not a 3.15 with the table of another version: one of its first alphas.
    for version in [0x0307_0000, 0x030f_00a1, 0x0310_00a1, 0x0400_0000] {
        words.put(RUNTIME + 8, version);
        assert_eq!(
            layout::of_version(version as u32, &words, RUNTIME),
            None,
            "{version:x}"
        );
    }
}

proptest! {
    /// Words of any value at the places that are read: everything ends, and nothing is read that is not there.
    #[test]
    fn any_memory_is_survived(
        changes in prop::collection::vec((0_usize..400, prop_oneof![any::<u64>(), 0x50_0000_u64..0x61_0000, 0_u64..9]), 0..12),
        free_threaded: bool,
    ) {
        let mut words = python_3_14(free_threaded);
        put_frames(&mut words, free_threaded, &[(Some(2), 7, 1, 2), (Some(1), 5, 0, 1), (None, 0, 0, 0), (Some(0), 3, 3, 0)]);
        let mut places: Vec<u64> = words.0.keys().copied().collect();
        places.sort_unstable();
        for (place, value) in changes {
            let place = places[place * 7 % places.len()];
            words.put(place, value);
        }
        if let Some(layout) = layout::of_version(0x030e_00f0, &words, RUNTIME) {
            let interpreter = Interpreter { version: 0x030e_00f0, runtime: RUNTIME, code_type: CODE_TYPE, layout };
            let mut buffer = [0; 64];
            if let Some(thread) = own_thread(&words, &interpreter) {
                let mut codes = Vec::new();
                let walked = stack::walk(&words, &interpreter, thread, &mut buffer, |_, address| codes.push(address));
                prop_assert!(walked.count <= 64);
                for code in codes {
                    let code = Code::at(&words, &interpreter, code);
                    prop_assert!(code.name.cut(1024).bytes <= 1024);
                }
                prop_assert_eq!(thread_name::find(&words, &interpreter, walked.outermost), None);
            }
        }
        prop_assert_eq!(Interpreter::find(&words, RUNTIME, 0), None);
    }
}
