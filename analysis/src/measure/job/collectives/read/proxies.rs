//! What RCCL's proxies waited for, for each rank and class of operations: as unions of times, for a rank has a proxy's operation for each channel, and these
//! wait at once.
//!
//! Steps have the times. The operation that they belong to comes behind them and has the name; the program's call with the same number says the rest.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::operations::{Lane, Member};
use crate::containers::sets::IntervalSet;
use rsys_traces::model::{ProxyRecord, ProxyWork, TextId};

/// Calls whose class is known. A proxy ends its operation while no more than a stream holds were called behind it.
const CALLS: usize = 1 << 14;
/// Operations that wait for their names, which come when they end. Twice as many are known: those that began before these as well.
const OPEN: usize = 1 << 14;
/// Operations that wait for others to come before their calls are looked up: threads are not in order, by some milliseconds.
const HELD: usize = 1 << 13;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The kernel, which fills or empties buffers.
    Gpu,
    /// The receiver's room.
    Peer,
    /// What is sent, until the network has it.
    Network,
    /// What is received, until it is there.
    Data,
    /// Until the GPU sees what was received.
    Flush,
}

impl Wait {
    pub(crate) const ALL: [Self; 5] = [
        Self::Gpu,
        Self::Peer,
        Self::Network,
        Self::Data,
        Self::Flush,
    ];
    pub(crate) const COUNT: usize = Self::ALL.len();
}

/// Waits for another rank, or for the way to it.
const FOR_PEER: [Wait; 3] = [Wait::Peer, Wait::Network, Wait::Data];

/// The parts of a step in their order, as the trace has them.
fn parts(step: &ProxyRecord) -> [(Wait, u64); 3] {
    match step.is_send {
        true => [
            (Wait::Gpu, step.gpu_wait_ns),
            (Wait::Peer, step.peer_wait_ns),
            (Wait::Network, step.network_ns),
        ],
        false => [
            (Wait::Data, step.network_ns),
            (Wait::Flush, step.flush_ns),
            (Wait::Gpu, step.gpu_wait_ns),
        ],
    }
}

/// What proxies did for operations of one class on one rank. Nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProxyTimes {
    /// The rank in the communicator.
    pub(crate) rank: Option<u64>,
    /// In which any proxy was at work.
    pub(crate) work_ns: u64,
    /// In which any waited, by [`Wait`].
    pub(crate) waits_ns: [u64; Wait::COUNT],
    /// In which any waited for a rank of the communicator or the way to it, by that rank.
    pub(crate) peers_ns: BTreeMap<u64, u64>,
}

/// What is waited for, as long as records come.
type Waits = [IntervalSet; Wait::COUNT];

/// The times of a class on a rank, as long as records come.
#[derive(Debug, Default)]
struct Unions {
    work: IntervalSet,
    waits: Waits,
    peers: BTreeMap<u64, IntervalSet>,
}

fn length_ns(set: &mut IntervalSet) -> u64 {
    let intervals = set.intervals();
    intervals.map(|(start_ns, end_ns)| end_ns - start_ns).sum()
}

impl Unions {
    /// Adds an operation, and what its steps waited for.
    fn add(&mut self, operation: &ProxyRecord, mut waits: Waits) {
        self.work.add(operation.start_ns, operation.end_ns);
        if let Some(peer) = operation.peer {
            let of_peer = self.peers.entry(peer).or_default();
            let for_peer = FOR_PEER.iter().map(|wait| *wait as usize);
            for_peer.for_each(|wait| of_peer.extend(waits[wait].intervals()));
        }
        for (all, own) in self.waits.iter_mut().zip(&mut waits) {
            all.extend(own.intervals());
        }
    }

    fn times(mut self, rank: Option<u64>) -> ProxyTimes {
        let peers = self.peers.iter_mut();
        ProxyTimes {
            rank,
            work_ns: length_ns(&mut self.work),
            peers_ns: peers.map(|(peer, set)| (*peer, length_ns(set))).collect(),
            waits_ns: self.waits.each_mut().map(length_ns),
        }
    }
}

/// What an operation and its steps have in common.
type Key = (TextId, Option<u64>, Option<u64>, u64, Option<u64>, bool);

fn key(record: &ProxyRecord) -> Key {
    (
        record.communicator,
        record.rank,
        record.sequence,
        record.channel,
        record.peer,
        record.is_send,
    )
}

/// Communicator and rank, and the class: its shape, or where no call is known the name of the function.
type Class = (TextId, Option<u64>, Result<u64, TextId>);

/// The proxies of a process.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    /// Shape and name of the latest calls, which are in order beside.
    calls: HashMap<(Member, u64), (u64, TextId)>,
    calls_order: VecDeque<(Member, u64)>,
    open: HashMap<Key, Waits>,
    open_before: HashMap<Key, Waits>,
    held: VecDeque<(ProxyRecord, Waits)>,
    classes: HashMap<Class, Unions>,
}

/// Times of a class: communicator, shape, times.
pub(crate) type ClassTimes = (TextId, u64, ProxyTimes);

impl Proxies {
    /// The program called an operation, which has this number.
    pub(crate) fn call(&mut self, (member, sequence): (Member, u64), shape: u64, name: TextId) {
        let operation = (member, sequence);
        if self.calls.insert(operation, (shape, name)).is_none() {
            self.calls_order.push_back(operation);
        }
        if self.calls_order.len() > CALLS
            && let Some(oldest) = self.calls_order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }

    /// A proxy did something. What it does for other processes has no communicator.
    pub(crate) fn take(&mut self, record: &ProxyRecord) {
        if record.communicator.is_empty() {
            return;
        }
        let key = key(record);
        match record.work {
            ProxyWork::Step => {
                if self.open.len() >= OPEN && !self.open.contains_key(&key) {
                    // Of those before, what has not come by now was dropped.
                    self.open_before = std::mem::take(&mut self.open);
                }
                let before = &mut self.open_before;
                let waits = self.open.entry(key);
                let waits = waits.or_insert_with(|| before.remove(&key).unwrap_or_default());
                let mut from_ns = record.start_ns;
                for (wait, waited_ns) in parts(record) {
                    let until_ns = from_ns.saturating_add(waited_ns).min(record.end_ns);
                    waits[wait as usize].add(from_ns, until_ns);
                    from_ns = until_ns.max(from_ns);
                }
            }
            ProxyWork::Operation => {
                let waits = self.open.remove(&key);
                let waits = waits.or_else(|| self.open_before.remove(&key));
                let waits = waits.unwrap_or_default();
                self.held.push_back((*record, waits));
                if self.held.len() > HELD {
                    self.settle_oldest();
                }
            }
        }
    }

    fn settle_oldest(&mut self) {
        let Some((operation, waits)) = self.held.pop_front() else {
            return;
        };
        let class = self.shape(&operation).ok_or(operation.name);
        let class = (operation.communicator, operation.rank, class);
        self.classes
            .entry(class)
            .or_default()
            .add(&operation, waits);
    }

    /// The shape of the call with its number. Messages and collectives are counted apart, and so the names decide.
    fn shape(&self, operation: &ProxyRecord) -> Option<u64> {
        let sequence = operation.sequence?;
        let with = operation.peer.map(|peer| Lane::With(peer, operation.name));
        let lanes = with.into_iter().chain([Lane::Everyone]);
        let mut found = lanes.filter_map(|lane| {
            let member = Member {
                communicator: operation.communicator,
                rank: operation.rank,
                lane,
            };
            self.calls.get(&(member, sequence))
        });
        let (shape, _) = found.find(|(_, name)| *name == operation.name)?;
        Some(*shape)
    }

    /// All was read. `shape` gives a number to the name of a function without a call.
    pub(crate) fn finish(mut self, mut shape: impl FnMut(TextId) -> u64) -> Vec<ClassTimes> {
        while !self.held.is_empty() {
            self.settle_oldest();
        }
        let classes = self.classes.into_iter();
        let times = classes.map(|((communicator, rank, class), unions)| {
            let shape = class.unwrap_or_else(&mut shape);
            (communicator, shape, unions.times(rank))
        });
        times.collect()
    }
}
