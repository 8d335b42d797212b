//! JSON in memory: where strings and values end.
//!
//! Profilers write what JSON does not know (`NaN`, `inf`), and forget to escape what a name
//! contains. So whatever looks like a bare word is taken as a value, and strings may hold any byte;
//! brackets have to match.

/// Why a value has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum Fault {
    /// The bytes end before it does.
    Short,
    /// It is no JSON.
    Malformed,
}

/// A part of a value's bytes. The empty one stands for what is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::read) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        // Values are smaller than the largest window.
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Whether nothing is there: no such key, `null`, or an empty string.
    #[inline]
    pub(in crate::read) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Where it begins.
    pub(in crate::read) fn start(self) -> usize {
        self.start as usize
    }

    /// Its bytes.
    #[inline]
    pub(in crate::read) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// The place of the next byte from `at` on that is no space; the end if there is none.
#[inline]
pub(in crate::read) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Expects a byte behind space; returns the place behind it.
#[inline]
pub(in crate::read) fn expect(bytes: &[u8], at: usize, expected: u8) -> Result<usize, Fault> {
    let at = skip_space(bytes, at);
    match bytes.get(at) {
        Some(&byte) if byte == expected => Ok(at + 1),
        Some(_) => Err(Fault::Malformed),
        None => Err(Fault::Short),
    }
}

const ONES: u64 = u64::MAX / 0xFF;
const HIGHS: u64 = ONES << 7;

/// High bits of the bytes of a word that equal `byte`. Only the lowest of them is certain.
#[inline]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    let differences = word ^ (ONES * u64::from(byte));
    differences.wrapping_sub(ONES) & !differences & HIGHS
}

/// The place of the quotation mark that ends the string whose content begins at `at`.
#[inline]
pub(in crate::read) fn string_end(bytes: &[u8], mut at: usize) -> Result<usize, Fault> {
    loop {
        while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*word);
            let found = equal_bytes(word, b'"') | equal_bytes(word, b'\\');
            if found != 0 {
                at += found.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        match bytes.get(at) {
            Some(b'"') => return Ok(at),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(Fault::Short),
        }
    }
}

/// The content of the value that begins at `at` (of strings without quotation marks), and the place
/// behind it.
#[inline]
pub(in crate::read) fn value(bytes: &[u8], at: usize) -> Result<(Span, usize), Fault> {
    match bytes.get(at) {
        None => Err(Fault::Short),
        Some(b'"') => {
            let end = string_end(bytes, at + 1)?;
            Ok((Span::new(at + 1, end), end + 1))
        }
        Some(b'{' | b'[') => {
            let end = nested_end(bytes, at)?;
            Ok((Span::new(at, end), end))
        }
        Some(_) => {
            let end = word_end(bytes, at)?;
            let is_null = &bytes[at..end] == b"null";
            let content = if is_null { at } else { end };
            Ok((Span::new(at, content), end))
        }
    }
}

/// The end of a number, `true`, `NaN` and the like.
#[inline]
fn word_end(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start;
    while let Some(b'0'..=b'9' | b'.' | b'-' | b'+' | b'a'..=b'z' | b'A'..=b'Z') = bytes.get(at) {
        at += 1;
    }
    match bytes.get(at) {
        None => Err(Fault::Short),
        Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') if at > start => Ok(at),
        Some(_) => Err(Fault::Malformed),
    }
}

/// The end of the array or object that begins at `at`.
pub(in crate::read) fn nested_end(bytes: &[u8], mut at: usize) -> Result<usize, Fault> {
    // A bit for each open bracket: whether it is that of an object.
    let mut open: u64 = 1;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                at = skip_space(bytes, string_end(bytes, at)? + 1);
                // Where a quotation mark is missing, what is no string seems to be one from there
                // on.
                match bytes.get(at) {
                    None | Some(b',' | b']' | b'}') => {}
                    // And where a bracket is not closed, members of the object around the list seem
                    // to be in it.
                    Some(b':') if open & 1 == 1 => {}
                    _ => return Err(Fault::Malformed),
                }
            }
            b'[' | b'{' if open >> 63 == 1 => return Err(Fault::Malformed),
            b'[' => open <<= 1,
            b'{' => open = open << 1 | 1,
            b']' | b'}' => {
                if (open & 1 == 1) != (byte == b'}') {
                    return Err(Fault::Malformed);
                }
                open >>= 1;
                if open == 1 {
                    return Ok(at);
                }
            }
            _ => {}
        }
    }
    Err(Fault::Short)
}

/// Calls `member` with key and place of the value for each member of the object that begins at
/// `at`; it returns the place behind the value. Returns the place behind the object.
#[inline]
pub(in crate::read) fn members(
    bytes: &[u8],
    at: usize,
    mut member: impl FnMut(&[u8], usize) -> Result<usize, Fault>,
) -> Result<usize, Fault> {
    let mut at = expect(bytes, at, b'{')?;
    let mut is_first = true;
    loop {
        at = skip_space(bytes, at);
        match bytes.get(at) {
            None => return Err(Fault::Short),
            Some(b'}') => return Ok(at + 1),
            Some(b',') if !is_first => at = skip_space(bytes, at + 1),
            Some(_) if !is_first => return Err(Fault::Malformed),
            Some(_) => {}
        }
        is_first = false;
        let key = expect(bytes, at, b'"')?;
        let end = string_end(bytes, key)?;
        if bytes[key..end].contains(&b'\n') {
            // It began where a mark is missing; what follows could be read as if the object went on.
            return Err(Fault::Malformed);
        }
        let behind = skip_space(bytes, expect(bytes, end + 1, b':')?);
        at = member(&bytes[key..end], behind)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_the_first_mark_that_is_not_escaped() {
        for (text, expected) in [
            ("\"", Ok(0)),
            ("abcdefghij\"k", Ok(10)),
            (r#"ab\"cdefgh\\" ""#, Ok(12)),
            ("caf\u{e9}\u{1f600}\u{a2}\" ", Ok(11)),
            (r"abcdefg\", Err(Fault::Short)),
            ("abc", Err(Fault::Short)),
        ] {
            assert_eq!(string_end(text.as_bytes(), 0), expected, "{text}");
        }
    }

    #[test]
    fn values_have_their_content() {
        let malformed = Err(Fault::Malformed);
        for (text, expected) in [
            ("12.5,", Ok("12.5")),
            ("-Infinity}", Ok("-Infinity")),
            ("null ", Ok("")),
            (r#""null","#, Ok("null")),
            (r#"[1, "]", {"a": [2]}] "#, Ok(r#"[1, "]", {"a": [2]}]"#)),
            ("12", Err(Fault::Short)),
            (r#"{"a": [1"#, Err(Fault::Short)),
            ("[1}", malformed),
            (r#"["a": 1]"#, malformed),
            (r#"["a" "b"]"#, malformed),
            ("1:2,", malformed),
            (",", malformed),
        ] {
            let found = value(text.as_bytes(), 0).map(|(span, _)| span.of(text.as_bytes()));
            assert_eq!(found, expected.map(str::as_bytes), "{text}");
        }
        let deep = "[".repeat(100);
        assert_eq!(nested_end(deep.as_bytes(), 0), Err(Fault::Malformed));
    }

    #[test]
    fn members_need_commas_and_colons() {
        for (text, expected) in [
            (r#"{"a" : 1, "b":"c"}"#, Ok("a=1 b=c ")),
            (" {}", Ok("")),
            (r#"{"a": 1 "b": 2}"#, Err(Fault::Malformed)),
            (r#"{"a" 1}"#, Err(Fault::Malformed)),
            (r#"{, "a": 1}"#, Err(Fault::Malformed)),
            (r#"{"a": 1"#, Err(Fault::Short)),
        ] {
            let (bytes, mut seen) = (text.as_bytes(), String::new());
            let end = members(bytes, 0, |key, at| {
                let (span, behind) = value(bytes, at)?;
                let words = [key, b"=", span.of(bytes), b" "].concat();
                seen.push_str(&String::from_utf8_lossy(&words));
                Ok(behind)
            });
            let found = end.map(|_| seen.as_str());
            assert_eq!(found, expected, "{text}");
        }
    }
}
