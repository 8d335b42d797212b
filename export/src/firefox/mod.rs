//! Profiles for the Firefox Profiler, in its processed format of version 48 (<https://github.com/firefox-devtools/profiler>, `src/types/profile.js`).
//!
//! A thread has samples with their weights, and markers for calls, ranges and waits; each stream of a GPU is a thread with markers for its operations. Newer
//! viewers bring older versions up to date.

mod thread;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io::Write;

use serde_json::json;

use crate::json::Quoted;
use crate::rows::{ByWord, Row, Word, each};
use crate::run::Run;
use crate::stacks::{Stacks, samples};
use crate::{Failure, Time};
use thread::{Marker, Texts, Thread, file_name};

/// Categories and their colours. What has none is the first.
const CATEGORIES: [(&str, &str); 7] = [
    ("Other", "grey"),
    ("Native", "blue"),
    ("Python", "yellow"),
    ("GPU", "purple"),
    ("Calls", "orange"),
    ("Ranges", "green"),
    ("Waits", "brown"),
];
const NATIVE: usize = 1;
const PYTHON: usize = 2;
const GPU: usize = 3;
const CALLS: usize = 4;
const RANGES: usize = 5;
const WAITS: usize = 6;

/// Kinds of markers: name, category, and the keys, labels and formats of what they say.
const KINDS: [(&str, usize, &[[&str; 3]]); 5] = [
    (
        "operation",
        GPU,
        &[
            ["call", "Call", "string"],
            ["grid", "Grid", "string"],
            ["bytes", "Bytes", "bytes"],
            ["correlation", "Correlation", "integer"],
        ],
    ),
    (
        "call",
        CALLS,
        &[
            ["bytes", "Bytes", "bytes"],
            ["place", "Place", "string"],
            ["correlation", "Correlation", "integer"],
        ],
    ),
    ("range", RANGES, &[]),
    ("wait", WAITS, &[]),
    ("mark", RANGES, &[]),
];
/// Their places.
const OPERATION: usize = 0;
const CALL: usize = 1;
const RANGE: usize = 2;
const WAIT: usize = 3;
const MARK: usize = 4;

/// The threads of a process by their order: those of the processor, then the streams of GPUs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Lane {
    Thread(u64),
    Stream(u64, String),
}

/// What happened on them.
struct Threads<'r> {
    run: &'r Run<'r>,
    all: BTreeMap<(u64, Lane), Thread>,
    /// What markers say.
    said: Texts,
    /// The same by the words of a column each.
    words: [ByWord<usize, usize>; 2],
}

impl Threads<'_> {
    fn get(&mut self, process: u64, lane: Lane) -> &mut Thread {
        let thread = self.all.entry((process, lane));
        thread.or_insert_with(|| Thread::new(self.run))
    }

    /// Adds a marker.
    fn mark(&mut self, process: u64, lane: Lane, marker: &Marker<'_>) {
        let mut said = [0; 2];
        for ((said, words), text) in said.iter_mut().zip(&mut self.words).zip(marker.texts) {
            let number = |text: &str| Ok::<_, Infallible>(self.said.number(text));
            let Ok(found) = words.get(marker.kind, text, number);
            *said = found;
        }
        self.get(process, lane).mark(marker, said);
    }
}

/// Writes a profile with the call stacks of a time.
///
/// # Errors
/// When the store is damaged, or `out` fails.
pub(crate) fn write(run: &Run<'_>, time: Time, out: &mut dyn Write) -> Result<(), Failure> {
    let stacks = Stacks::read(run.view)?;
    let mut threads = Threads {
        run,
        all: BTreeMap::new(),
        said: Texts::default(),
        words: [ByWord::default(), ByWord::default()],
    };
    let mut libraries = Texts::default();
    let mut kernels: HashMap<String, usize> = HashMap::new();
    samples(run, time, |sample| {
        let kernel = match sample.kernel {
            "" => 0,
            name => match kernels.get(name) {
                Some(&number) => number,
                None => {
                    kernels.insert(name.to_owned(), kernels.len() + 1);
                    kernels.len()
                }
            },
        };
        let thread = threads.get(sample.process as u64, Lane::Thread(sample.thread));
        let node = thread.stack(
            &stacks,
            sample.stack,
            (sample.kernel, kernel),
            &mut libraries,
        );
        thread.sample(sample.time_ns, node, sample.weight);
        Ok(())
    })?;
    if run.only.gpu {
        operations(run, &mut threads)?;
    }
    if run.only.gpu || run.only.rccl {
        calls(run, &mut threads)?;
    }
    if run.only.ranges {
        slices(run, "ranges", RANGE, &mut threads)?;
        marks(run, &mut threads)?;
    }
    if run.only.samples {
        slices(run, "waits", WAIT, &mut threads)?;
    }

    let mut names = HashMap::new();
    each(
        run.view,
        "threads",
        &["process_id", "thread", "name"],
        |row| {
            names.insert((row.number(0), row.number(1)), row.text(2).to_owned());
            Ok(())
        },
    )?;
    let Threads { all, said, .. } = &mut threads;
    let base_ns = all.values().map(|thread| thread.first_ns).min();
    let base_ns = base_ns.unwrap_or(0);
    let last_ns = all.values().map(|thread| thread.last_ns).max().unwrap_or(0);
    head(&libraries, last_ns.saturating_sub(base_ns), out)?;
    let mut between = "";
    for ((process, lane), thread) in all {
        let Some(of) = run.process(*process) else {
            continue;
        };
        let (name, tid) = match lane {
            Lane::Thread(tid) => {
                let name = names.get(&(*process, *tid)).map_or("", String::as_str);
                (name.to_owned(), tid.to_string())
            }
            Lane::Stream(gpu, stream) => {
                let name = format!("GPU {gpu} {stream}");
                (name.clone(), format!("{process} {name}"))
            }
        };
        let is_main = *lane == Lane::Thread(of.pid);
        write!(
            out,
            "{between}\n{{\"processType\":\"default\",\"processName\":{},\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],\"name\":{},\"isMainThread\":{is_main},\"pid\":{},\"tid\":{},",
            Quoted(&of.title()),
            Quoted(&name),
            // Programs that a process executed follow each other in it.
            Quoted(&format!("{}.{process}", of.pid)),
            Quoted(&tid),
        )?;
        between = ",";
        thread.write(&libraries.order, said, base_ns, out)?;
        out.write_all(b"}")?;
    }
    out.write_all(b"]}\n")?;
    Ok(())
}

/// What stands in front of the threads.
fn head(libraries: &Texts, length_ns: u64, out: &mut dyn Write) -> Result<(), Failure> {
    let categories = CATEGORIES
        .map(|(name, color)| json!({ "name": name, "color": color, "subcategories": ["Other"] }));
    let kinds = KINDS.map(|(name, _, fields)| {
        let fields = fields.iter().map(|[key, label, format]| {
            json!({ "key": key, "label": label, "format": format, "searchable": true })
        });
        json!({
            "name": name,
            "tooltipLabel": "{marker.name}",
            "tableLabel": "{marker.name}",
            "chartLabel": "{marker.name}",
            "display": ["marker-chart", "marker-table", "timeline-overview"],
            "data": fields.collect::<Vec<_>>(),
        })
    });
    let meta = json!({
        "interval": 1,
        "startTime": 0,
        // Without these the viewer leaves out what lies in front of the first sample or behind the last; what begins at the end it leaves out as well.
        "profilingStartTime": 0,
        "profilingEndTime": (length_ns + 1) as f64 / 1e6,
        "processType": 0,
        "product": format!("rsys {}", env!("CARGO_PKG_VERSION")),
        "stackwalk": 1,
        "version": 29,
        "preprocessedProfileVersion": 48,
        "symbolicated": true,
        "categories": categories,
        "markerSchema": kinds,
        "extensions": { "id": [], "name": [], "baseURL": [], "length": 0 },
        "platform": "Linux",
        "oscpu": "Linux",
        "misc": "",
        "abi": "x86_64-gcc3",
        "toolkit": "",
        "debug": false,
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
    });
    let libraries = libraries.order.iter().map(|path| {
        let name = file_name(path);
        json!({
            "arch": "x86_64", "name": name, "path": path, "debugName": name, "debugPath": path, "breakpadId": "", "codeId": null,
        })
    });
    let libraries: Vec<_> = libraries.collect();
    write!(
        out,
        "{{\"meta\":{meta},\n\"libs\":{},\"pages\":[],\"counters\":[],\"threads\":[",
        json!(libraries)
    )?;
    Ok(())
}

/// Adds a marker for a record whose first columns are `process_id` and `thread`.
fn mark(threads: &mut Threads<'_>, row: Row<'_>, marker: &Marker<'_>) {
    threads.mark(row.number(0), Lane::Thread(row.number(1)), marker);
}

fn operations(run: &Run<'_>, threads: &mut Threads<'_>) -> Result<(), Failure> {
    const COLUMNS: [&str; 9] = [
        "process_id",
        "name",
        "start_ns",
        "end_ns",
        "device",
        "queue",
        "correlation",
        "bytes",
        "grid",
    ];
    each(
        run.view,
        "operations",
        &[&COLUMNS[..], &["call"]].concat(),
        |row| {
            let (id, start_ns, end_ns) = (row.number(0), row.number(2), row.number(3));
            if run.during(id, start_ns, end_ns).is_none() {
                return Ok(());
            }
            let lane = Lane::Stream(row.number(4), row.text(5).to_owned());
            let marker = Marker {
                kind: OPERATION,
                name: row.word(1),
                start_ns,
                end_ns: Some(end_ns),
                texts: [row.word(9), row.word(8)],
                numbers: [row.known(7), row.known(6)],
            };
            threads.mark(id, lane, &marker);
            Ok(())
        },
    )
}

fn calls(run: &Run<'_>, threads: &mut Threads<'_>) -> Result<(), Failure> {
    const COLUMNS: [&str; 8] = [
        "process_id",
        "thread",
        "name",
        "start_ns",
        "end_ns",
        "bytes",
        "place",
        "correlation",
    ];
    each(
        run.view,
        "calls",
        &[&COLUMNS[..], &["runtime"]].concat(),
        |row| {
            let (id, start_ns, end_ns) = (row.number(0), row.number(3), row.number(4));
            if run.during(id, start_ns, end_ns).is_none() || !run.only.has_calls_of(row.text(8)) {
                return Ok(());
            }
            let marker = Marker {
                kind: CALL,
                name: row.word(2),
                start_ns,
                end_ns: Some(end_ns),
                texts: [row.word(6), Word::NONE],
                numbers: [row.known(5), row.known(7)],
            };
            mark(threads, row, &marker);
            Ok(())
        },
    )
}

fn slices(
    run: &Run<'_>,
    table: &str,
    kind: usize,
    threads: &mut Threads<'_>,
) -> Result<(), Failure> {
    const COLUMNS: [&str; 5] = ["process_id", "thread", "name", "start_ns", "end_ns"];
    each(run.view, table, &COLUMNS, |row| {
        let (id, start_ns, end_ns) = (row.number(0), row.number(3), row.number(4));
        if run.during(id, start_ns, end_ns).is_none() {
            return Ok(());
        }
        let marker = Marker {
            kind,
            name: row.word(2),
            start_ns,
            end_ns: Some(end_ns),
            texts: [Word::NONE; 2],
            numbers: [None; 2],
        };
        mark(threads, row, &marker);
        Ok(())
    })
}

fn marks(run: &Run<'_>, threads: &mut Threads<'_>) -> Result<(), Failure> {
    const COLUMNS: [&str; 4] = ["process_id", "thread", "name", "time_ns"];
    each(run.view, "markers", &COLUMNS, |row| {
        let (id, start_ns) = (row.number(0), row.number(3));
        if run.at(id, start_ns).is_none() {
            return Ok(());
        }
        let marker = Marker {
            kind: MARK,
            name: row.word(2),
            start_ns,
            end_ns: None,
            texts: [Word::NONE; 2],
            numbers: [None; 2],
        };
        mark(threads, row, &marker);
        Ok(())
    })
}
