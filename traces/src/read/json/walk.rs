//! A walk through a document that hands out the values that a reader chooses, one after another, whatever the size of what contains them.
//!
//! Where something is no JSON, the walk goes on at the next thing that looks like an element of a list, a member of an object, or the end of a
//! list.

use std::io::{self, Read};

use super::syntax::{Fault, Span, expect, skip_space, string_end, value};
use super::window::{More, Window};
use super::{landmark, skip_value};

/// What becomes of a member of an object. `T` is the reader's own name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum Choice<T> {
    /// Its members, or elements and their members, are looked at.
    Enter,
    /// Each element of the list is handed out.
    Each(T),
    /// It is handed out.
    Take(T),
    /// It is passed over.
    Skip,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum Found<T> {
    /// A value that was chosen, and the byte where it begins. [`Walk::value`] has its bytes.
    Value(T, u64),
    /// An object of a list that was entered begins.
    Began,
    /// What begins at this byte is no JSON, and is left out.
    Malformed(u64),
    /// The document ends within something that begins at this byte.
    CutOff(u64),
    /// The document is complete.
    End,
}

/// An object or list that was entered.
#[derive(Debug)]
struct Level<T> {
    /// The key by which it was entered; empty in a list.
    key: Vec<u8>,
    holds: Holds<T>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds<T> {
    Members,
    Objects,
    Values(T),
}

/// Walks through a document.
pub(in crate::read) struct Walk<R, T> {
    window: Window<R>,
    levels: Vec<Level<T>>,
    has_begun: bool,
    is_lost: bool,
    /// The value that was handed out last, in the `passed` bytes behind which reading goes on.
    value: Span,
    passed: usize,
}

enum Step<T> {
    Found(Found<T>, usize),
    Enter(Level<T>, usize),
    Leave(usize),
    Advance(usize),
    Skip(usize),
    Resume(usize),
    Done,
}

/// The bytes that are kept of what was read while a place to resume at is searched.
const KEPT_BYTES: usize = 256;

/// Deeper levels are none that a reader asks for.
const LEVELS_MAX: usize = 16;

impl<R: Read, T: Copy> Walk<R, T> {
    pub(in crate::read) fn new(input: R) -> Self {
        Self {
            window: Window::new(input),
            levels: Vec::new(),
            has_begun: false,
            is_lost: false,
            value: Span::default(),
            passed: 0,
        }
    }

    /// The bytes of the value that was handed out last, strings without their quotation marks; empty for `null`.
    #[inline]
    pub(in crate::read) fn value(&self) -> &[u8] {
        self.value.of(self.window.passed(self.passed))
    }

    /// Where reading goes on.
    pub(in crate::read) fn position(&self) -> u64 {
        self.window.position()
    }

    /// The next value, as `choose` wants it, which is asked for each member of objects: with the keys of what contains it, and its own at last.
    ///
    /// # Errors
    /// When reading fails; the document ends there.
    pub(in crate::read) fn next(
        &mut self,
        choose: impl Fn(&[&[u8]]) -> Choice<T>,
    ) -> io::Result<Found<T>> {
        loop {
            let space = skip_space(self.window.rest(), 0);
            self.window.advance(space);
            match self.step(&choose) {
                Ok(Step::Found(found, bytes)) => {
                    self.window.advance(bytes);
                    self.passed = bytes;
                    return Ok(found);
                }
                Ok(Step::Enter(level, bytes)) => {
                    let is_object = level.holds.is_members();
                    let is_element = self
                        .levels
                        .last()
                        .is_some_and(|last| !last.holds.is_members());
                    self.window.advance(bytes);
                    self.has_begun = true;
                    self.levels.push(level);
                    if is_object && is_element {
                        return Ok(Found::Began);
                    }
                }
                Ok(Step::Leave(bytes)) => {
                    self.window.advance(bytes);
                    self.levels.pop();
                }
                Ok(Step::Advance(bytes)) => self.window.advance(bytes),
                Ok(Step::Resume(bytes)) => {
                    self.window.advance(bytes);
                    self.is_lost = false;
                }
                Ok(Step::Skip(bytes)) => {
                    let position = self.window.position();
                    self.window.advance(bytes);
                    if !skip_value(&mut self.window)? {
                        return Ok(self.cut_off(position));
                    }
                }
                Ok(Step::Done) => return Ok(Found::End),
                Err(Fault::Malformed) => return Ok(self.lost()),
                Err(Fault::Short) => match self.window.more()? {
                    More::Read => {}
                    More::Full => return Ok(self.lost()),
                    More::End if self.is_lost => {
                        self.levels.clear();
                        return Ok(Found::End);
                    }
                    // A bracket that is not closed takes in all elements behind it.
                    More::End if self.has_element_ahead() => return Ok(self.lost()),
                    More::End => {
                        let position = self.window.position();
                        return Ok(self.cut_off(position));
                    }
                },
            }
        }
    }

    fn has_element_ahead(&self) -> bool {
        let is_values = |level: &Level<T>| matches!(level.holds, Holds::Values(_));
        let bytes = self.window.rest().get(1..).unwrap_or_default();
        self.levels.last().is_some_and(is_values) && landmark(bytes, begins_element).is_some()
    }

    fn cut_off(&mut self, position: u64) -> Found<T> {
        self.window.advance(self.window.rest().len());
        self.levels.clear();
        self.has_begun = true;
        Found::CutOff(position)
    }

    fn lost(&mut self) -> Found<T> {
        let position = self.window.position();
        self.window.advance(1);
        self.is_lost = true;
        Found::Malformed(position)
    }

    /// What the current place of the window begins with.
    fn step(&mut self, choose: &impl Fn(&[&[u8]]) -> Choice<T>) -> Result<Step<T>, Fault> {
        let bytes = self.window.rest();
        let Some(level) = self.levels.last() else {
            // Whatever stands behind the document is none of it.
            return match bytes.first() {
                _ if self.has_begun => Ok(Step::Done),
                None => Err(Fault::Short),
                Some(0xEF) => Ok(Step::Advance(3)),
                Some(b'{') => Ok(Step::Enter(Level::new(&[], Holds::Members), 1)),
                Some(_) => {
                    self.has_begun = true;
                    Err(Fault::Malformed)
                }
            };
        };
        if self.is_lost {
            return resumption(bytes, &level.holds);
        }
        match (level.holds, *bytes.first().ok_or(Fault::Short)?) {
            (_, b',') => Ok(Step::Advance(1)),
            (Holds::Members, b'}') | (Holds::Objects | Holds::Values(_), b']') => {
                Ok(Step::Leave(1))
            }
            (Holds::Objects, b'{') => Ok(Step::Enter(Level::new(&[], Holds::Members), 1)),
            (Holds::Members, b'"') => self.member(choose),
            (Holds::Values(name), _) => {
                let (span, behind) = value(bytes, 0)?;
                self.value = span;
                Ok(Step::Found(
                    Found::Value(name, self.window.position()),
                    behind,
                ))
            }
            _ => Err(Fault::Malformed),
        }
    }

    /// A member of an object, which begins with its key.
    fn member(&mut self, choose: &impl Fn(&[&[u8]]) -> Choice<T>) -> Result<Step<T>, Fault> {
        let bytes = self.window.rest();
        let end = string_end(bytes, 1)?;
        let at = skip_space(bytes, expect(bytes, end + 1, b':')?);
        let first = *bytes.get(at).ok_or(Fault::Short)?;
        let key = &bytes[1..end];
        let above = self.levels.iter().map(|level| level.key.as_slice());
        let path: Vec<&[u8]> = above.filter(|key| !key.is_empty()).chain([key]).collect();
        let holds = match (choose(&path), first) {
            (Choice::Enter, b'{') => Holds::Members,
            (Choice::Enter, b'[') => Holds::Objects,
            (Choice::Each(name), b'[') => Holds::Values(name),
            (Choice::Take(name), _) => {
                let (span, behind) = value(bytes, at)?;
                self.value = span;
                let position = self.window.position() + at as u64;
                return Ok(Step::Found(Found::Value(name, position), behind));
            }
            _ => return Ok(Step::Skip(at)),
        };
        if self.levels.len() >= LEVELS_MAX {
            return Ok(Step::Skip(at));
        }
        Ok(Step::Enter(Level::new(key, holds), at + 1))
    }
}

impl<T> Level<T> {
    fn new(key: &[u8], holds: Holds<T>) -> Self {
        Self {
            key: key.to_vec(),
            holds,
        }
    }
}

impl<T> Holds<T> {
    fn is_members(&self) -> bool {
        matches!(self, Self::Members)
    }
}

/// Where in damaged bytes reading may go on: at an element or the end of the list, or at a member of the object.
fn resumption<T>(bytes: &[u8], holds: &Holds<T>) -> Result<Step<T>, Fault> {
    let found = match holds {
        Holds::Members => member_ahead(bytes),
        _ => landmark(bytes, |before, byte, behind| {
            begins_element(before, byte, behind) || ends_list(before, byte, behind)
        }),
    };
    match (found, bytes.len().checked_sub(KEPT_BYTES)) {
        (Some(at), _) => Ok(Step::Resume(at)),
        (None, None | Some(0)) => Err(Fault::Short),
        (None, Some(passed)) => Ok(Step::Advance(passed)),
    }
}

/// Whether a bracket begins an element of a list.
fn begins_element(before: u8, byte: u8, behind: &[u8]) -> bool {
    (byte, before) == (b'{', b',') && is_key(behind)
}

/// Whether a bracket ends a list: what is in front of it and behind it fits.
fn ends_list(before: u8, byte: u8, behind: &[u8]) -> bool {
    let at = skip_space(behind, 0);
    (before, byte) == (b'}', b']')
        && match behind.get(at) {
            Some(b',') => is_key(&behind[at + 1..]),
            next => matches!(next, Some(b'}')),
        }
}

/// Whether a key and its colon are here.
fn is_key(bytes: &[u8]) -> bool {
    /// Keys are words.
    const KEY_BYTES_MAX: usize = 64;
    let Ok(at) = expect(bytes, 0, b'"') else {
        return false;
    };
    let end = string_end(bytes, at);
    end.is_ok_and(|end| end - at <= KEY_BYTES_MAX && expect(bytes, end + 1, b':').is_ok())
}

/// The place of the next member that begins behind a comma.
fn member_ahead(bytes: &[u8]) -> Option<usize> {
    let mut commas = (0..bytes.len()).filter(|&at| bytes[at] == b',');
    commas.find(|&at| is_key(&bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a document: members of `tools`, of which `records` is a list and `name` a value.
    fn found(document: &str) -> Vec<String> {
        let mut walk = Walk::new(document.as_bytes());
        let choose = |path: &[&[u8]]| match path {
            [b"tools"] | [b"tools", b"in"] => Choice::Enter,
            [.., b"records"] => Choice::Each('r'),
            [.., b"name"] => Choice::Take('n'),
            _ => Choice::Skip,
        };
        let mut all = Vec::new();
        loop {
            all.push(match walk.next(choose).unwrap() {
                Found::Value(name, at) => {
                    format!("{at}{name}{}", String::from_utf8_lossy(walk.value()))
                }
                Found::Began => "began".to_owned(),
                Found::Malformed(at) => format!("malformed at {at}"),
                Found::CutOff(at) => format!("cut off at {at}"),
                Found::End => return all,
            });
        }
    }

    #[test]
    fn chosen_values_are_handed_out() {
        let document = r#" {"x": [{"name": 1}], "tools": [{"name": "a", "in": {"y": {}, "records": [{"b":1}, 2]}}, {"name":null}]} "#;
        let expected = ["began", "41na", "74r{\"b\":1}", "83r2", "began", "97n"];
        assert_eq!(found(document), expected);
        assert_eq!(found("{}"), [""; 0]);
        assert_eq!(found("{\"tools\": 3}"), [""; 0]);
        assert_eq!(found("[1]"), ["malformed at 0"]);
        assert_eq!(found(""), ["cut off at 0"]);
    }

    #[test]
    fn damage_costs_what_it_is_in() {
        for damaged in [
            r#"{"a":1 2}"#,
            r#"{"a":[1}"#,
            r#"{"a":{"b":1}"#,
            r#"{"a":"x"y"}"#,
            "\0\0",
        ] {
            let document = format!(
                r#"{{"tools":[{{"in":{{"records":[{{"a":1}},{damaged},{{"a":3}}],"x":1}},"name":"last"}}]}}"#
            );
            let found = found(&document);
            let at = 36;
            assert_eq!(found[..2], ["began", "28r{\"a\":1}"], "{damaged}");
            let is_whole = !damaged.contains("1 2");
            if is_whole {
                assert_eq!(found[2], format!("malformed at {at}"), "{damaged}");
            }
            assert!(found[3].ends_with("r{\"a\":3}"), "{damaged}: {found:?}");
            assert!(found[4].ends_with("nlast"), "{damaged}: {found:?}");
        }
    }

    #[test]
    fn what_ends_too_early_has_a_place() {
        let document = r#"{"tools":[{"in":{"records":[{"a":1},{"a":2}]}}]}"#;
        for length in 37..43 {
            let all = found(&document[..length]);
            assert_eq!(
                all.last().map(String::as_str),
                Some("cut off at 36"),
                "{length}"
            );
        }
    }
}
