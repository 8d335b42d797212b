//! Judges every matched operation: who came last, by how much, and whose fault that was.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::lateness_map::LatenessMap;
use super::records::{
    Arrival, Group, GroupTotals, Instance, LateArrival, Matching, RankTotals, ShapeTotals, last_two,
};
use crate::measure::job::collectives::read::operations::{BY_CALL, FUSED, Lane};
use crate::measure::job::operation::Operation;
use crate::measure::job::ranks::lower_median;
use rsys_traces::model::{Model, ProcessId};

/// Instances that are kept with all their numbers: those with the largest skew.
const INSTANCES: usize = 1000;
/// What ranks wait for together ends on all of them within this time.
const TOGETHER_NS: i64 = 20_000;

/// What is found while operations are judged.
struct Judge<'m> {
    matching: &'m Matching,
    model: &'m Model,
    /// Whether each rank of the job has a process.
    is_all_here: bool,
    /// At the places of the processes.
    ranks: Vec<RankTotals>,
    shapes: BTreeMap<(usize, usize), ShapeTotals>,
    map: LatenessMap,
    largest: LargestSkews,
    /// Segments of the operation at hand, kept for their memory.
    segments: Vec<u64>,
}

impl Matching {
    /// Judges every operation.
    pub(crate) fn judge(&mut self, model: &Model) {
        let mut judge = Judge {
            matching: self,
            model,
            is_all_here: has_all_ranks(model),
            ranks: vec![RankTotals::default(); model.processes.len()],
            shapes: BTreeMap::new(),
            map: LatenessMap::new(self),
            largest: LargestSkews::default(),
            segments: Vec::new(),
        };
        let groups = 0..self.groups.len();
        let groups: Vec<GroupTotals> = groups.map(|place| judge.group(place)).collect();
        let Judge {
            mut ranks,
            shapes,
            map,
            largest,
            ..
        } = judge;
        for (group, totals) in self.groups.iter_mut().zip(groups) {
            group.totals = totals;
        }
        for (id, rank) in self.mpi.ranks() {
            ranks[id.index()].add_mpi(rank);
        }
        self.instances = largest.in_order();
        let ids = (0..).map(ProcessId::new);
        let took_part = |(_, rank): &(ProcessId, RankTotals)| rank.operations > 0;
        self.rank_totals = ids.zip(ranks).filter(took_part).collect();
        self.totals = shapes;
        self.lateness_map = map;
    }

    /// Whether what the ranks have under one number is one operation: each of them has it once, and all tell the same.
    pub(crate) fn agree(&self, arrivals: &[Arrival], lane: Lane, model: &Model) -> bool {
        let is_once = arrivals
            .windows(2)
            .all(|pair| pair[0].member != pair[1].member);
        let first = &self.shapes[arrivals[0].shape()];
        let same = arrivals.iter().all(|one| {
            let shape = &self.shapes[one.shape()];
            let varies = Operation::of(model.text(shape.name)) == Operation::AllToAllV;
            shape.data_type == first.data_type
                && (shape.bytes == first.bytes || varies)
                && (shape.name == first.name || matches!(lane, Lane::With(..)))
                && shape.ranks == first.ranks
        });
        is_once && same
    }

    /// Whether no rank could end an operation before all had begun it. One of which the order alone is known may be messages between some ranks: then not all end together.
    pub(crate) fn is_mutual(operation: Operation, arrivals: &[Arrival]) -> bool {
        if operation != Operation::Any {
            return operation.is_mutual();
        }
        let ends = arrivals.iter().map(|one| one.end);
        let (first_end, last_end) = (ends.clone().min(), ends.max());
        let last_start = arrivals.iter().map(|one| one.start).max();
        let skew = last_end.zip(first_end).map(|(last, first)| last - first);
        last_start < first_end && skew.is_some_and(|skew| skew <= TOGETHER_NS)
    }

    fn instance(
        &self,
        group: usize,
        sequence: u64,
        arrivals: &[Arrival],
        charges: bool,
    ) -> Instance {
        let members = &self.groups[group].members;
        let (last, next) = last_two(arrivals);
        let first_start = arrivals.iter().map(|one| one.start).min().unwrap_or(0);
        let first_end = arrivals.iter().map(|one| one.end).min().unwrap_or(0);
        let last_end = arrivals.iter().map(|one| one.end).max().unwrap_or(0);
        let late_ns = next.map_or(0, |next| (last.start - next.start).unsigned_abs());
        let own = |next: &Arrival| Some(last.segment_ns?.saturating_sub(next.segment_ns?));
        // In front of the first collective nothing is known: ranks start when they are started.
        let blame_ns = next.and_then(own).unwrap_or(0).min(late_ns);
        let host = |one: &Arrival| members[one.member].host;
        let durations = arrivals.iter().map(|one| one.duration_ns);
        Instance {
            start_skew_ns: (last.start - first_start).unsigned_abs(),
            group,
            sequence,
            shape: arrivals[0].shape(),
            end_skew_ns: (last_end - first_end).unsigned_abs(),
            latency_min_ns: durations.min().unwrap_or(0),
            latency_last_ns: (last_end - first_start).max(0).unsigned_abs(),
            start_ns: last.start_ns,
            last: members[last.member].process,
            late_ns,
            blame_ns: if charges { blame_ns } else { 0 },
            uncertainty_ns: next
                .and_then(|next| self.clocks.uncertainty_ns(host(last), host(next))),
        }
    }
}

impl Judge<'_> {
    fn group(&mut self, place: usize) -> GroupTotals {
        let mut totals = GroupTotals::default();
        let matching = self.matching;
        matching.each(place, |sequence, arrivals| {
            self.operation((place, sequence), arrivals, &mut totals);
        });
        totals
    }

    fn operation(
        &mut self,
        (place, sequence): (usize, u64),
        arrivals: &[Arrival],
        totals: &mut GroupTotals,
    ) {
        let matching = self.matching;
        let group = &matching.groups[place];
        for one in arrivals {
            self.ranks[group.members[one.member].process.index()].count(one);
        }
        let Some(is_whole) = self.is_whole(group, arrivals, totals) else {
            return;
        };
        let shape = arrivals[0].shape();
        let operation = Operation::of(self.model.text(matching.shapes[shape].name));
        let charges = Matching::is_mutual(operation, arrivals) && arrivals.len() > 1;
        let instance = matching.instance(place, sequence, arrivals, charges);
        let (mut wait_ns, mut blame_ns) = (0, 0);
        // Collectives with a root divide the work of ranks as well, though not all wait for all.
        let is_rooted = operation == Operation::Rooted && !matching.mpi.is_empty();
        if charges || is_rooted && is_whole {
            wait_ns = self.compare(group, arrivals, &instance, charges);
            blame_ns = self.charge(group, arrivals, &instance, (charges, is_whole));
        }
        if matches!(group.lane, Lane::With(..)) {
            for one in arrivals {
                let rank = &mut self.ranks[group.members[one.member].process.index()];
                rank.message_wait_ns += one.duration_ns - instance.latency_min_ns;
            }
        }
        // What lacks ranks says nothing of how long the operation takes.
        if is_whole {
            let of_shape = self.shapes.entry((place, shape)).or_default();
            of_shape.add(&instance);
            of_shape.wait_ns += wait_ns;
            of_shape.blame_ns += blame_ns;
            self.largest.add(instance);
        }
    }

    /// Counts an operation: whether all its ranks have it, or `None` where it is not judged.
    fn is_whole(
        &self,
        group: &Group,
        arrivals: &[Arrival],
        totals: &mut GroupTotals,
    ) -> Option<bool> {
        let shape = &self.matching.shapes[arrivals[0].shape()];
        let ranks = match group.lane {
            Lane::Everyone => shape.ranks,
            Lane::With(..) => Some(2),
        };
        let members = group.members.len() as u64;
        let ranks = ranks.unwrap_or(members);
        totals.ranks = totals.ranks.max(ranks);
        // More ranks than the communicator has: which belong together is ambiguous.
        let is_crowded = arrivals.len() as u64 > ranks;
        if is_crowded || !self.matching.agree(arrivals, group.lane, self.model) {
            totals.contradictory += 1;
            return None;
        }
        // Ranks that are there waited for each other, whatever others did.
        let is_whole = arrivals.len() as u64 == ranks;
        totals.matched += u64::from(is_whole);
        totals.incomplete += u64::from(!is_whole);
        let has_others = self.is_all_here || members >= ranks;
        totals.uneven += u64::from(!is_whole && has_others);
        if arrivals.iter().any(|one| one.has(FUSED)) {
            totals.fused += 1;
            return None;
        }
        if arrivals.iter().any(|one| one.has(BY_CALL)) {
            // What the calls of MPI wait for that end it is followed by itself.
            let is_of_mpi = self.model.text(shape.name).starts_with("MPI_");
            totals.by_call += u64::from(!is_of_mpi);
            return None;
        }
        Some(is_whole)
    }

    /// Compares what each rank did before it came with what is usual. How long ranks waited for the last, together.
    fn compare(
        &mut self,
        group: &Group,
        arrivals: &[Arrival],
        instance: &Instance,
        charges: bool,
    ) -> u64 {
        let last_start = arrivals.iter().map(|one| one.start).max().unwrap_or(0);
        let is_on_one_host = group.is_on_one_host(arrivals);
        // Segments are of use only where all ranks have one.
        self.segments.clear();
        let segments = arrivals.iter().map_while(|one| one.segment_ns);
        self.segments.extend(segments);
        let is_known = self.segments.len() == arrivals.len();
        let median = lower_median(&mut self.segments).filter(|_| is_known);
        let mut sum_ns = 0;
        for one in arrivals {
            let rank = &mut self.ranks[group.members[one.member].process.index()];
            // Durations of several hosts need no clock that those have in common.
            let wait_ns = match is_on_one_host {
                _ if !charges => 0,
                true => (last_start - one.start).unsigned_abs(),
                false => one.duration_ns.saturating_sub(instance.latency_min_ns),
            };
            rank.wait_ns += wait_ns;
            sum_ns += wait_ns;
            let Some((median, segment)) = median.zip(one.segment_ns) else {
                continue;
            };
            rank.compared_ns += segment;
            let late_ns = segment.saturating_sub(median);
            if late_ns > 0 {
                rank.add_late(LateArrival {
                    late_ns,
                    group: instance.group,
                    sequence: instance.sequence,
                });
            }
            if instance.group == self.map.group {
                self.map
                    .add(one.member, instance.sequence, segment, late_ns);
            }
        }
        sum_ns
    }

    /// Charges the rank that came last: by how much it made the others wait.
    fn charge(
        &mut self,
        group: &Group,
        arrivals: &[Arrival],
        instance: &Instance,
        (charges, is_whole): (bool, bool),
    ) -> u64 {
        let last = &mut self.ranks[instance.last.index()];
        if !charges {
            last.last += u64::from(instance.is_certain());
            return 0;
        }
        if instance.is_certain() {
            // Who is not in the traces may have come later.
            last.last += u64::from(is_whole);
            last.charge(instance.late_ns, instance.blame_ns);
            return instance.blame_ns;
        }
        match last_by_duration(arrivals).filter(|_| !group.is_on_one_host(arrivals)) {
            Some((last, late_ns, blame_ns)) => {
                self.ranks[group.members[last].process.index()].charge(late_ns, blame_ns);
                blame_ns
            }
            None => 0,
        }
    }
}

/// The instances with the largest skews.
#[derive(Default)]
struct LargestSkews {
    /// The smallest of them on top.
    order: BinaryHeap<Reverse<Skewed>>,
    kept: BTreeMap<(usize, u64), Instance>,
}

/// Skew, communicator and number of an operation: of equal skews the first one counts as the largest.
type Skewed = (u64, Reverse<usize>, Reverse<u64>);

impl LargestSkews {
    fn add(&mut self, instance: Instance) {
        let (group, sequence) = (instance.group, instance.sequence);
        let skewed = (instance.start_skew_ns, Reverse(group), Reverse(sequence));
        self.order.push(Reverse(skewed));
        self.kept.insert((group, sequence), instance);
        if self.order.len() > INSTANCES
            && let Some(Reverse((_, Reverse(group), Reverse(sequence)))) = self.order.pop()
        {
            self.kept.remove(&(group, sequence));
        }
    }

    /// The largest first.
    fn in_order(self) -> Vec<Instance> {
        let mut instances: Vec<Instance> = self.kept.into_values().collect();
        instances.sort_by_key(|one| (Reverse(one.start_skew_ns), one.group, one.sequence));
        instances
    }
}

/// The rank that came last to a collective, by durations alone, which need no common clock: the last rank does not wait, so its duration is the shortest. Its place among the
/// members, by how much the next took longer, and how much of that is its own.
fn last_by_duration(arrivals: &[Arrival]) -> Option<(usize, u64, u64)> {
    let mut by_duration: Vec<&Arrival> = arrivals.iter().collect();
    by_duration.sort_unstable_by_key(|one| (one.duration_ns, one.member));
    let [last, next, ..] = by_duration[..] else {
        return None;
    };
    let late_ns = next.duration_ns - last.duration_ns;
    let own_ns = last.segment_ns?.saturating_sub(next.segment_ns?);
    Some((last.member, late_ns, own_ns.min(late_ns)))
}

/// Whether ranks end an operation of this name together.
pub(super) fn ends_tell(name: &str) -> bool {
    let operation = Operation::of(name);
    operation.is_mutual() || operation == Operation::Any
}

/// Whether each rank of the job has a process.
fn has_all_ranks(model: &Model) -> bool {
    let processes = model.processes.iter();
    let count = processes.clone().filter_map(|one| one.rank_count).max();
    let ranks: BTreeSet<u64> = processes.filter_map(|one| one.rank).collect();
    count.is_some_and(|count| ranks.len() as u64 >= count)
}
