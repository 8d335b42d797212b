//! The records about Python.

use super::{Kind, header};
use crate::ring::{Producer, Reservation};
use crate::words::bytes_of;

const PYTHON_STACK_WORDS: usize = 2;
const PYTHON_CODE_WORDS: usize = 6;
const PYTHON_THREAD_WORDS: usize = 2;
const PYTHON_INTERPRETER_WORDS: usize = 4;

/// Writes the Python frames of the samples that follow: `frames` are those that differ from the Python stack before, innermost first,
/// `shared` is the number of outermost frames that do not. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring only.
#[inline]
#[must_use]
pub fn put_python_stack(ring: &Producer<'_>, flags: u8, shared: u16, frames: &[u64]) -> bool {
    let words = PYTHON_STACK_WORDS.wrapping_add(frames.len());
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(header(Kind::PythonStack, flags, words));
    record.put(u64::from(shared) | (frames.len() as u64) << 16);
    for frame in frames {
        record.put(*frame);
    }
    record.commit();
    true
}

/// Text of another program: its length, how it is written, and where its words come from.
#[derive(Debug, Clone, Copy)]
pub struct ForeignText<F> {
    /// Bytes of it.
    pub bytes: u32,
    /// Bytes of one character: 1 (Latin-1), 2 or 4, in the machine's byte order.
    pub width: u8,
    /// Gives the eight bytes from an offset on.
    pub word: F,
}

impl<F: Fn(u64) -> u64> ForeignText<F> {
    fn words(&self) -> u64 {
        u64::from(self.bytes).div_ceil(8)
    }

    /// Length and width in one word.
    fn head(&self) -> u64 {
        u64::from(self.bytes) | u64::from(self.width) << 32
    }

    fn put(&self, record: &mut Reservation<'_>) {
        for number in 0..self.words() {
            record.put((self.word)(number.wrapping_mul(8)));
        }
    }
}

/// Writes what is behind the key of a Python code object: name, file and table of lines, in the form that `flags` says. Returns
/// whether there was room.
///
/// # Signal safety
/// Stores into the ring, and the three functions.
#[must_use]
pub fn put_python_code<A, B, C>(
    ring: &Producer<'_>,
    key: u64,
    first_line: u32,
    flags: u8,
    name: &ForeignText<A>,
    file: &ForeignText<B>,
    lines: &ForeignText<C>,
) -> bool
where
    A: Fn(u64) -> u64,
    B: Fn(u64) -> u64,
    C: Fn(u64) -> u64,
{
    let text_words = name
        .words()
        .wrapping_add(file.words())
        .wrapping_add(lines.words());
    let words = PYTHON_CODE_WORDS.wrapping_add(text_words as usize);
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(header(Kind::PythonCode, flags, words));
    for word in [
        key,
        u64::from(first_line),
        name.head(),
        file.head(),
        lines.head(),
    ] {
        record.put(word);
    }
    name.put(&mut record);
    file.put(&mut record);
    lines.put(&mut record);
    record.commit();
    true
}

/// Writes the name that Python gave to the thread of this ring. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring, and the text's function.
#[must_use]
pub fn put_python_thread<F: Fn(u64) -> u64>(ring: &Producer<'_>, name: &ForeignText<F>) -> bool {
    let words = PYTHON_THREAD_WORDS.wrapping_add(name.words() as usize);
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(header(Kind::PythonThread, 0, words));
    record.put(name.head());
    name.put(&mut record);
    record.commit();
    true
}

/// Writes that there is an interpreter of a version (as `PY_VERSION_HEX`) with something of it at `address`. Returns whether there
/// was room.
///
/// # Signal safety
/// Stores into the ring only.
#[must_use]
pub fn put_python_interpreter(
    ring: &Producer<'_>,
    time_ns: u64,
    flags: u8,
    version: u32,
    address: u64,
) -> bool {
    let Some(mut record) = ring.begin(PYTHON_INTERPRETER_WORDS) else {
        return false;
    };
    record.put(header(
        Kind::PythonInterpreter,
        flags,
        PYTHON_INTERPRETER_WORDS,
    ));
    for word in [time_ns, u64::from(version), address] {
        record.put(word);
    }
    record.commit();
    true
}

/// Takes a text whose head is `head` off the front of `words`.
pub(super) fn take_bytes(words: &mut &[u64], head: u64) -> Option<Vec<u8>> {
    let bytes = (head as u32) as usize;
    let (text, rest) = words.split_at_checked(bytes.div_ceil(8))?;
    *words = rest;
    bytes_of(text, bytes)
}

/// The same, as characters. What is no character becomes a replacement.
pub(super) fn take_text(words: &mut &[u64], head: u64) -> Option<String> {
    let bytes = take_bytes(words, head)?;
    Some(text_of(&bytes, (head >> 32) as u8))
}

/// The text in `bytes` of another program, `width` bytes for each character as in [`ForeignText`]. What is no character is replaced.
#[must_use]
pub fn text_of(bytes: &[u8], width: u8) -> String {
    let wide = |[a, b, c, d]: [u8; 4]| {
        char::from_u32(u32::from_le_bytes([a, b, c, d])).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    match width {
        2 => bytes
            .chunks_exact(2)
            .map(|pair| wide([pair[0], pair[1], 0, 0]))
            .collect(),
        4 => bytes
            .chunks_exact(4)
            .map(|four| wide([four[0], four[1], four[2], four[3]]))
            .collect(),
        _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}
