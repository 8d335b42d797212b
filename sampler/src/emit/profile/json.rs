//! Summaries for programs.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;

use super::{Cost, Gathered, Share, View, ranked};
use crate::emit::learned::frames::FunctionId;

#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    pid: u32,
    name: &'a str,
    command_line: &'a [String],
    rank: Option<u32>,
    host: &'a str,
    frequency_hz: f64,
    /// CPU time.
    cpu: Section<'a>,
    /// Wall time of blocked threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Section<'a>>,
}

#[derive(Serialize)]
struct Section<'a> {
    samples: u64,
    time_ns: u64,
    functions: Vec<Function<'a>>,
    threads: Vec<Thread<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Vec<Node>>,
    /// Samples that the tree counts at one of their callers.
    cut_samples: u64,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    file: &'a str,
    self_samples: u64,
    self_ns: u64,
    total_samples: u64,
    total_ns: u64,
}

#[derive(Serialize)]
struct Thread<'a> {
    number: u32,
    tid: u32,
    name: &'a str,
    samples: u64,
    time_ns: u64,
    functions: Vec<OfThread>,
}

/// `function` is the place in the list of functions.
#[derive(Serialize)]
struct OfThread {
    function: usize,
    self_samples: u64,
    self_ns: u64,
    total_samples: u64,
    total_ns: u64,
}

/// A parent stands before its children.
#[derive(Serialize)]
struct Node {
    function: usize,
    parent: Option<u32>,
    self_samples: u64,
    self_ns: u64,
    total_samples: u64,
    total_ns: u64,
}

/// Writes the whole summary.
pub(super) fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let about = view.about;
    let waiting = &view.profile.waiting;
    let document = Document {
        version: env!("CARGO_PKG_VERSION"),
        pid: about.pid,
        name: &about.name,
        command_line: &about.command_line,
        rank: about.rank,
        host: &about.host,
        frequency_hz: about.frequency_hz,
        cpu: section(view, &view.profile.running),
        waiting: (!waiting.is_empty()).then(|| section(view, waiting)),
    };
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

fn section<'a>(view: &View<'a>, gathered: &'a Gathered) -> Section<'a> {
    let frames = view.frames;
    let ranked = ranked(&gathered.functions, frames);
    let places: HashMap<FunctionId, usize> = ranked
        .iter()
        .enumerate()
        .map(|(place, (id, _))| (*id, place))
        .collect();
    let place = |id: &FunctionId| places.get(id).copied().unwrap_or_default();
    let functions = ranked.iter().map(|(id, share)| {
        let function = frames.function(*id);
        Function {
            name: &function.name,
            file: &frames.file(function.file).path,
            self_samples: share.own.samples,
            self_ns: share.own.ns,
            total_samples: share.total.samples,
            total_ns: share.total.ns,
        }
    });
    let threads = gathered.threads().into_iter().map(|thread| Thread {
        number: thread.number,
        tid: thread.tid,
        name: &thread.name,
        samples: thread.cost.samples,
        time_ns: thread.cost.ns,
        functions: super::ranked(&thread.functions, frames)
            .iter()
            .map(|(id, share)| of_thread(place(id), *share))
            .collect(),
    });
    let tree = view.profile.forms.tree.then(|| {
        let totals = gathered.totals();
        let nodes = gathered.nodes.iter().zip(totals).enumerate();
        nodes
            .map(|(index, (node, total))| {
                let parent = (node.parent as usize != index).then_some(node.parent);
                node_of(place(&node.function), parent, node.own, total)
            })
            .collect()
    });
    Section {
        samples: gathered.cost.samples,
        time_ns: gathered.cost.ns,
        functions: functions.collect(),
        threads: threads.collect(),
        tree,
        cut_samples: gathered.cut,
    }
}

fn of_thread(function: usize, share: Share) -> OfThread {
    OfThread {
        function,
        self_samples: share.own.samples,
        self_ns: share.own.ns,
        total_samples: share.total.samples,
        total_ns: share.total.ns,
    }
}

fn node_of(function: usize, parent: Option<u32>, own: Cost, total: Cost) -> Node {
    Node {
        function,
        parent,
        self_samples: own.samples,
        self_ns: own.ns,
        total_samples: total.samples,
        total_ns: total.ns,
    }
}
