//! Operations matched over ranks: who came last, by how much, and whose fault that was.
//!
//! What a rank is charged with is not when it came but what it did: the time from the end of its collective before to its arrival, its *segment*, compared
//! with the segments of the others for the same operation. That needs no clock that ranks have in common, and a rank that was late because it had
//! waited for another in some other communicator is not charged with that.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::path::Path;

use super::clocks::{Clocks, HostClock};
use super::gathering::Gathering;
use super::joining::{BY_CALL, FUSED, Lane, Member, Operations};
use super::map::Map;
use super::recordings::recordings;
use super::records::{Conduct, Group, GroupTotals, Instance, Late, Part, Rows, ShapeTotals, Study};
use crate::measure::job::mpi;
use crate::measure::job::operation::Operation;
use crate::measure::job::ranks::lower_median;
use rsys_traces::model::{Model, ProcessId, TextId};
use rsys_traces::perfetto::host_clocks::Shared;

/// Instances by which clocks are compared, of all hosts together.
const COMPARED: usize = 1 << 20;
/// Instances that are kept with all their numbers: those with the largest skew.
const INSTANCES: usize = 1000;

/// What ranks wait for together ends on all of them within this time.
const TOGETHER_NS: i64 = 20_000;

/// The most files of other processes that are read for the sensors of a rank's GPU.
const BESIDE: usize = 4;

/// An operation on one rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) part: usize,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) start_ns: u64,
    duration_ns: u64,
    pub(super) segment_ns: Option<u64>,
    pub(super) info: u64,
}

impl Study {
    /// Matches what was read.
    pub(super) fn new(mut gathering: Gathering, model: &Model) -> Self {
        let copied = gathering.copied();
        let recordings = recordings(&gathering, &copied, model);
        let grain_ns = match gathering.tick_ns {
            0 | 1 => 0,
            tick_ns => tick_ns,
        };
        let mut study = Self {
            groups: Vec::new(),
            clocks: Clocks {
                grain_ns,
                ..Clocks::default()
            },
            conduct: BTreeMap::new(),
            shapes: gathering.shapes,
            totals: BTreeMap::new(),
            instances: Vec::new(),
            map: Map::default(),
            nameless: 0,
            strangers: 0,
            mpi: mpi::Job::default(),
            without_mpi: gathering.without_mpi,
            visited: Cell::new(0),
            hosts: HashMap::new(),
        };
        let mut order: Vec<ProcessId> =
            (0..gathering.processes.len()).map(ProcessId::new).collect();
        order.sort_by_key(|&id| model.process(id).order());
        let mut hosts: HashMap<&str, usize> = HashMap::new();
        let mut places: BTreeMap<(TextId, &str, usize, Option<Pair>), usize> = BTreeMap::new();
        let (mut of_mpi, mut folders) = (Vec::new(), HashMap::new());
        for id in order {
            let gathered = std::mem::take(&mut gathering.processes[id.index()]);
            study.nameless += gathered.nameless;
            study.strangers += gathered.strangers;
            if gathered.members.is_empty() && gathered.mpi.is_empty() {
                continue;
            }
            let process = model.process(id);
            let key = host_key(process);
            let host = *hosts.entry(key).or_insert_with(|| {
                study.clocks.hosts.push(HostClock {
                    name: process.host.clone(),
                    ..HostClock::default()
                });
                study.clocks.hosts.len() - 1
            });
            study.clocks.hosts[host]
                .wall_clock
                .points
                .extend(&process.wall_clock);
            let folder = match copied.is_empty() {
                true => 0,
                false => {
                    let next = folders.len();
                    *folders.entry(folder_of(&process.file)).or_insert(next)
                }
            };
            of_mpi.push(mpi::OfProcess {
                process: id,
                host,
                folder,
                calls: gathered.mpi,
            });
            let mut members = gathered.members;
            members.sort_by_key(|(member, _)| member.order(model));
            for (member, rows) in members {
                let pair = member.pair(model);
                let folder = match copied.contains(&member.communicator) {
                    true => folder_of(&process.file),
                    false => "",
                };
                let recording = recordings.get(&(id, member.communicator));
                let recording = recording.copied().unwrap_or(0);
                let groups = &mut study.groups;
                let place = *places
                    .entry((member.communicator, folder, recording, pair))
                    .or_insert_with(|| {
                        groups.push(Group {
                            communicator: model.text(member.communicator).to_owned(),
                            lane: member.lane,
                            parts: Vec::new(),
                            totals: GroupTotals::default(),
                        });
                        groups.len() - 1
                    });
                study.groups[place].parts.push(Part {
                    process: id,
                    host,
                    rank: member.rank,
                    rows,
                });
            }
        }
        study.hosts = hosts
            .into_iter()
            .map(|(key, host)| (key.to_owned(), host))
            .collect();
        for host in &mut study.clocks.hosts {
            host.wall_clock.settle();
        }
        if study.clocks.hosts.len() > 1 {
            let shared = study.shared(model);
            study.clocks.refine(shared);
        } else {
            study.clocks.refine(Vec::new());
        }
        let hosts = &mut study.clocks.hosts;
        study.mpi = mpi::Job::new(of_mpi, |host, time_ns| hosts[host].common(time_ns));
        let is_known = hosts.iter().map(|host| host.uncertainty_ns.is_some());
        let is_known: Vec<bool> = is_known.collect();
        for correction in study.mpi.corrections(&is_known) {
            let host = &mut hosts[correction.host];
            host.corrections = correction.points;
            host.uncertainty_ns = Some(correction.uncertainty_ns);
        }
        let clocks = &study.clocks;
        study.mpi.find_waits(
            |host, time_ns| clocks.hosts[host].common(time_ns),
            |one, other| clocks.uncertainty_ns(one, other),
        );
        study.judge(model);
        study
    }

    /// Collectives that ran on several hosts, as many as are enough.
    fn shared(&self, model: &Model) -> Vec<Shared> {
        let lengths = self.groups.iter().map(|group| {
            let lengths = group.parts.iter().map(|part| part.rows.len());
            lengths.max().unwrap_or(0)
        });
        let most = (COMPARED / self.clocks.hosts.len()).max(1);
        let stride = lengths.sum::<usize>().div_ceil(most).max(1) as u64;
        let mut found = Vec::new();
        let grain_ns = self.clocks.grain_ns;
        for (place, group) in self.groups.iter().enumerate() {
            self.each(place, |sequence, arrivals| {
                let is_mutual = arrivals.first().is_some_and(|first| {
                    let shape = &self.shapes[(first.info >> 2) as usize];
                    Operation::of(model.text(shape.name)).is_mutual()
                });
                let is_timed = arrivals.iter().all(|one| one.info & BY_CALL == 0);
                if sequence % stride != 0 || !is_mutual || !is_timed {
                    return;
                }
                let mut spans = Shared::new();
                for one in arrivals {
                    let clock = &self.clocks.hosts[group.parts[one.part].host];
                    let start = clock.wall(one.start_ns);
                    // A time that was rounded may stand for a later one.
                    let end = clock.wall(one.start_ns + one.duration_ns + grain_ns);
                    let span = spans.entry(group.parts[one.part].host);
                    let span = span.or_insert((start, end));
                    *span = (span.0.max(start), span.1.min(end));
                }
                if spans.len() > 1 {
                    found.push(spans);
                }
            });
        }
        found
    }

    /// Shows the operations of a communicator, one number after the other, with what each rank has of it.
    pub(super) fn each(&self, place: usize, mut take: impl FnMut(u64, &[Arrival])) {
        let group = &self.groups[place];
        let rows = group.parts.iter().map(|part| part.rows.iter().peekable());
        let mut rows: Vec<_> = rows.collect();
        let mut arrivals: Vec<Arrival> = Vec::with_capacity(rows.len());
        let mut next = rows
            .iter_mut()
            .filter_map(|rows| rows.peek().map(|row| row[0]))
            .min();
        while let Some(sequence) = next {
            arrivals.clear();
            next = None;
            for (part, rows) in rows.iter_mut().enumerate() {
                let clock = &self.clocks.hosts[group.parts[part].host];
                while let Some([_, start_ns, duration_ns, segment, info]) =
                    rows.next_if(|row| row[0] == sequence)
                {
                    let segment_ns = segment.checked_sub(1).map(|ns| {
                        let waits = self.mpi.ranks().get(&group.parts[part].process);
                        // What it waited for others in messages is not its own.
                        ns - waits.map_or(0, |rank| rank.waited_ns((start_ns - ns, start_ns)))
                    });
                    arrivals.push(Arrival {
                        part,
                        start: clock.common(start_ns),
                        end: clock.common(start_ns + duration_ns),
                        start_ns,
                        duration_ns,
                        segment_ns,
                        info,
                    });
                }
                if let Some(row) = rows.peek() {
                    next = Some(next.map_or(row[0], |next: u64| next.min(row[0])));
                }
            }
            let visited = self.visited.get() + arrivals.len() as u64;
            self.visited.set(visited);
            take(sequence, &arrivals);
        }
        group.parts.iter().for_each(|part| part.rows.forget_chunk());
    }

    /// Files of other processes of a rank's machine that have no collectives, such as the shell that started it; first those of its rank, then the oldest.
    pub(super) fn beside<'a>(&self, process: ProcessId, model: &'a Model) -> Vec<&'a str> {
        let own = model.process(process);
        let all = (0..model.processes.len()).map(ProcessId::new);
        let mut beside: Vec<_> = all
            .filter(|id| !self.conduct.contains_key(id))
            .map(|id| model.process(id))
            .filter(|one| host_key(one) == host_key(own) && one.file != own.file)
            .map(|one| (one.rank != own.rank, one.start_ns, one.file.as_str()))
            .collect();
        beside.sort_unstable();
        beside.truncate(BESIDE);
        beside.into_iter().map(|(_, _, file)| file).collect()
    }

    /// Judges every operation.
    fn judge(&mut self, model: &Model) {
        let mut largest: BinaryHeap<Reverse<Skewed>> = BinaryHeap::new();
        let mut kept: BTreeMap<(usize, u64), Instance> = BTreeMap::new();
        // At the places of the processes.
        let mut conducts: Vec<Conduct> = Vec::new();
        conducts.resize_with(model.processes.len(), Conduct::default);
        let mut totals: BTreeMap<(usize, usize), ShapeTotals> = BTreeMap::new();
        let mut map = Map::new(self);
        let is_all_here = has_all_ranks(model);
        for place in 0..self.groups.len() {
            let group = &self.groups[place];
            let parts = &group.parts;
            let mut of_group = GroupTotals::default();
            let mut segments = Vec::new();
            self.each(place, |sequence, arrivals| {
                for one in arrivals {
                    let conduct = &mut conducts[parts[one.part].process.index()];
                    conduct.operations += 1;
                    let end_ns = one.start_ns + one.duration_ns;
                    let span = conduct.span.get_or_insert((one.start_ns, end_ns));
                    *span = (span.0.min(one.start_ns), span.1.max(end_ns));
                }
                let shape = (arrivals[0].info >> 2) as usize;
                let ranks = match group.lane {
                    Lane::Everyone => self.shapes[shape].ranks,
                    Lane::With(..) => Some(2),
                };
                let ranks = ranks.unwrap_or(parts.len() as u64);
                of_group.ranks = of_group.ranks.max(ranks);
                // More ranks than the communicator has: which belong together is ambiguous.
                let is_crowded = arrivals.len() as u64 > ranks;
                if is_crowded || !self.agree(arrivals, group.lane, model) {
                    of_group.contradictory += 1;
                    return;
                }
                // Ranks that are there waited for each other, whatever others did.
                let is_whole = arrivals.len() as u64 == ranks;
                let whole = u64::from(is_whole);
                of_group.matched += whole;
                of_group.incomplete += 1 - whole;
                let has_others = is_all_here || parts.len() as u64 >= ranks;
                of_group.uneven += u64::from(!is_whole && has_others);
                if arrivals.iter().any(|one| one.info & FUSED != 0) {
                    of_group.fused += 1;
                    return;
                }
                let name = model.text(self.shapes[shape].name);
                if arrivals.iter().any(|one| one.info & BY_CALL != 0) {
                    // What the calls of MPI wait for that end it is followed by itself.
                    if name.starts_with("MPI_") {
                        return;
                    }
                    of_group.by_call += 1;
                    return;
                }
                let operation = Operation::of(model.text(self.shapes[shape].name));
                let charges = Self::is_mutual(operation, arrivals) && arrivals.len() > 1;
                let instance = self.instance(place, sequence, arrivals, charges);
                // What lacks ranks says nothing of how long the operation takes.
                let mut apart = ShapeTotals::default();
                let total = match is_whole {
                    true => totals.entry((place, shape)).or_default(),
                    false => &mut apart,
                };
                total.add(&instance);
                let last_start = arrivals.iter().map(|one| one.start).max().unwrap_or(0);
                let host = parts[arrivals[0].part].host;
                let is_on_one_host = arrivals.iter().all(|one| parts[one.part].host == host);
                // Collectives with a root divide the work of ranks as well, though not all wait for all.
                let is_rooted = operation == Operation::Rooted && !self.mpi.is_empty();
                if charges || is_rooted && is_whole {
                    // Segments are of use only where all ranks have one.
                    segments.clear();
                    segments.extend(arrivals.iter().map_while(|one| one.segment_ns));
                    let is_known = segments.len() == arrivals.len();
                    let median = lower_median(&mut segments);
                    for one in arrivals {
                        let conduct = &mut conducts[parts[one.part].process.index()];
                        // Durations of several hosts need no clock that those have in common.
                        let wait_ns = match is_on_one_host {
                            _ if !charges => 0,
                            true => (last_start - one.start).unsigned_abs(),
                            false => one.duration_ns.saturating_sub(instance.latency_min_ns),
                        };
                        conduct.wait_ns += wait_ns;
                        total.wait_ns += wait_ns;
                        let known = median.zip(one.segment_ns).filter(|_| is_known);
                        let Some((median, segment)) = known else {
                            continue;
                        };
                        conduct.compared_ns += segment;
                        let late_ns = segment.saturating_sub(median);
                        if late_ns > 0 {
                            conduct.late(Late {
                                late_ns,
                                group: place,
                                sequence,
                            });
                        }
                        if place == map.group {
                            map.add(one.part, sequence, segment, late_ns);
                        }
                    }
                    if !charges {
                        let is_certain = instance.is_certain();
                        conducts[instance.last.index()].last += u64::from(is_certain);
                    } else if instance.is_certain() {
                        let conduct = &mut conducts[instance.last.index()];
                        // Who is not in the traces may have come later.
                        conduct.last += whole;
                        conduct.charge(instance.late_ns, instance.blame_ns);
                        total.blame_ns += instance.blame_ns;
                    } else if let Some((last, late_ns, blame_ns)) = last_by_duration(arrivals)
                        && !is_on_one_host
                    {
                        conducts[parts[last].process.index()].charge(late_ns, blame_ns);
                        total.blame_ns += blame_ns;
                    }
                }
                if matches!(group.lane, Lane::With(..)) {
                    for one in arrivals {
                        let conduct = &mut conducts[parts[one.part].process.index()];
                        conduct.message_wait_ns += one.duration_ns - instance.latency_min_ns;
                    }
                }
                if !is_whole {
                    return;
                }
                largest.push(Reverse((
                    instance.start_skew_ns,
                    Reverse(place),
                    Reverse(sequence),
                )));
                kept.insert((place, sequence), instance);
                if largest.len() > INSTANCES
                    && let Some(Reverse((_, Reverse(place), Reverse(sequence)))) = largest.pop()
                {
                    kept.remove(&(place, sequence));
                }
            });
            self.groups[place].totals = of_group;
        }
        for (id, rank) in self.mpi.ranks() {
            conducts[id.index()].add_mpi(rank);
        }
        self.instances = kept.into_values().collect();
        self.instances
            .sort_by_key(|one| (Reverse(one.start_skew_ns), one.group, one.sequence));
        let ids = (0..).map(ProcessId::new);
        let took_part = |(_, conduct): &(ProcessId, Conduct)| conduct.operations > 0;
        self.conduct = ids.zip(conducts).filter(took_part).collect();
        self.totals = totals;
        self.map = map;
    }

    /// Whether what the ranks have under one number is one operation: each of them has it once, and all tell the same.
    pub(super) fn agree(&self, arrivals: &[Arrival], lane: Lane, model: &Model) -> bool {
        let is_once = arrivals.windows(2).all(|pair| pair[0].part != pair[1].part);
        let first = &self.shapes[(arrivals[0].info >> 2) as usize];
        let same = arrivals.iter().all(|one| {
            let shape = &self.shapes[(one.info >> 2) as usize];
            let varies = Operation::of(model.text(shape.name)) == Operation::AllToAllV;
            shape.data_type == first.data_type
                && (shape.bytes == first.bytes || varies)
                && (shape.name == first.name || matches!(lane, Lane::With(..)))
                && shape.ranks == first.ranks
        });
        is_once && same
    }

    /// Whether no rank could end an operation before all had begun it. One of which the order alone is known may be messages between some ranks: then not all end together.
    pub(super) fn is_mutual(operation: Operation, arrivals: &[Arrival]) -> bool {
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
        let parts = &self.groups[group].parts;
        let (mut last, mut next): (&Arrival, Option<&Arrival>) = (&arrivals[0], None);
        for one in &arrivals[1..] {
            if one.start > last.start {
                (last, next) = (one, Some(last));
            } else if next.is_none_or(|next| one.start > next.start) {
                next = Some(one);
            }
        }
        let first_start = arrivals.iter().map(|one| one.start).min().unwrap_or(0);
        let first_end = arrivals.iter().map(|one| one.end).min().unwrap_or(0);
        let last_end = arrivals.iter().map(|one| one.end).max().unwrap_or(0);
        let late_ns = next.map_or(0, |next| (last.start - next.start).unsigned_abs());
        let own = |next: &Arrival| Some(last.segment_ns?.saturating_sub(next.segment_ns?));
        // In front of the first collective nothing is known: ranks start when they are started.
        let blame_ns = next.and_then(own).unwrap_or(0).min(late_ns);
        let host = |one: &Arrival| parts[one.part].host;
        Instance {
            start_skew_ns: (last.start - first_start).unsigned_abs(),
            group,
            sequence,
            shape: (arrivals[0].info >> 2) as usize,
            end_skew_ns: (last_end - first_end).unsigned_abs(),
            latency_min_ns: arrivals
                .iter()
                .map(|one| one.duration_ns)
                .min()
                .unwrap_or(0),
            latency_last_ns: (last_end - first_start).max(0).unsigned_abs(),
            start_ns: last.start_ns,
            last: parts[last.part].process,
            late_ns,
            blame_ns: if charges { blame_ns } else { 0 },
            uncertainty_ns: next
                .and_then(|next| self.clocks.uncertainty_ns(host(last), host(next))),
        }
    }
}

impl Lane {
    fn order(self, model: &Model) -> Option<(u64, &str)> {
        match self {
            Self::Everyone => None,
            Self::With(peer, name) => Some((peer, model.text(name))),
        }
    }
}

impl Member {
    /// Where it stands among the members of a process.
    pub(super) fn order<'a>(
        &self,
        model: &'a Model,
    ) -> (&'a str, Option<u64>, Option<(u64, &'a str)>) {
        let communicator = model.text(self.communicator);
        (communicator, self.rank, self.lane.order(model))
    }

    /// For messages: who sends, who receives, and nothing that the two sides tell differently.
    fn pair(&self, model: &Model) -> Option<Pair> {
        let Lane::With(peer, name) = self.lane else {
            return None;
        };
        let own = self.rank.unwrap_or(u64::MAX);
        Some(match Operation::of(model.text(name)) {
            Operation::Receive => (peer, own, String::new()),
            Operation::Send => (own, peer, String::new()),
            // Not understood: never matched with anything.
            _ => (own, peer, model.text(name).to_owned()),
        })
    }
}

/// Who sends, who receives, and what is not understood.
type Pair = (u64, u64, String);

/// Skew, communicator and number of an operation: of equal skews the first one counts as the largest.
type Skewed = (u64, Reverse<usize>, Reverse<u64>);

/// The rank that came last to a collective, by durations alone, which need no common clock: the last rank does not wait, so its duration is the shortest. Its place among the
/// parts, by how much the next took longer, and how much of that is its own.
fn last_by_duration(arrivals: &[Arrival]) -> Option<(usize, u64, u64)> {
    let mut by_duration: Vec<&Arrival> = arrivals.iter().collect();
    by_duration.sort_unstable_by_key(|one| (one.duration_ns, one.part));
    let [last, next, ..] = by_duration[..] else {
        return None;
    };
    let late_ns = next.duration_ns - last.duration_ns;
    let own_ns = last.segment_ns?.saturating_sub(next.segment_ns?);
    Some((last.part, late_ns, own_ns.min(late_ns)))
}

/// Whether each rank of the job has a process.
fn has_all_ranks(model: &Model) -> bool {
    let processes = model.processes.iter();
    let count = processes.clone().filter_map(|one| one.rank_count).max();
    let ranks: BTreeSet<u64> = processes.filter_map(|one| one.rank).collect();
    count.is_some_and(|count| ranks.len() as u64 >= count)
}

/// The folder of a file.
pub(super) fn folder_of(file: &str) -> &str {
    let folder = Path::new(file).parent().and_then(Path::to_str);
    folder.unwrap_or("")
}

/// What tells hosts apart: clocks of one boot are one clock.
pub(super) fn host_key(process: &rsys_traces::model::Process) -> &str {
    let keys = [&process.boot_id, &process.host, &process.file];
    keys.into_iter()
        .find(|key| !key.is_empty())
        .map_or("", String::as_str)
}

/// The operations of a process in order of their numbers, each with the time from the end of the one before it to its begin; `renamed` changes shapes and flags.
pub(super) fn with_segments(
    members: Vec<(Member, Operations)>,
    renamed: impl Fn(u64) -> u64,
) -> Vec<(Member, Rows)> {
    let mut all: Vec<(u64, u64, usize, u64, u64)> = Vec::new();
    let mut names = Vec::new();
    for (place, (member, mut operations)) in members.into_iter().enumerate() {
        operations.rows.sort();
        let rows = operations.rows.iter();
        all.extend(
            rows.map(|[sequence, start, duration, info]| (start, duration, place, sequence, info)),
        );
        names.push(member);
    }
    all.sort_unstable();
    let mut found: Vec<Rows> = names.iter().map(|_| Rows::default()).collect();
    let mut running: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut before: Option<u64> = None;
    for (start_ns, duration_ns, place, sequence, info) in all {
        while let Some(&Reverse(end_ns)) = running.peek()
            && end_ns <= start_ns
        {
            before = Some(end_ns);
            running.pop();
        }
        running.push(Reverse(start_ns + duration_ns));
        let segment = before.map_or(0, |before| start_ns - before + 1);
        found[place].push([sequence, start_ns, duration_ns, segment, renamed(info)]);
    }
    found.iter_mut().for_each(Rows::sort);
    names.into_iter().zip(found).collect()
}
