//! The elements of a JSON document one after another, without the whole of it in memory.
//!
//! The document is an object with a list of events under `traceEvents`, or that list alone, which
//! need not have an end. Where something is no JSON, reading goes on at the next thing that looks
//! like an event.

use std::io::{self, Read};

use super::event::{Event, Wanted, may_be_plain};
use super::labels::labelled;
use crate::read::json::syntax::{Fault, Span, expect, skip_space, string_end, value};
use crate::read::json::window::{More, Window};
use crate::read::json::{landmark, skip_value};

/// What comes next in the document.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is handed on at once, and a box would be an allocation for each event"
)]
pub(super) enum Element {
    /// An event; [`Document::bytes`] has its parts.
    Event(u64, Event),
    /// A member of the document that counts; its value is in [`Document::bytes`].
    Member(Member, Span),
    /// What begins at this byte is no JSON. It is left out up to the next event.
    Malformed(u64),
    /// The document ends within something that begins at this byte.
    CutOff(u64),
    /// The document is complete.
    End,
}

/// Members of the document that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    DeviceProperties,
    DistributedInfo,
    BaseTime,
    HostName,
    HostNames,
}

/// Where in the document we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Members,
    Events,
    Lost,
    End,
}

/// Reads a document.
pub(super) struct Document<R> {
    window: Window<R>,
    place: Place,
    is_object: bool,
    /// Whether there was a list of events.
    pub(super) has_events: bool,
    /// The length of the element that was handed out last.
    length: usize,
    wanted: Wanted,
    /// Whether an event was read that says its rank, or an operator or function that does not: of a merged file all of these do.
    has_first: bool,
}

/// What the first bytes of something tell.
#[expect(
    clippy::large_enum_variant,
    reason = "it is handed on at once, and a box would be an allocation for each event"
)]
enum Step {
    Found(Element, usize),
    Enter(Place, usize),
    Skip(usize),
}

impl<R: Read> Document<R> {
    pub(super) fn new(input: R, shapes: bool) -> Self {
        Self {
            window: Window::new(input),
            place: Place::Start,
            is_object: false,
            has_events: false,
            length: 0,
            wanted: Wanted {
                shapes,
                ranks: true,
            },
            has_first: false,
        }
    }

    /// The bytes in which the spans of the last element lie.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.window.passed(self.length)
    }

    /// Where reading goes on.
    pub(super) fn position(&self) -> u64 {
        self.window.position()
    }

    /// The next element.
    ///
    /// # Errors
    /// When reading fails; the document ends there.
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Element> {
        loop {
            let space = skip_space(self.window.rest(), 0);
            self.window.advance(space);
            match self.step() {
                Ok(Step::Found(element, bytes)) => {
                    self.window.advance(bytes);
                    self.length = bytes;
                    return Ok(element);
                }
                Ok(Step::Enter(place, bytes)) => {
                    self.window.advance(bytes);
                    self.place = place;
                    self.has_events |= place == Place::Events;
                }
                Ok(Step::Skip(bytes)) => {
                    let position = self.window.position();
                    self.window.advance(bytes);
                    if !skip_value(&mut self.window)? {
                        return Ok(self.cut_off(position));
                    }
                }
                Err(Fault::Malformed) => return Ok(self.lost()),
                Err(Fault::Short) => match self.window.more()? {
                    More::Read => {}
                    More::Full => return Ok(self.lost()),
                    More::End if matches!(self.place, Place::End | Place::Lost) => {
                        return Ok(Element::End);
                    }
                    // A bracket that is not closed takes in all events behind it.
                    More::End if self.place == Place::Events && self.has_event_ahead() => {
                        return Ok(self.lost());
                    }
                    More::End => {
                        let position = self.window.position();
                        return Ok(self.cut_off(position));
                    }
                },
            }
        }
    }

    fn has_event_ahead(&self) -> bool {
        let bytes = self.window.rest().get(1..).unwrap_or_default();
        landmark(bytes, begins_event).is_some()
    }

    fn cut_off(&mut self, position: u64) -> Element {
        self.window.advance(self.window.rest().len());
        self.place = Place::End;
        Element::CutOff(position)
    }

    fn lost(&mut self) -> Element {
        let position = self.window.position();
        // The bracket that begins the malformed event would look like the next event.
        self.window.advance(1);
        self.place = Place::Lost;
        Element::Malformed(position)
    }

    /// What the current place of the window begins with.
    #[inline]
    fn step(&mut self) -> Result<Step, Fault> {
        let bytes = self.window.rest();
        let first = *bytes.first().ok_or(Fault::Short)?;
        match (self.place, first) {
            (Place::Events, b'{') => {
                let (event, length) = Event::read(bytes, self.wanted)?;
                if event.args.begin > 0 && event.phase.of(bytes) == b"X" {
                    let says_rank =
                        !event.args.rank.is_empty() || labelled(event.pid.of(bytes)).is_some();
                    if says_rank || !self.has_first && may_be_plain(event.category.of(bytes)) {
                        self.wanted.ranks = says_rank;
                        self.has_first = true;
                    }
                }
                Ok(Step::Found(
                    Element::Event(self.window.position(), event),
                    length,
                ))
            }
            (Place::Events | Place::Members, b',') => Ok(Step::Enter(self.place, 1)),
            (Place::Events, b']') if self.is_object => {
                match bytes.get(skip_space(bytes, 1)).ok_or(Fault::Short)? {
                    b',' | b'}' | b'{' => Ok(Step::Enter(Place::Members, 1)),
                    // A bracket in a damaged event.
                    _ => Err(Fault::Malformed),
                }
            }
            (Place::Events, b']') | (Place::Members, b'}') => Ok(Step::Enter(Place::End, 1)),
            (Place::Members, b'"') => member(bytes, self.has_events),
            // What looked like the end of a damaged list was none.
            (Place::Members, b'{') if begins_event(b',', first, &bytes[1..]) => {
                Ok(Step::Enter(Place::Events, 0))
            }
            (Place::Start, b'[') => Ok(Step::Enter(Place::Events, 1)),
            (Place::Start, b'{') => {
                self.is_object = true;
                Ok(Step::Enter(Place::Members, 1))
            }
            // A mark of the byte order.
            (Place::Start, 0xEF) => Ok(Step::Enter(Place::Start, 3)),
            (Place::Lost, _) => resumption(bytes, self.is_object),
            // What looked like the end of a damaged document was none.
            (Place::End, _) => Ok(Step::Enter(Place::Lost, 0)),
            _ => Err(Fault::Malformed),
        }
    }
}

/// A member of the document, which begins with its key. Behind the events none has a key of theirs: that would be of a damaged one.
fn member(bytes: &[u8], has_events: bool) -> Result<Step, Fault> {
    let end = string_end(bytes, 1)?;
    let at = skip_space(bytes, expect(bytes, end + 1, b':')?);
    let first = *bytes.get(at).ok_or(Fault::Short)?;
    let known = match &bytes[1..end] {
        b"traceEvents" if first == b'[' => return Ok(Step::Enter(Place::Events, at + 1)),
        b"deviceProperties" => Member::DeviceProperties,
        b"distributedInfo" => Member::DistributedInfo,
        b"baseTimeNanoseconds" => Member::BaseTime,
        b"host_name" | b"hostname" => Member::HostName,
        b"host_names" => Member::HostNames,
        key if has_events && EVENT_KEYS.contains(&key) => return Err(Fault::Malformed),
        _ => return Ok(Step::Skip(at)),
    };
    let (span, behind) = value(bytes, at)?;
    Ok(Step::Found(Element::Member(known, span), behind))
}

/// Keys of events.
const EVENT_KEYS: [&[u8]; 11] = [
    b"ph", b"cat", b"name", b"ts", b"dur", b"pid", b"tid", b"args", b"id", b"s", b"bp",
];

/// Whoever looks for the next event keeps this many bytes of what was read: an event's first key,
/// and what stands in front of it.
const KEPT_BYTES: usize = 128;

/// Where in damaged bytes reading may go on: at what looks like an event, or at the end of the
/// list.
fn resumption(bytes: &[u8], is_object: bool) -> Result<Step, Fault> {
    // A list within an event may end like that of the events: the next event counts first.
    let found = landmark(bytes, begins_event).or_else(|| {
        landmark(bytes, |before, byte, behind| {
            ends_list(before, byte, behind, is_object)
        })
    });
    match (found, bytes.len().checked_sub(KEPT_BYTES)) {
        (Some(at), _) => Ok(Step::Enter(Place::Events, at)),
        (None, None | Some(0)) => Err(Fault::Short),
        (None, Some(passed)) => Ok(Step::Enter(Place::Lost, passed)),
    }
}

/// Whether a bracket begins an event: its first key is that of one.
fn begins_event(before: u8, byte: u8, behind: &[u8]) -> bool {
    let key = match (byte, before) {
        (b'{', b',' | b'[') => expect(behind, 0, b'"'),
        _ => return false,
    };
    key.is_ok_and(|key| {
        let end = string_end(behind, key);
        end.is_ok_and(|end| {
            EVENT_KEYS.contains(&&behind[key..end]) && expect(behind, end + 1, b':').is_ok()
        })
    })
}

/// Whether a bracket ends the list of events: what is behind it fits.
fn ends_list(before: u8, byte: u8, behind: &[u8], is_object: bool) -> bool {
    let next = behind.get(skip_space(behind, 0));
    (before, byte) == (b'}', b']')
        && match is_object {
            true => matches!(next, Some(b',' | b'}')),
            false => next.is_none(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a document.
    fn found(document: &str) -> Vec<String> {
        let mut elements = Document::new(document.as_bytes(), false);
        let mut found = Vec::new();
        loop {
            let element = elements.next().unwrap();
            let text = |span: Span| String::from_utf8_lossy(span.of(elements.bytes())).into_owned();
            found.push(match element {
                Element::Event(at, event) => format!("{at}:{}", text(event.name)),
                Element::Member(member, span) => format!("{member:?}={}", text(span)),
                Element::Malformed(at) => format!("malformed at {at}"),
                Element::CutOff(at) => format!("cut off at {at}"),
                Element::End => return found,
            });
        }
    }

    #[test]
    fn events_and_members_are_told_apart() {
        let document = r#" {"x":[{"name":"no"},"\\"],"baseTimeNanoseconds" : 12, "traceEvents": [
            {"name":"}]{","args":{"name":[{}]}} ,{}], "y":"d,\"}", "distributedInfo": {"rank": 3}}
        "#;
        let expected = [
            "BaseTime=12",
            "84:}]{",
            "121:",
            "DistributedInfo={\"rank\": 3}",
        ];
        assert_eq!(found(document), expected);
        assert_eq!(found("\u{feff}[{},{\"name\":\"a\"}]"), ["4:", "7:a"]);
        assert_eq!(found("[]"), [""; 0]);
        assert_eq!(found("{\"traceEvents\": null}"), [""; 0]);
    }

    #[test]
    fn long_members_are_skipped_wherever_the_window_ends() {
        let long = r#"]\\\""#.repeat(100_000);
        for shift in 0..5 {
            let space = " ".repeat(shift);
            let document =
                format!(r#"{space}{{"x": [["{long}"], "]"], "baseTimeNanoseconds": 1}}"#);
            assert_eq!(found(&document), ["BaseTime=1"], "{shift}");
        }
    }

    #[test]
    fn what_ends_too_early_has_a_place() {
        assert_eq!(found("[{}, {\"name\""), ["1:", "cut off at 5"]);
        assert_eq!(found("[{},"), ["1:", "cut off at 4"]);
        assert_eq!(found("{\"x\": [[1, \"\\"), ["cut off at 1"]);
        assert_eq!(found(""), ["cut off at 0"]);
    }

    #[test]
    fn a_damaged_event_does_not_end_the_list() {
        for damaged in [
            r#"{}]"ph":"X","args":{"x":1"#,
            r#"{}],"ph":"X","args":{"x":1"#,
        ] {
            let document =
                format!(r#"{{"traceEvents":[{damaged},{{"name":"a"}}],"baseTimeNanoseconds":1}}"#);
            let found = found(&document);
            assert_eq!(found[0], "16:", "{found:?}");
            assert!(found[1].starts_with("malformed at "), "{found:?}");
            assert!(found[2].ends_with(":a"), "{found:?}");
            assert_eq!(found[3..], ["BaseTime=1"], "{found:?}");
        }
    }

    #[test]
    fn damage_costs_what_it_is_in() {
        let good = r#"{"ph":"X","name":"good"}"#;
        for (damaged, what) in [
            (
                r#"{"ph":"X","name":"a "b" c"}"#,
                "marks that are not escaped",
            ),
            (
                r#"{"ph":"X","args":{"name":[1, 2}}"#,
                "a bracket is missing",
            ),
            (r#"{"ph":"X","args":{"x":1}"#, "a brace is missing"),
            (r#"{"ph":"X","args":[{"x":1}"#, "both are"),
            (r#"{"ph""X"}"#, "a colon is missing"),
            ("\0\0\0", "zeros"),
        ] {
            let at = good.len() + 4;
            let in_list = format!("[{good},\n {damaged},\n  {good}]");
            let expected = [
                "1:good".to_owned(),
                format!("malformed at {at}"),
                format!("{}:good", at + damaged.len() + 4),
            ];
            assert_eq!(found(&in_list), expected, "{what}");
            if damaged.ends_with('}') && what != "both are" {
                let at_end =
                    format!(r#"{{"traceEvents":[{good},{damaged}],"baseTimeNanoseconds":1}}"#);
                let found = found(&at_end);
                assert_eq!(found.len(), 3, "{what}: {found:?}");
                assert_eq!(found[2], "BaseTime=1", "{what}");
            }
        }
    }
}
