//! Texts that do nothing but be read: names, paths and arguments in traces are whatever somebody has written, and some characters control a terminal.

use std::borrow::Cow;
use std::io::{self, Write};

/// What stands in place of such a character.
const INSTEAD: &str = "\u{fffd}";

/// A text without characters that would control the terminal, or the direction of what is behind them.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let controls = |one: char| match one {
        '\n' | '\t' => false,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        one => one.is_control(),
    };
    match text.contains(controls) {
        true => Cow::Owned(text.replace(controls, INSTEAD)),
        false => Cow::Borrowed(text),
    }
}

/// Passes UTF-8 on, without characters that would control the terminal that it goes to.
#[derive(Debug)]
pub struct ToTerminal<W> {
    out: W,
    /// The first byte of a character that may be one of those, until the second is there.
    first: Option<u8>,
}

/// The first byte of U+0080 to U+00BF, the first half of which are controls.
const BEFORE_CONTROLS: u8 = 0xC2;

impl<W: Write> ToTerminal<W> {
    /// To a writer.
    pub fn new(out: W) -> Self {
        Self { out, first: None }
    }
}

impl<W: Write> Write for ToTerminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut plain = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            match (self.first.take(), byte) {
                (Some(_), 0x80..=0x9F) => plain.extend(INSTEAD.bytes()),
                (Some(first), byte) => plain.extend([first, byte]),
                (None, BEFORE_CONTROLS) => self.first = Some(byte),
                (None, b'\n' | b'\t') => plain.push(byte),
                (None, byte) if byte.is_ascii_control() => plain.extend(INSTEAD.bytes()),
                (None, byte) => plain.push(byte),
            }
        }
        self.out.write_all(&plain)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left() {
        let text = "g\u{e9}mm\x1b[31m\x07\u{9b}\r\n\tend\x7f\u{a0}";
        let expected = "g\u{e9}mm\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}\n\tend\u{fffd}\u{a0}";
        assert_eq!(printable(text), expected);
        // Wherever a writer cuts it.
        let mut out = ToTerminal::new(Vec::new());
        for byte in text.as_bytes() {
            out.write_all(&[*byte]).unwrap();
        }
        assert_eq!(String::from_utf8(out.out).unwrap(), expected);
        assert_eq!(printable("a\u{202e}b"), "a\u{fffd}b");
    }
}
