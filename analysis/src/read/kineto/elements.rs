//! The values of a JSON document one after another, without the whole of it in memory.
//!
//! The document is an object, or an array of events. Members of the object are found by their keys; the elements of the array under
//! `traceEvents` come one by one, encoded. What is inside of a value is left to others.

use std::io::{self, Read};

/// The largest value that is taken.
const VALUE_BYTES_MAX: usize = 256 << 20;

/// What is read at once.
const READ_BYTES: usize = 256 << 10;

/// What comes next in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element<'d> {
    /// An event, and the byte in the document where it begins.
    Event(u64, &'d [u8]),
    /// A member of the document that is no list of events: its key without quotation marks, and its value.
    Member(&'d [u8], &'d [u8]),
    /// The document is complete.
    End,
    /// The document ends within a value that began at this byte.
    CutOff(u64),
    /// No JSON from this byte on.
    Damaged(u64),
}

/// Reads a document.
pub(super) struct Elements<R> {
    input: R,
    buffer: Vec<u8>,
    at: usize,
    /// Where in the document the buffer begins.
    offset: u64,
    is_at_end: bool,
    place: Place,
}

/// Where in the document we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Object,
    Events { in_object: bool },
    End,
}

impl<R: Read> Elements<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            at: 0,
            offset: 0,
            is_at_end: false,
            place: Place::Start,
        }
    }

    /// The next element.
    ///
    /// # Errors
    /// When reading fails.
    pub(super) fn next(&mut self) -> io::Result<Element<'_>> {
        loop {
            let Some(first) = self.peek()? else {
                return Ok(match self.place {
                    Place::End => Element::End,
                    _ => Element::CutOff(self.position()),
                });
            };
            match (self.place, first) {
                (Place::Start, b'{') => self.enter(Place::Object),
                (Place::Start, b'[') => self.enter(Place::Events { in_object: false }),
                (Place::Object | Place::Events { .. }, b',') => self.at += 1,
                (Place::Object, b'}') | (Place::Events { in_object: false }, b']') => {
                    self.enter(Place::End);
                }
                (Place::Events { in_object: true }, b']') => self.enter(Place::Object),
                (Place::Object, b'"') => {
                    let Some(key) = self.value(0)? else {
                        return Ok(Element::CutOff(self.position()));
                    };
                    let colon = self.skip_space(key)?;
                    if self.buffer.get(colon).is_some_and(|&byte| byte != b':') {
                        return Ok(Element::Damaged(self.position()));
                    }
                    let start = self.skip_space(colon + 1)?;
                    let key = self.at + 1..key - 1;
                    if &self.buffer[key.clone()] == b"traceEvents"
                        && self.buffer.get(start) == Some(&b'[')
                    {
                        self.at = start;
                        self.enter(Place::Events { in_object: true });
                        continue;
                    }
                    let Some(end) = self.value(start - self.at)? else {
                        return Ok(Element::CutOff(self.position()));
                    };
                    self.at = end;
                    return Ok(Element::Member(&self.buffer[key], &self.buffer[start..end]));
                }
                (Place::Events { .. }, b'{') => {
                    let position = self.position();
                    let Some(end) = self.value(0)? else {
                        return Ok(Element::CutOff(position));
                    };
                    let start = std::mem::replace(&mut self.at, end);
                    return Ok(Element::Event(position, &self.buffer[start..end]));
                }
                (Place::End, _) => return Ok(Element::End),
                _ => return Ok(Element::Damaged(self.position())),
            }
        }
    }

    fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    fn enter(&mut self, place: Place) {
        self.at += 1;
        self.place = place;
    }

    /// The next byte that is no space; what is in front of it is forgotten.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        self.at = self.skip_space(self.at)?;
        if self.at >= READ_BYTES {
            self.buffer.drain(..self.at);
            self.offset += self.at as u64;
            self.at = 0;
        }
        Ok(self.buffer.get(self.at).copied())
    }

    /// The place of the next byte from `at` on that is no space, or the end of the buffer if there is none.
    fn skip_space(&mut self, mut at: usize) -> io::Result<usize> {
        loop {
            match self.buffer.get(at).copied() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => at += 1,
                Some(_) => return Ok(at),
                None if self.fill()? => {}
                None => return Ok(at),
            }
        }
    }

    fn fill(&mut self) -> io::Result<bool> {
        if self.is_at_end || self.buffer.len() > VALUE_BYTES_MAX {
            return Ok(false);
        }
        let before = self.buffer.len();
        let mut part = self.input.by_ref().take(READ_BYTES as u64);
        part.read_to_end(&mut self.buffer)?;
        self.is_at_end = self.buffer.len() < before + READ_BYTES;
        Ok(self.buffer.len() > before)
    }

    /// The place behind the value that begins `skip` bytes from here; `None` if the document ends before that.
    fn value(&mut self, skip: usize) -> io::Result<Option<usize>> {
        let (mut at, mut depth, mut in_text) = (self.at + skip, 0_usize, false);
        loop {
            let Some(&byte) = self.buffer.get(at) else {
                if self.fill()? {
                    continue;
                }
                return Ok(None);
            };
            at += 1;
            match byte {
                b'"' => {
                    in_text = !in_text;
                    if !in_text && depth == 0 {
                        return Ok(Some(at));
                    }
                }
                b'\\' if in_text => at += 1,
                _ if in_text => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => {
                    return Ok(Some(at - 1));
                }
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(Some(at));
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a document that is read in pieces of any length.
    fn found(document: &str) -> Vec<String> {
        let mut elements = Elements::new(document.as_bytes());
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        loop {
            found.push(match elements.next().unwrap() {
                Element::Event(at, event) => format!("{at}:{}", text(event)),
                Element::Member(key, value) => format!("{}={}", text(key), text(value)),
                Element::End => return found,
                Element::CutOff(at) => {
                    found.push(format!("cut off at {at}"));
                    return found;
                }
                Element::Damaged(at) => {
                    found.push(format!("damaged at {at}"));
                    return found;
                }
            });
        }
    }

    #[test]
    fn events_and_members_are_told_apart() {
        let document = r#" {"a":1,"b" : {"traceEvents":[{}]}, "traceEvents": [
            {"x":"}]\"{"} ,{}], "c":"d,"}"#;
        assert_eq!(
            found(document),
            [
                "a=1",
                r#"b={"traceEvents":[{}]}"#,
                r#"65:{"x":"}]\"{"}"#,
                "80:{}",
                "c=\"d,\""
            ]
        );
        assert_eq!(found("[{},{\"a\":[1,{}]}]"), ["1:{}", "4:{\"a\":[1,{}]}"]);
        assert_eq!(found("[]"), [""; 0]);
    }

    #[test]
    fn what_is_no_json_has_a_place() {
        assert_eq!(found("[{}, {\"a\""), ["1:{}", "cut off at 5"]);
        assert_eq!(found("[{}, x"), ["1:{}", "damaged at 5"]);
        assert_eq!(found("{\"a\" 1}"), ["damaged at 1"]);
    }
}
