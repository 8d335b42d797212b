//! Code objects: a key that survives the reuse of addresses, and a description.

use rsys_unwind::Memory;

use crate::interpreter::Interpreter;
use crate::layout::{CodeLayout, LineTable};
use crate::text::Text;

/// Bits of a key.
pub const KEY_BITS: u32 = 43;

/// The key of the code object at `code`: made of the addresses of the object, its name, its file's name and its table of lines, and
/// of its first line. An object that takes the place of another one has at least one of them different.
///
/// `None` when it cannot be read.
#[inline]
#[must_use]
pub fn key(memory: &impl Memory, layout: &CodeLayout, code: u64) -> Option<u64> {
    let name = memory.read_u64(code.wrapping_add(layout.name))?;
    let filename = memory.read_u64(code.wrapping_add(layout.filename))?;
    let line_table = memory.read_u64(code.wrapping_add(layout.line_table))?;
    let first_line = memory.read_u32(code.wrapping_add(layout.first_line))?;
    // Independent products, so that they overlap; then the finish of MurmurHash3's 64-bit mixer.
    let mut hash = code.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ name.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(13)
        ^ filename.wrapping_mul(0x1656_67b1_9e37_79f9).rotate_left(29)
        ^ line_table
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
            .rotate_left(41)
        ^ u64::from(first_line).wrapping_mul(0xa076_1d64_78bd_642f);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    Some(hash >> (64 - KEY_BITS))
}

/// What is recorded of a code object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The qualified name; before 3.11 the name.
    pub name: Text,
    /// The file.
    pub filename: Text,
    /// The line at which it starts.
    pub first_line: u32,
    /// The table of lines.
    pub line_table: Text,
    /// Its form.
    pub line_table_form: LineTable,
}

impl Code {
    /// Describes the code object at `code`. What cannot be read is empty.
    #[must_use]
    pub fn at(memory: &impl Memory, interpreter: &Interpreter, code: u64) -> Self {
        let layout = &interpreter.layout.code;
        let field = |offset: u64| memory.read_u64(code.wrapping_add(offset));
        let text = |offset: u64| {
            field(offset)
                .and_then(|object| Text::of_str(memory, &interpreter.layout.text, object))
                .unwrap_or_default()
        };
        Self {
            name: text(layout.name),
            filename: text(layout.filename),
            first_line: memory
                .read_u32(code.wrapping_add(layout.first_line))
                .unwrap_or(0),
            line_table: field(layout.line_table)
                .and_then(|object| Text::of_bytes(memory, &interpreter.layout.text, object))
                .unwrap_or_default(),
            line_table_form: layout.line_table_form,
        }
    }
}
