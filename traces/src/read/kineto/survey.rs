//! Which process of a file is the one that used the GPUs, before anything of it is read: it is the one that made the calls, wherever those stand in the file.
//!
//! The operations of GPUs do not say whose they are. Most files have calls of one process, beside frames or counters that have another number. Then it is enough
//! to look at the categories and process ids of events, which takes a fraction of the time of reading them. Of several processes with calls, [`super::owners`] tells
//! whose each queue is.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::path::Path;

use memchr::memmem;

use super::decimal::nanoseconds;
use super::document::{Document, Element};
use super::event::{COMMUNICATION, Event, Wanted};
use super::meaning::{Meaning, of_category};
use super::owners::{Call, Owners, Queue, Uses};
use crate::model::HostKind;
use crate::read::json::number;
use crate::read::json::syntax::skip_space;
use crate::read::json::text::unescaped;
use crate::read::{Input, input};

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// An event begins and ends within this distance of its category, in bytes.
const EVENT_BYTES: usize = 16 << 10;

/// What a process has in the file, the best evidence first: calls, then operators, ranges and functions.
type Evidence = [u64; 4];

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// The process that used the GPUs, if any process is known by a number.
    pub(super) main: Option<i64>,
    /// How many processes may have used the same queue, where nothing tells which did.
    pub(super) rivals: usize,
    /// The processes that used queues, where there are several.
    pub(super) owners: Owners,
    /// What names say where events have no categories.
    pub(super) names: Names,
    /// Whether ranges or operators may tell of collectives.
    pub(super) communicates: bool,
}

/// Names of processes and threads, and arrows between calls and what they caused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) processes: Vec<(Vec<u8>, String)>,
    pub(super) threads: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>,
    /// Links by [`arrow_end`].
    pub(super) arrows: HashMap<u64, u64>,
}

/// Maximum of arrows that are kept, in 16 bytes each.
const ARROWS: usize = 1 << 23;

/// Stands for an end of an arrow: process and thread as the file has them, and the time before anything is added to it.
pub(super) fn arrow_end(ids: [&[u8]; 2], time_ns: i128) -> u64 {
    let mut hasher = DefaultHasher::new();
    (ids, time_ns).hash(&mut hasher);
    hasher.finish()
}

impl Survey {
    /// Looks through a file.
    pub(super) fn of(path: &Path) -> Self {
        // A pipe cannot be read twice.
        let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
        let Some(input) = is_file.then(|| input(path).ok()).flatten() else {
            return Self {
                communicates: true,
                ..Self::default()
            };
        };
        // Calls are few; other events count only where there are none.
        let (mut found, communicates) = processes(input, |kind| {
            matches!(kind, HostKind::Runtime | HostKind::Hsa)
        });
        if found.is_empty()
            && let Ok(again) = self::input(path)
        {
            found = processes(again, |_| true).0;
            if found.is_empty()
                && let Ok(again) = self::input(path)
            {
                return without_categories(again);
            }
        } else if found.len() > 1
            && let Ok(again) = self::input(path)
        {
            return Self {
                communicates,
                ..by_links(again, &found)
            };
        }
        Self {
            main: most(&found, |_| 0),
            communicates,
            ..Self::default()
        }
    }
}

/// The process with most of what counts, then the best evidence, then the smallest number.
fn most(found: &BTreeMap<i64, Evidence>, linked: impl Fn(i64) -> u64) -> Option<i64> {
    let found = found.iter();
    let most =
        found.max_by_key(|(pid, evidence)| (linked(**pid), **evidence, std::cmp::Reverse(**pid)));
    most.map(|(pid, _)| *pid)
}

/// What the processes of a document have of the kinds that count, and whether anything in it may tell of collectives.
fn processes(
    mut input: impl Read,
    counts: fn(HostKind) -> bool,
) -> (BTreeMap<i64, Evidence>, bool) {
    let mut found = BTreeMap::new();
    let mut communicates = false;
    let communication: [memmem::Finder<'_>; 2] =
        [COMMUNICATION, b"\"nccl:"].map(memmem::Finder::new);
    let mut last: (Vec<u8>, i64) = Default::default();
    let category = memmem::Finder::new(b"\"cat\"");
    let mut buffer: Vec<u8> = Vec::new();
    // Bytes before this place were searched; they are kept for events that begin there.
    let mut looked = 0_usize;
    loop {
        let kept = looked.saturating_sub(EVENT_BYTES);
        buffer.drain(..kept);
        looked -= kept;
        let before = buffer.len();
        let read = input
            .by_ref()
            .take(BLOCK_BYTES as u64)
            .read_to_end(&mut buffer);
        let is_end = read.is_err() || buffer.len() == before;
        let end = match is_end {
            true => buffer.len(),
            false => buffer.len().saturating_sub(EVENT_BYTES).max(looked),
        };
        communicates = communicates
            || communication
                .iter()
                .any(|words| words.find(&buffer).is_some());
        for at in category.find_iter(&buffer[looked..]) {
            let at = looked + at;
            if at >= end {
                break;
            }
            count((&buffer, at), counts, &mut last, &mut found);
        }
        if is_end {
            return (found, communicates);
        }
        looked = end;
    }
}

/// Counts the event whose category has its key at a place.
#[inline]
fn count(
    (bytes, at): (&[u8], usize),
    counts: fn(HostKind) -> bool,
    last: &mut (Vec<u8>, i64),
    found: &mut BTreeMap<i64, Evidence>,
) {
    let Some(category) = text(bytes, at + b"\"cat\"".len()) else {
        return;
    };
    let kind = match of_category(category, b"") {
        Meaning::Host(kind) if counts(kind) => kind,
        _ => return,
    };
    let place = match kind {
        HostKind::Runtime | HostKind::Hsa => 0,
        HostKind::Operator => 1,
        HostKind::Function => 3,
        _ => 2,
    };
    let Some(pid) = pid(bytes, at) else { return };
    if last.0 != pid {
        let Some(number) = number(pid) else { return };
        *last = (pid.to_vec(), number);
    }
    found.entry(last.1).or_default()[place] += 1;
}

/// The string or number behind a key.
fn text(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let at = skip_space(bytes, at);
    let at = skip_space(bytes, (*bytes.get(at)? == b':').then_some(at + 1)?);
    let rest = bytes.get(at..)?;
    Some(match rest.strip_prefix(b"\"") {
        Some(rest) => &rest[..memchr::memchr(b'"', rest)?],
        None => {
            let end = rest
                .iter()
                .position(|byte| !matches!(byte, b'0'..=b'9' | b'-'));
            &rest[..end?]
        }
    })
}

/// The process id of the event whose category is at a place. As long as no bracket stands between the two, they belong together; else the whole event is read.
fn pid(bytes: &[u8], at: usize) -> Option<&[u8]> {
    const KEY: &[u8] = b"\"pid\"";
    /// Far enough for any name without brackets that is usual.
    const NEAR: usize = 512;
    let behind = &bytes[at..bytes.len().min(at + NEAR)];
    let behind = &behind[..memchr::memchr2(b'{', b'}', behind).unwrap_or(behind.len())];
    let mut quotes = memchr::memchr_iter(b'"', behind);
    if let Some(place) = quotes.find(|&place| behind[place..].starts_with(KEY)) {
        return text(bytes, at + place + KEY.len());
    }
    let first = at.saturating_sub(EVENT_BYTES);
    let begins = bytes[first..at].iter().enumerate().rev();
    let mut begins = begins.filter(|(_, byte)| **byte == b'{');
    begins.find_map(|(begin, _)| {
        let bytes = &bytes[first + begin..];
        let (event, _) = Event::read(bytes, Wanted::default()).ok()?;
        let is_it = event.category.start() > at - first - begin;
        is_it.then(|| event.pid.of(bytes))
    })
}

/// What names and arrows say in a file whose events have no categories: of JAX's profiler, rpd2tracing or rocprof 1.
fn without_categories(input: Input) -> Survey {
    let mut names = Names::default();
    let mut calls: BTreeMap<i64, Evidence> = BTreeMap::new();
    let mut document = Document::new(input, false);
    loop {
        match document.next() {
            Ok(Element::Event(_, event)) => {
                let bytes = document.bytes();
                let [pid, tid] = [event.pid, event.tid].map(|span| span.of(bytes).to_vec());
                match (event.phase.of(bytes), event.name.of(bytes)) {
                    (b"M", b"process_name") => {
                        let name = unescaped(event.args.name.of(bytes));
                        names.processes.push((pid, name));
                    }
                    (b"M", b"thread_name") => {
                        let name = event.args.name.of(bytes).to_vec();
                        names.threads.push((pid, tid, name));
                    }
                    (b"s" | b"t" | b"f", _) if names.arrows.len() < ARROWS => {
                        let link = number(event.id.of(bytes)).filter(|link| *link >= 0);
                        let time_ns = nanoseconds(event.time.of(bytes));
                        if let (Some(link), Some(time_ns)) = (link, time_ns) {
                            let at = arrow_end([&pid, &tid], i128::from(time_ns));
                            let link = link.cast_unsigned() + 1;
                            // Whatever the order, of several the smallest counts.
                            let known = names.arrows.entry(at).or_insert(link);
                            *known = link.min(*known);
                        }
                    }
                    (b"X", name) if name.starts_with(b"hip") || name.starts_with(b"cu") => {
                        if let Some(pid) = number(&pid) {
                            calls.entry(pid).or_default()[0] += 1;
                        }
                    }
                    _ => {}
                }
            }
            Ok(Element::End | Element::CutOff(_)) | Err(_) => break,
            Ok(_) => {}
        }
    }
    Survey {
        main: most(&calls, |_| 0),
        names,
        ..Survey::default()
    }
}

/// Of several processes with calls, those that used the queues, and the one with most operations.
fn by_links(input: Input, found: &BTreeMap<i64, Evidence>) -> Survey {
    let mut uses = Uses::default();
    let mut document = Document::new(input, false);
    loop {
        match document.next() {
            Ok(Element::Event(_, event)) => {
                let bytes = document.bytes();
                let link = event.link(bytes).filter(|_| event.args.rank.is_empty());
                let time_ns = nanoseconds(event.time.of(bytes));
                let pid = event.pid.of(bytes);
                let meaning = of_category(event.category.of(bytes), pid);
                let (Some(link), Some(time_ns), Some(pid)) = (link, time_ns, number(pid)) else {
                    continue;
                };
                match meaning {
                    Meaning::Gpu(_) => {
                        let queue = Queue::new(pid, event.stream(bytes));
                        uses.operation(queue, link, time_ns);
                    }
                    Meaning::Host(HostKind::Runtime | HostKind::Hsa) => {
                        let name = event.name.of(bytes);
                        let is_graph = memmem::find(name, b"GraphLaunch").is_some();
                        let call = Call {
                            time_ns,
                            pid,
                            is_graph,
                        };
                        uses.call(link, call);
                    }
                    _ => {}
                }
            }
            Ok(Element::End | Element::CutOff(_)) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let judged = uses.judge();
    Survey {
        main: most(found, |pid| judged.linked.get(&pid).copied().unwrap_or(0)),
        rivals: judged.rivals,
        owners: judged.owners,
        ..Survey::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_and_processes_are_counted_in_any_order_of_keys() {
        let long = "x".repeat(3000);
        let document = format!(
            r#"[{{"cat":"cuda_runtime","name":"a","pid":100}},
            {{"args":{{"pid":9,"x":{{}}}},"cat" : "python_function","name":"b","pid":0}},
            {{"pid":100,"name":"}}{{\"cat\":\"cpu_op\",","args":{{"pid":7}},"cat":"cpu_op"}},
            {{"ph":"X","args":{{"a":"{long}"}},"pid":"100","name":"{long}","cat":"cpu_op"}},
            {{"cat":"kernel","pid":3}},{{"cat":"cpu_op","pid":"Spans"}}]"#
        );
        let expected = BTreeMap::from([(0, [0, 0, 0, 1]), (100, [1, 2, 0, 0])]);
        assert_eq!(processes(document.as_bytes(), |_| true), (expected, false));
    }

    #[test]
    fn blocks_end_anywhere() {
        let event = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":100,"tid":1,"ts":1,"dur":2,"args":{"External id":1}},"#;
        let document = format!("[{}]", event.repeat(40_000));
        let expected = BTreeMap::from([(100, [0, 40_000, 0, 0])]);
        assert_eq!(processes(document.as_bytes(), |_| true), (expected, false));
    }
}
