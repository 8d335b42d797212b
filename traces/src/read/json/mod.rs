//! JSON that need not fit into memory, and need not be whole.
//!
//! | file | holds |
//! |---|---|
//! | `window` | the part of the file that is in memory |
//! | `syntax` | where strings and values end |
//! | `text` | strings without escapes |
//! | `walk` | the values of a document that a reader chooses, one after another |

pub(in crate::read) mod syntax;
pub(in crate::read) mod text;
pub(in crate::read) mod walk;
pub(in crate::read) mod window;

use std::io::{self, Read};

use serde_json::Value;
use syntax::string_end;
use window::{More, Window};

/// A whole number.
#[inline]
pub(in crate::read) fn number(bytes: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return std::str::from_utf8(bytes).ok()?.parse().ok();
    }
    let mut value = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if is_negative { -value } else { value })
}

/// A number from 0 on, which some writers have as a text.
pub(in crate::read) fn whole(value: &Value) -> Option<u64> {
    let of_text = || value.as_str()?.trim().parse().ok();
    value.as_u64().or_else(of_text)
}

/// Skips a value of any length. `false`: the document ends within it.
pub(in crate::read) fn skip_value<R: Read>(window: &mut Window<R>) -> io::Result<bool> {
    let (mut depth, mut in_string) = (0_usize, false);
    loop {
        let bytes = window.rest();
        let mut at = 0;
        let mut is_done = false;
        while let Some(&byte) = bytes.get(at) {
            if in_string {
                match string_end(bytes, at) {
                    Ok(end) => (at, in_string) = (end + 1, false),
                    Err(_) => {
                        // What is behind a backslash belongs to it; it may be the next byte to
                        // be read.
                        let escapes = bytes.iter().rev().take_while(|&&b| b == b'\\').count();
                        at = bytes.len() - escapes % 2;
                        break;
                    }
                }
            } else {
                match byte {
                    b'"' => in_string = true,
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' if depth > 1 => depth -= 1,
                    b']' | b'}' if depth == 1 => {
                        at += 1;
                        is_done = true;
                        break;
                    }
                    b',' | b']' | b'}' if depth == 0 => {
                        is_done = true;
                        break;
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        window.advance(at);
        if is_done {
            return Ok(true);
        }
        if window.more()? != More::Read {
            return Ok(false);
        }
    }
}

/// The first byte that is a landmark by what is in front of it (without space), itself, and what is
/// behind it.
pub(in crate::read) fn landmark(
    bytes: &[u8],
    is_landmark: impl Fn(u8, u8, &[u8]) -> bool,
) -> Option<usize> {
    let mut before = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => continue,
            b'{' | b']' if is_landmark(before, byte, &bytes[at + 1..]) => return Some(at),
            _ => before = byte,
        }
    }
    None
}
