//! Operations between ranks that were not done when the traces ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{LONG_NS, Stuck};
use crate::measure::job::operation::Operation;
use crate::table::{Cell, Column};
use rsys_traces::model::{CollectiveCall, Model, ProcessId, TextId};

/// The most runs of ranks that a text lists.
const NAMED: usize = 16;

/// An operation that was never done.
pub(super) struct Waiting {
    pub(super) communicator: TextId,
    pub(super) number: Option<u64>,
    /// What those that wait have called; of several functions the one of most ranks.
    pub(super) name: TextId,
    pub(super) bytes: u64,
    /// Ranks have called different functions, or give different numbers of bytes.
    pub(super) differs: bool,
    /// Indices of processes.
    pub(super) waiting: Vec<usize>,
    pub(super) missing: Vec<usize>,
    /// Ranks of the communicator that have called nothing in it, as far as traces say.
    pub(super) unknown: u64,
    /// For how long all that wait have done so.
    pub(super) waited_ns: u64,
    pub(super) since_ns: u64,
}

impl Stuck {
    /// The first unfinished operation of each communicator.
    pub(super) fn collectives(&self, model: &Model) -> Vec<Waiting> {
        let mut members: BTreeMap<&str, (TextId, Vec<usize>)> = BTreeMap::new();
        for (index, process) in self.processes.iter().enumerate() {
            let id = ProcessId::new(index);
            let is_ours = !model.process(id).boot_id.is_empty();
            if !process.is_reported(is_ours) {
                continue;
            }
            let reported = process.calls.iter().filter(|(name, _)| !name.is_empty());
            for (&communicator, _) in reported {
                let name = model.text(communicator);
                let known = members.entry(name).or_insert((communicator, Vec::new()));
                known.1.push(index);
            }
        }
        let rows = members.into_values();
        rows.filter_map(|(communicator, members)| self.unfinished(communicator, members, model))
            .collect()
    }

    fn unfinished(
        &self,
        communicator: TextId,
        mut members: Vec<usize>,
        model: &Model,
    ) -> Option<Waiting> {
        let first = |index: usize| self.processes[index].first_unfinished(communicator);
        let called = members.iter().filter_map(|&index| first(index));
        let number = called.filter(|(_, is_called)| *is_called).map(|one| one.0);
        let number = number.min()?;
        members.sort_by_key(|&index| model.process(ProcessId::new(index)).order());
        let of = |index: usize| self.processes[index].call(communicator, number);
        let is_behind =
            |index: usize| first(index).is_some_and(|(own, called)| own <= number && !called);
        let missing: Vec<usize> = members
            .iter()
            .copied()
            .filter(|&index| is_behind(index))
            .collect();
        // Others may have done it: not every rank waits in a broadcast.
        let is_in_it = |index: &usize| first(*index) == Some((number, true));
        let waiting: Vec<usize> = members.iter().copied().filter(is_in_it).collect();
        let still_ns = |index: &usize| {
            let id = ProcessId::new(*index);
            self.processes[*index].still_ns(id, model)
        };
        let waited_ns = waiting.iter().map(still_ns).min()?;
        let is_seen = |index: &usize| {
            let id = ProcessId::new(*index);
            self.processes[*index].is_seen_to_its_end(id, model)
        };
        if waited_ns < LONG_NS || !waiting.iter().all(is_seen) {
            return None;
        }
        let calls: Vec<&CollectiveCall> = waiting.iter().filter_map(|&index| of(index)).collect();
        let mut names: BTreeMap<TextId, usize> = BTreeMap::new();
        for call in &calls {
            *names.entry(call.name).or_default() += 1;
        }
        let (&name, _) = names.iter().max_by_key(|(_, count)| **count)?;
        let bytes = calls.iter().map(|call| call.bytes);
        let operation = Operation::of(model.text(name));
        let is_uneven = operation == Operation::AllToAllV || !operation.is_mutual();
        let ranks = calls
            .iter()
            .filter_map(|call| call.ranks)
            .max()
            .unwrap_or(0);
        let known = members.iter().filter_map(|&index| {
            let calls = self.processes[index].calls.get(&communicator)?;
            Some(
                calls
                    .iter()
                    .filter_map(|called| called.call.rank)
                    .collect::<BTreeSet<u64>>(),
            )
        });
        let known: BTreeSet<u64> = known.flatten().collect();
        Some(Waiting {
            communicator,
            number: Some(number),
            name,
            bytes: bytes.clone().max().unwrap_or(0),
            differs: names.len() > 1 || !is_uneven && bytes.clone().min() != bytes.clone().max(),
            unknown: ranks.saturating_sub(known.len().max(members.len()) as u64),
            since_ns: calls.first().map_or(0, |call| call.start_ns),
            waiting,
            missing,
            waited_ns,
        })
    }

    /// Calls that wait for a message, or for the other side to take one, and were open at the end.
    pub(super) fn messages(&self, model: &Model) -> Vec<Waiting> {
        let mut ranks: HashMap<(&str, u64), usize> = HashMap::new();
        for (index, process) in self.processes.iter().enumerate() {
            let calls = process.calls.values().flatten();
            let calls = calls.map(|called| &called.call).chain(&process.messages);
            for call in calls {
                if let Some(rank) = call.rank {
                    ranks.insert((model.text(call.communicator), rank), index);
                }
            }
        }
        let is_sent_to = |index: usize, peer: Option<u64>, communicator: &str| {
            let messages = self.processes[index].messages.iter();
            let of_peer = messages
                .filter(|call| call.peer == peer && model.text(call.communicator) == communicator);
            of_peer
                .map(|call| is_sent(model.text(call.name)))
                .collect::<Vec<_>>()
        };
        // Many may wait for one rank in the same call.
        let mut rows: BTreeMap<(&str, &str, Option<usize>), Waiting> = BTreeMap::new();
        for (index, process) in self.processes.iter().enumerate() {
            let end_ns = process.end_ns(ProcessId::new(index), model);
            for call in &process.messages {
                let (name, communicator) = (model.text(call.name), model.text(call.communicator));
                let waited_ns = end_ns.saturating_sub(call.start_ns);
                // What sends and receives at once waits for one of two.
                let Some(sent) = is_sent(name).filter(|_| waited_ns >= LONG_NS) else {
                    continue;
                };
                let peer = call.peer.and_then(|peer| ranks.get(&(communicator, peer)));
                // One that is at the other side of the same message is not missing.
                let is_there = |peer: usize| {
                    let theirs = is_sent_to(peer, call.rank, communicator);
                    call.rank.is_some() && theirs.contains(&Some(!sent))
                };
                let missing = peer
                    .copied()
                    .filter(|&peer| peer != index && !is_there(peer));
                let row = rows
                    .entry((name, communicator, missing))
                    .or_insert(Waiting {
                        communicator: call.communicator,
                        number: None,
                        name: call.name,
                        bytes: call.bytes,
                        differs: false,
                        waiting: Vec::new(),
                        missing: missing.into_iter().collect(),
                        unknown: 0,
                        waited_ns,
                        since_ns: call.start_ns,
                    });
                row.waiting.push(index);
                row.waited_ns = row.waited_ns.min(waited_ns);
                row.bytes = row.bytes.max(call.bytes);
                row.unknown += u64::from(peer.is_none());
            }
        }
        rows.into_values().collect()
    }

    /// Whether operations between ranks were recorded that something is known of.
    pub(super) fn is_judged(&self, model: &Model) -> bool {
        let mut processes = self.processes.iter().enumerate();
        processes.any(|(index, process)| {
            let is_ours = !model.process(ProcessId::new(index)).boot_id.is_empty();
            !process.messages.is_empty()
                || !process.calls.is_empty() && process.is_reported(is_ours)
        })
    }
}

/// Whether a call sends a message, or receives one; `None` if it does both, or neither.
fn is_sent(name: &str) -> Option<bool> {
    let name = name.to_ascii_lowercase();
    match (
        name.contains("send"),
        name.contains("recv") || name.contains("probe"),
    ) {
        (sends, receives) if sends != receives => Some(sends),
        _ => None,
    }
}

impl Waiting {
    pub(super) fn cells(&self, of: &Stuck, waiting: &BTreeSet<usize>, model: &Model) -> Vec<Cell> {
        let place = |index: &usize| {
            let (place, ..) = of.processes[*index].place(ProcessId::new(*index), model)?;
            Some(match self.missing.len() {
                1 => place,
                _ => format!("{}: {place}", named(&[*index], model)),
            })
        };
        // One that waits for others itself is not the one to look at.
        let (others, first): (Vec<usize>, Vec<usize>) = self
            .missing
            .iter()
            .partition(|index| waiting.contains(index));
        let of_missing = first.iter().chain(&others).find_map(place);
        let text = |indices: &[usize]| (!indices.is_empty()).then(|| named(indices, model));
        vec![
            model.text(self.name).into(),
            self.number.into(),
            (self.bytes > 0).then_some(self.bytes).into(),
            model.text(self.communicator).into(),
            self.waited_ns.into(),
            text(&self.missing).into(),
            of_missing.into(),
            text(&self.waiting).into(),
            (self.unknown > 0).then_some(self.unknown).into(),
            self.differs.into(),
            self.since_ns.into(),
            self.waiting
                .first()
                .map(|&one| model.process(ProcessId::new(one)).host.as_str())
                .into(),
        ]
    }
}

/// Processes by their ranks, else by their numbers, for instance `rank 1, 4 to 7`.
pub(super) fn named(indices: &[usize], model: &Model) -> String {
    let process = |index: &usize| model.process(ProcessId::new(*index));
    let ranks: Option<BTreeSet<u64>> = indices.iter().map(|index| process(index).rank).collect();
    let word = if ranks.is_some() { "rank" } else { "process" };
    let pids = || {
        indices
            .iter()
            .map(|index| u64::from(process(index).pid))
            .collect()
    };
    let numbers: BTreeSet<u64> = ranks.unwrap_or_else(pids);
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == number => run.1 = number,
            _ => runs.push((number, number)),
        }
    }
    let more = runs.len().saturating_sub(NAMED);
    let mut words: Vec<String> = runs
        .iter()
        .take(NAMED)
        .map(|run| match run {
            (first, last) if first == last => first.to_string(),
            (first, last) if first + 1 == *last => format!("{first}, {last}"),
            (first, last) => format!("{first} to {last}"),
        })
        .collect();
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    format!("{word} {}", words.join(", "))
}

pub(super) const NEVER_DONE_COLUMNS: [Column; 12] = [
    Column::plain("operation", "operation"),
    Column::plain("sequence", "number"),
    Column::bytes("message_bytes", "bytes"),
    Column::plain("communicator", "communicator"),
    Column::ns("waited_ns", "waited"),
    Column::line("missing", "missing"),
    Column::line("missing_place", "which is at"),
    Column::line("waiting", "waiting"),
    Column::plain("without_call", "ranks unknown"),
    Column::plain("differs", "differs"),
    Column::ns("since_ns", ""),
    Column::plain("host", ""),
];
