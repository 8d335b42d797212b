//! What is found of ranks, communicators and operations.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use super::clocks::Clocks;
use super::lateness_map::LatenessMap;
use crate::containers::packed_rows::PackedRows;
use crate::containers::sets::widen;
use crate::measure::job::collectives::read::operations::{Lane, Shape};
use crate::measure::job::mpi;
use rsys_traces::model::ProcessId;

/// Begin, duration, the segment in front of it plus one (0: there is none), shape and flags, behind the number.
pub(crate) type Rows = PackedRows<5>;

/// Late arrivals that are kept of each rank, the latest.
const LATEST: usize = 256;

/// A rank of a communicator.
#[derive(Debug)]
pub(crate) struct GroupMember {
    pub(crate) process: ProcessId,
    pub(crate) host: usize,
    pub(crate) rank: Option<u64>,
    pub(crate) rows: Rows,
}

/// An operation on one rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// The place of the rank among the members of the communicator.
    pub(crate) member: usize,
    /// On the axis that all ranks have in common, in nanoseconds.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// By the rank's own clock.
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
    /// What it did by itself from the end of its operation before; `None` of its first.
    pub(crate) segment_ns: Option<u64>,
    pub(crate) info: u64,
}

impl Arrival {
    /// The place of its shape.
    pub(crate) fn shape(&self) -> usize {
        (self.info >> 2) as usize
    }

    /// Whether it has `BY_CALL` or `FUSED` (`operations`), or any of several.
    pub(crate) fn has(&self, flags: u64) -> bool {
        self.info & flags != 0
    }
}

/// The arrival that came last, and the one before it. Of equal ones the first counts as the last.
pub(crate) fn last_two(arrivals: &[Arrival]) -> (&Arrival, Option<&Arrival>) {
    let (mut last, mut next): (&Arrival, Option<&Arrival>) = (&arrivals[0], None);
    for one in &arrivals[1..] {
        if one.start > last.start {
            (last, next) = (one, Some(last));
        } else if next.is_none_or(|next| one.start > next.start) {
            next = Some(one);
        }
    }
    (last, next)
}

/// A communicator, or the messages between two of its ranks.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) communicator: String,
    pub(crate) lane: Lane,
    pub(crate) members: Vec<GroupMember>,
    pub(crate) totals: GroupTotals,
}

/// What is known of the operations of a communicator.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GroupTotals {
    /// How many ranks it has, as the calls say.
    pub(crate) ranks: u64,
    pub(crate) matched: u64,
    /// Operations that not all ranks have in these traces.
    pub(crate) incomplete: u64,
    /// Those of them whose other ranks are in these traces, without them.
    pub(crate) uneven: u64,
    /// Operations of which the ranks tell different things.
    pub(crate) contradictory: u64,
    /// Operations that are one kernel with the one before.
    pub(crate) fused: u64,
    /// Operations of which the GPU's time is not known.
    pub(crate) by_call: u64,
}

/// What a process did in all its communicators.
#[derive(Debug, Clone, Default)]
pub(crate) struct RankTotals {
    pub(crate) operations: u64,
    /// Waited for those that came after it.
    pub(crate) wait_ns: u64,
    /// Waited for the other rank of messages.
    pub(crate) message_wait_ns: u64,
    /// Came last, by more than the clocks may be wrong.
    pub(crate) last: u64,
    /// Charged with making others wait.
    pub(crate) blame_ns: u64,
    /// Later than the next because it had waited for others elsewhere.
    pub(crate) inherited_ns: u64,
    /// By how much its segments were longer than the median of the ranks.
    pub(crate) late_ns: u64,
    pub(crate) late: u64,
    /// The segments by which that was found, in all.
    pub(crate) compared_ns: u64,
    /// Begin of the first and end of the last operation.
    pub(crate) span: Option<(u64, u64)>,
    /// How long it was in calls of MPI of which it is not known for whom they waited.
    pub(crate) unjudged_ns: u64,
    /// The latest arrivals.
    pub(crate) latest: BinaryHeap<Reverse<LateArrival>>,
}

/// An arrival that was late by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LateArrival {
    pub(crate) late_ns: u64,
    pub(crate) group: usize,
    pub(crate) sequence: u64,
}

/// An operation of all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) start_skew_ns: u64,
    pub(crate) group: usize,
    pub(crate) sequence: u64,
    pub(crate) shape: usize,
    pub(crate) end_skew_ns: u64,
    pub(crate) latency_min_ns: u64,
    pub(crate) latency_last_ns: u64,
    /// Begin on the rank that came last, by its own clock.
    pub(crate) start_ns: u64,
    pub(crate) last: ProcessId,
    pub(crate) late_ns: u64,
    pub(crate) blame_ns: u64,
    /// `None`: nothing bounds it.
    pub(crate) uncertainty_ns: Option<u64>,
}

impl Instance {
    /// Whether it is certain who came last.
    pub(crate) fn is_certain(&self) -> bool {
        self.uncertainty_ns.is_some_and(|ns| self.late_ns > ns)
    }
}

/// What is known of all operations of one shape in one communicator.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShapeTotals {
    pub(crate) count: u64,
    pub(crate) inconclusive: u64,
    pub(crate) latency_min_ns: u64,
    pub(crate) latency_last_ns: u64,
    pub(crate) start_skew_ns: u64,
    pub(crate) max_start_skew_ns: u64,
    pub(crate) end_skew_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) blame_ns: u64,
    /// Ended further apart than clocks and their own length explain.
    pub(crate) apart: u64,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    pub(crate) groups: Vec<Group>,
    pub(crate) clocks: Clocks,
    pub(crate) rank_totals: BTreeMap<ProcessId, RankTotals>,
    pub(crate) shapes: Vec<Shape>,
    /// By communicator and shape.
    pub(crate) totals: BTreeMap<(usize, usize), ShapeTotals>,
    /// Those with the largest skew, in this order.
    pub(crate) instances: Vec<Instance>,
    /// Ranks by collectives.
    pub(crate) lateness_map: LatenessMap,
    pub(crate) unidentified: u64,
    pub(crate) unmatched_kernels: u64,
    /// Collectives that are known by their order alone, on one rank alone.
    pub(crate) alone: u64,
    /// Whether such communicators of several hosts were told apart.
    pub(crate) is_by_host: bool,
    /// Communicators whose collectives are known by their order alone, and of which ranks have different numbers: how many, and so many ranks.
    pub(crate) uneven: Vec<(String, Vec<(usize, usize)>)>,
    /// Messages and collectives with a root, of MPI.
    pub(crate) mpi: mpi::Job,
    /// Such calls that are in no part.
    pub(crate) without_mpi: u64,
    /// The clocks of hosts, by boot id or host name.
    pub(crate) hosts: HashMap<String, usize>,
    /// Those of processes whose file holds times of several clocks, and these files.
    pub(crate) own_clocks: HashMap<ProcessId, usize>,
    pub(crate) put_together: BTreeSet<String>,
    /// How often an operation of a rank was read.
    pub(crate) visited: Cell<u64>,
}

impl Group {
    /// Whether those that came are all on one host.
    pub(crate) fn is_on_one_host(&self, arrivals: &[Arrival]) -> bool {
        let host = self.members[arrivals[0].member].host;
        arrivals
            .iter()
            .all(|one| self.members[one.member].host == host)
    }
}

impl ShapeTotals {
    pub(crate) fn add(&mut self, instance: &Instance) {
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

impl RankTotals {
    /// It took part in an operation.
    pub(crate) fn count(&mut self, arrival: &Arrival) {
        self.operations += 1;
        let end_ns = arrival.start_ns + arrival.duration_ns;
        widen(&mut self.span, (arrival.start_ns, end_ns));
    }

    pub(crate) fn add_late(&mut self, late: LateArrival) {
        self.late_ns += late.late_ns;
        self.late += 1;
        self.latest.push(Reverse(late));
        if self.latest.len() > LATEST {
            self.latest.pop();
        }
    }

    /// It made others wait: by how much it was later than the next, and what of that is its own.
    pub(crate) fn charge(&mut self, late_ns: u64, blame_ns: u64) {
        self.blame_ns += blame_ns;
        self.inherited_ns += late_ns - blame_ns;
    }

    /// What it did in messages, in collectives with a root, and in those without a number.
    pub(crate) fn add_mpi(&mut self, rank: &mpi::RankCalls) {
        self.operations += rank.messages;
        self.last += rank.last;
        self.unjudged_ns += rank.unjudged_ns;
        self.wait_ns += rank.wait_ns;
        self.message_wait_ns += rank.message_wait_ns;
        self.blame_ns += rank.blame_ns;
        widen(&mut self.span, rank.span);
        // Where collectives say nothing of most of its time, all of it is compared.
        if self.compared_ns < self.span_ns() / 2 {
            self.late_ns = rank.late_ns;
            self.latest.clear();
        }
        // It may have waited meanwhile.
        self.late_ns = self.late_ns.saturating_sub(rank.tested_ns);
    }

    pub(crate) fn span_ns(&self) -> u64 {
        self.span.map_or(0, |(start_ns, end_ns)| end_ns - start_ns)
    }
}
