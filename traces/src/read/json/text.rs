//! Strings as JSON writes them.

use crate::model::{TextId, Texts};

/// The id of a text, which may hold escapes.
#[inline]
pub(in crate::read) fn intern(bytes: &[u8], texts: &mut Texts) -> TextId {
    if bytes.contains(&b'\\') {
        return texts.intern(&unescaped(bytes));
    }
    texts.intern_bytes(bytes)
}

/// A text without escapes. What is no escape, such as in paths of Windows that were written as they
/// are, stays.
#[cold]
pub(in crate::read) fn unescaped(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let escaped = match (byte, rest.first()) {
            (b'\\', Some(escaped)) => *escaped,
            _ => {
                text.push(byte);
                continue;
            }
        };
        let plain = match escaped {
            b'"' | b'\\' | b'/' => escaped,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                if let Some((character, bytes)) = unicode(&rest[1..]) {
                    let mut buffer = [0; 4];
                    text.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                    rest = &rest[1 + bytes..];
                } else {
                    text.push(byte);
                }
                continue;
            }
            _ => {
                text.push(byte);
                continue;
            }
        };
        text.push(plain);
        rest = &rest[1..];
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The character of the four digits behind `\u`, or of two such escapes if it takes a pair, and how
/// many bytes those are.
fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = four_digits(bytes)?;
    if !(0xD800..0xDC00).contains(&first) {
        return Some((
            char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER),
            4,
        ));
    }
    let second = match bytes.get(4..6) {
        Some(b"\\u") => four_digits(&bytes[6..]).filter(|unit| (0xDC00..0xE000).contains(unit)),
        _ => None,
    };
    Some(match second {
        Some(second) => {
            let point = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            (
                char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER),
                10,
            )
        }
        None => (char::REPLACEMENT_CHARACTER, 4),
    })
}

fn four_digits(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.get(..4)?;
    digits.iter().try_fold(0, |value, &byte| {
        Some(value << 4 | char::from(byte).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn escapes_become_characters() {
        for (text, expected) in [
            (r#"a\"b\\c\/d\n\t"#, "a\"b\\c/d\n\t"),
            (r"caf\u00e9 \u4E2d", "caf\u{e9} \u{4e2d}"),
            (r"\ud83d\ude00!", "\u{1f600}!"),
            (r"\ud83d!\ude00", "\u{fffd}!\u{fffd}"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"C:\Users\x", r"C:\Users\x"),
            (r"end\", r"end\"),
            (r"\u12", r"\u12"),
        ] {
            assert_eq!(unescaped(text.as_bytes()), expected, "{text}");
        }
    }
}
