//! The name that `threading.Thread` gave to the thread: before 3.14 the kernel does not know it, from then on its first 15 bytes.
//!
//! The outermost frame of such a thread runs `Thread._bootstrap(self)`, so its first local variable is the `Thread`, and the name is
//! that object's attribute `_name`.

use rsys_unwind::Memory;

use crate::interpreter::Interpreter;
use crate::layout::{Attributes, NameLayout};
use crate::text::Text;

/// Attributes that are looked at.
const ATTRIBUTES_MAX: u64 = 64;

/// Finds the name of the thread whose outermost frame is `frame`. `None` when `threading` did not start it, or not named it yet.
#[must_use]
pub fn find(memory: &impl Memory, interpreter: &Interpreter, frame: u64) -> Option<Text> {
    let layout = &interpreter.layout;
    let names = layout.names.as_ref()?;
    let reference = |offset: u64| {
        let reference = memory.read_u64(frame.wrapping_add(offset))?;
        Some(layout.frame.object(reference))
    };
    let code = reference(layout.frame.code)?;
    let function = memory.read_u64(code.wrapping_add(layout.code.name))?;
    let function = Text::of_str(memory, &layout.text, function)?;
    if !function.is(memory, b"Thread._bootstrap") && !function.is(memory, b"_bootstrap") {
        return None;
    }
    let thread = reference(layout.frame.locals)?;
    let name = attribute(memory, interpreter, names, thread)?;
    Text::of_str(memory, &layout.text, name).filter(|name| name.bytes > 0 && name.bytes <= 4 * 1024)
}

/// The object behind the attribute `_name`.
fn attribute(
    memory: &impl Memory,
    interpreter: &Interpreter,
    names: &NameLayout,
    object: u64,
) -> Option<u64> {
    const INLINE_VALUES: u64 = 1 << 2;
    const MANAGED: u64 = 1 << 4;
    let kind = memory.read_u64(object.wrapping_add(interpreter.layout.type_of))?;
    let flags = memory.read_u64(kind.wrapping_add(names.type_flags))?;
    let cached_keys = || memory.read_u64(kind.wrapping_add(names.cached_keys));
    let before = |bytes: u64| memory.read_u64(object.wrapping_sub(bytes));
    if names.attributes == Attributes::Dictionary || flags & MANAGED == 0 {
        let offset = memory.read_u64(kind.wrapping_add(names.dictionary_offset))?;
        let dictionary = memory.read_u64(object.wrapping_add(offset))?;
        return in_dictionary(memory, interpreter, names, dictionary);
    }
    match names.attributes {
        Attributes::Dictionary => None,
        Attributes::ValuesBefore => match before(32)? {
            0 => in_dictionary(memory, interpreter, names, before(24)?),
            values => in_keys(memory, interpreter, names, cached_keys()?, values),
        },
        Attributes::TaggedBefore => match before(24)? {
            tagged if tagged & 1 != 0 => {
                let values = tagged.wrapping_add(1);
                in_keys(memory, interpreter, names, cached_keys()?, values)
            }
            dictionary => in_dictionary(memory, interpreter, names, dictionary),
        },
        Attributes::Inline {
            head,
            dictionary_before,
        } => match before(dictionary_before)? {
            0 if flags & INLINE_VALUES != 0 => {
                // Behind the head of the object: four bytes of sizes, padding, the values.
                let values = object.wrapping_add(head).wrapping_add(8);
                in_keys(memory, interpreter, names, cached_keys()?, values)
            }
            dictionary => in_dictionary(memory, interpreter, names, dictionary),
        },
    }
}

/// `_name` in a `dict`.
fn in_dictionary(
    memory: &impl Memory,
    interpreter: &Interpreter,
    names: &NameLayout,
    dictionary: u64,
) -> Option<u64> {
    let (head, sizes) = match names.attributes {
        Attributes::Inline { head, .. } => (head, 8),
        _ => (16, 0),
    };
    // Behind the head: the number of entries, a word that differs, the keys, the values.
    let at = dictionary.wrapping_add(head).wrapping_add(16);
    let keys = memory.read_u64(at)?;
    let values = match memory.read_u64(at.wrapping_add(8))? {
        0 => 0,
        values => values.wrapping_add(sizes),
    };
    in_keys(memory, interpreter, names, keys, values)
}

/// `_name` among keys, its value beside it or, where `values` is not 0, there.
fn in_keys(
    memory: &impl Memory,
    interpreter: &Interpreter,
    names: &NameLayout,
    keys: u64,
    values: u64,
) -> Option<u64> {
    let at = |offset: u64| keys.wrapping_add(offset);
    // `PyDictKeysObject`: until 3.10 the size as a number, from 3.11 on as logarithms and with a kind.
    let (count, entries, entry_bytes, key_offset) = if names.attributes == Attributes::Dictionary {
        let size = memory.read_u64(at(8))?;
        let index_bytes = match size {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        let entries = at(40).wrapping_add(size.wrapping_mul(index_bytes));
        (memory.read_u64(at(32))?, entries, 24, 8)
    } else {
        const GENERAL: u8 = 0;
        let index_bytes = 1_u64.wrapping_shl(u32::from(memory.read_u8(at(9))?));
        let entries = at(32).wrapping_add(index_bytes);
        let count = memory.read_u64(at(24))?;
        if memory.read_u8(at(10))? == GENERAL {
            (count, entries, 24, 8)
        } else {
            (count, entries, 16, 0)
        }
    };
    for number in 0..count.min(ATTRIBUTES_MAX) {
        let entry = entries.wrapping_add(number.wrapping_mul(entry_bytes));
        let place = entry.wrapping_add(key_offset);
        let key = memory.read_u64(place)?;
        let is_name = key != 0
            && Text::of_str(memory, &interpreter.layout.text, key)
                .is_some_and(|text| text.is(memory, b"_name"));
        if is_name {
            let value = match values {
                0 => place.wrapping_add(8),
                values => values.wrapping_add(number.wrapping_mul(8)),
            };
            return memory.read_u64(value).filter(|value| *value != 0);
        }
    }
    None
}
