//! What is found of ranks, communicators and operations.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::clocks::Clocks;
use super::joining::{Lane, Shape};
use super::map::Map;
use crate::containers::packed_rows::PackedRows;
use crate::measure::job::mpi;
use rsys_traces::model::ProcessId;

/// Begin, duration, the segment in front of it plus one (0: there is none), shape and flags, behind the number.
pub(super) type Rows = PackedRows<5>;

/// Late arrivals that are kept of each rank, the latest.
const LATEST: usize = 256;

/// A rank of a communicator.
pub(super) struct Part {
    pub(super) process: ProcessId,
    pub(super) host: usize,
    pub(super) rank: Option<u64>,
    pub(super) rows: Rows,
}

/// A communicator, or the messages between two of its ranks.
pub(super) struct Group {
    pub(super) communicator: String,
    pub(super) lane: Lane,
    pub(super) parts: Vec<Part>,
    pub(super) totals: GroupTotals,
}

/// What is known of the operations of a communicator.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupTotals {
    /// How many ranks it has, as the calls say.
    pub(super) ranks: u64,
    pub(super) matched: u64,
    /// Operations that not all ranks have in these traces.
    pub(super) incomplete: u64,
    /// Those of them whose other ranks are in these traces, without them.
    pub(super) uneven: u64,
    /// Operations of which the ranks tell different things.
    pub(super) contradictory: u64,
    /// Operations that are one kernel with the one before.
    pub(super) fused: u64,
    /// Operations of which the GPU's time is not known.
    pub(super) by_call: u64,
}

/// What a process did in all its communicators.
#[derive(Debug, Clone, Default)]
pub(super) struct Conduct {
    pub(super) operations: u64,
    /// Waited for those that came after it.
    pub(super) wait_ns: u64,
    /// Waited for the other rank of messages.
    pub(super) message_wait_ns: u64,
    /// Came last, by more than the clocks may be wrong.
    pub(super) last: u64,
    /// Charged with making others wait.
    pub(super) blame_ns: u64,
    /// Later than the next because it had waited for others elsewhere.
    pub(super) inherited_ns: u64,
    /// By how much its segments were longer than the median of the ranks.
    pub(super) late_ns: u64,
    pub(super) late: u64,
    /// The segments by which that was found, in all.
    pub(super) compared_ns: u64,
    /// Begin of the first and end of the last operation.
    pub(super) span: Option<(u64, u64)>,
    /// How long it was in calls of MPI of which it is not known for whom they waited.
    pub(super) unjudged_ns: u64,
    /// The latest arrivals.
    pub(super) latest: BinaryHeap<Reverse<Late>>,
}

/// An arrival that was late by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Late {
    pub(super) late_ns: u64,
    pub(super) group: usize,
    pub(super) sequence: u64,
}

/// An operation of all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) start_skew_ns: u64,
    pub(super) group: usize,
    pub(super) sequence: u64,
    pub(super) shape: usize,
    pub(super) end_skew_ns: u64,
    pub(super) latency_min_ns: u64,
    pub(super) latency_last_ns: u64,
    /// Begin on the rank that came last, by its own clock.
    pub(super) start_ns: u64,
    pub(super) last: ProcessId,
    pub(super) late_ns: u64,
    pub(super) blame_ns: u64,
    /// `None`: nothing bounds it.
    pub(super) uncertainty_ns: Option<u64>,
}

impl Instance {
    /// Whether it is certain who came last.
    pub(super) fn is_certain(&self) -> bool {
        self.uncertainty_ns.is_some_and(|ns| self.late_ns > ns)
    }
}

/// What is known of all operations of one shape in one communicator.
#[derive(Debug, Clone, Default)]
pub(super) struct ShapeTotals {
    pub(super) count: u64,
    pub(super) inconclusive: u64,
    pub(super) latency_min_ns: u64,
    pub(super) latency_last_ns: u64,
    pub(super) start_skew_ns: u64,
    pub(super) max_start_skew_ns: u64,
    pub(super) end_skew_ns: u64,
    pub(super) wait_ns: u64,
    pub(super) blame_ns: u64,
    /// Ended further apart than clocks and their own length explain.
    pub(super) apart: u64,
}

/// Everything that was found.
pub(super) struct Study {
    pub(super) groups: Vec<Group>,
    pub(super) clocks: Clocks,
    pub(super) conduct: BTreeMap<ProcessId, Conduct>,
    pub(super) shapes: Vec<Shape>,
    /// By communicator and shape.
    pub(super) totals: BTreeMap<(usize, usize), ShapeTotals>,
    /// Those with the largest skew, in this order.
    pub(super) instances: Vec<Instance>,
    /// Ranks by collectives.
    pub(super) map: Map,
    pub(super) nameless: u64,
    pub(super) strangers: u64,
    /// Messages and collectives with a root, of MPI.
    pub(super) mpi: mpi::Job,
    /// Such calls that are in no part.
    pub(super) without_mpi: u64,
    /// The clocks of hosts, by boot id or host name.
    pub(super) hosts: HashMap<String, usize>,
    /// How often an operation of a rank was looked at.
    pub(super) visited: Cell<u64>,
}

impl ShapeTotals {
    pub(super) fn add(&mut self, instance: &Instance) {
        self.count += 1;
        self.inconclusive += u64::from(!instance.is_certain());
        self.latency_min_ns += instance.latency_min_ns;
        self.latency_last_ns += instance.latency_last_ns;
        self.start_skew_ns += instance.start_skew_ns;
        self.max_start_skew_ns = self.max_start_skew_ns.max(instance.start_skew_ns);
        self.end_skew_ns += instance.end_skew_ns;
        let explained = instance.uncertainty_ns.unwrap_or(u64::MAX);
        let tolerated = (instance.latency_min_ns / 4).max(20_000);
        self.apart += u64::from(instance.end_skew_ns > tolerated.saturating_add(explained));
    }
}

impl Conduct {
    pub(super) fn late(&mut self, late: Late) {
        self.late_ns += late.late_ns;
        self.late += 1;
        self.latest.push(Reverse(late));
        if self.latest.len() > LATEST {
            self.latest.pop();
        }
    }

    /// It made others wait: by how much it was later than the next, and what of that is its own.
    pub(super) fn charge(&mut self, late_ns: u64, blame_ns: u64) {
        self.blame_ns += blame_ns;
        self.inherited_ns += late_ns - blame_ns;
    }

    /// What it did in messages, in collectives with a root, and in those without a number.
    pub(super) fn add_mpi(&mut self, rank: &mpi::OfRank) {
        self.operations += rank.messages;
        self.last += rank.last;
        self.unjudged_ns += rank.unjudged_ns;
        self.wait_ns += rank.wait_ns;
        self.message_wait_ns += rank.message_wait_ns;
        self.blame_ns += rank.blame_ns;
        let span = self.span.get_or_insert(rank.span);
        *span = (span.0.min(rank.span.0), span.1.max(rank.span.1));
        // Where collectives say nothing of most of its time, all of it is compared.
        if self.compared_ns < self.span_ns() / 2 {
            self.late_ns = rank.late_ns;
            self.latest.clear();
        }
        // It may have waited meanwhile.
        self.late_ns = self.late_ns.saturating_sub(rank.tested_ns);
    }

    pub(super) fn span_ns(&self) -> u64 {
        self.span.map_or(0, |(start_ns, end_ns)| end_ns - start_ns)
    }
}
