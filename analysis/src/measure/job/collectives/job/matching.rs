//! Operations matched over ranks, by communicator and number, on one axis of time.
//!
//! What a rank is charged with is not when it came but what it did: the time from the end of its collective before to its arrival, its *segment*, compared
//! with the segments of the others for the same operation. That needs no clock that ranks have in common, and a rank that was late because it had
//! waited for another in some other communicator is not charged with that.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::clocks::HostClock;
use super::gathering::Gathering;
use super::identity::{folder_of, folder_of_member, host_key, is_of_unknown_host};
use super::recordings::recordings;
use super::records::{Arrival, Group, GroupMember, GroupTotals, Matching};
use crate::measure::job::collectives::read::operations::{BY_CALL, Pair};
use crate::measure::job::mpi;
use crate::measure::job::operation::Operation;
use rsys_traces::model::{Model, Process, ProcessId, TextId};
use rsys_traces::perfetto::host_clocks::Shared;

/// Instances by which clocks are compared, of all hosts together.
const COMPARED: usize = 1 << 20;
/// Clocks differ where one in so many collectives at least cannot be of one, by more than times of GPUs are off.
const APART: u64 = 10;
const MARGIN_NS: u64 = 50_000;
/// The most files of other processes that are read for the sensors of a rank's GPU.
const BESIDE: usize = 4;

impl Matching {
    /// Matches what was read.
    pub(crate) fn new(mut gathering: Gathering, model: &Model) -> Self {
        let mut matching = Self {
            shapes: std::mem::take(&mut gathering.shapes),
            without_mpi: gathering.without_mpi,
            ..Self::default()
        };
        // A tick of one nanosecond: times are exact.
        if gathering.tick_ns > 1 {
            matching.clocks.grain_ns = gathering.tick_ns;
        }
        let mut calls = matching.gather(gathering, model);
        matching.tell_orders_apart(model);
        matching.tell_clocks_apart(&mut calls, model);
        matching.align(calls, model);
        matching.judge(model);
        matching
    }

    /// Puts the operations of all ranks into their communicators. The calls of MPI are given back.
    fn gather(&mut self, mut gathering: Gathering, model: &Model) -> Vec<mpi::PlacedCalls> {
        let copied = gathering.copied();
        let recordings = recordings(&gathering, &copied, model);
        let mut order: Vec<ProcessId> =
            (0..gathering.processes.len()).map(ProcessId::new).collect();
        order.sort_by_key(|&id| model.process(id).order());
        let mut places: BTreeMap<(TextId, &str, usize, Option<Pair>), usize> = BTreeMap::new();
        let (mut of_mpi, mut folders) = (Vec::new(), HashMap::new());
        for id in order {
            let gathered = std::mem::take(&mut gathering.processes[id.index()]);
            self.unidentified += gathered.unidentified;
            self.unmatched_kernels += gathered.unmatched_kernels;
            if gathered.members.is_empty() && gathered.mpi.is_empty() {
                continue;
            }
            let process = model.process(id);
            let host = self.host_of(process);
            let folder = match copied.is_empty() {
                true => 0,
                false => {
                    let next = folders.len();
                    *folders.entry(folder_of(&process.file)).or_insert(next)
                }
            };
            of_mpi.push(mpi::PlacedCalls {
                process: id,
                host,
                folder,
                calls: gathered.mpi,
            });
            let mut members = gathered.members;
            members.sort_by_key(|(member, _)| member.order(model));
            for (member, rows) in members {
                let folder = match copied.contains(&member.communicator) {
                    true => folder_of_member(&member, process, model),
                    false => "",
                };
                let recording = recordings.get(&(id, member.communicator));
                let recording = recording.copied().unwrap_or(0);
                let key = (member.communicator, folder, recording, member.pair(model));
                let place = *places.entry(key).or_insert_with(|| {
                    self.groups.push(Group {
                        communicator: model.text(member.communicator).to_owned(),
                        lane: member.lane,
                        members: Vec::new(),
                        totals: GroupTotals::default(),
                    });
                    self.groups.len() - 1
                });
                self.groups[place].members.push(GroupMember {
                    process: id,
                    host,
                    rank: member.rank,
                    rows,
                });
            }
        }
        of_mpi
    }

    /// The clock of a process' host, which takes in what the process knows of the wall clock.
    fn host_of(&mut self, process: &Process) -> usize {
        let key = host_key(process);
        let host = match self.hosts.get(key) {
            Some(host) => *host,
            None => {
                self.clocks.hosts.push(HostClock {
                    name: process.host.clone(),
                    ..HostClock::default()
                });
                let host = self.clocks.hosts.len() - 1;
                self.hosts.insert(key.to_owned(), host);
                host
            }
        };
        let points = &mut self.clocks.hosts[host].wall_clock.points;
        points.extend(&process.wall_clock);
        host
    }

    /// Ranks of a file that was put together of those of several hosts are taken to have one clock, unless their collectives say otherwise: nobody ends one before all
    /// have begun it.
    fn tell_clocks_apart(&mut self, calls: &mut [mpi::PlacedCalls], model: &Model) {
        let mut found: BTreeMap<usize, [u64; 2]> = BTreeMap::new();
        for (place, group) in self.groups.iter().enumerate() {
            let mut members = group.members.iter();
            let mut hosts = BTreeSet::new();
            let is_several = members.any(|member| {
                is_of_unknown_host(model.process(member.process)) && !hosts.insert(member.host)
            });
            if !is_several {
                continue;
            }
            self.each(place, |_, arrivals| {
                if !self.tells_clocks(arrivals, model) {
                    return;
                }
                // Of each host the last begin and the first end, with their processes: the GPUs of one have its clock.
                let mut spans: BTreeMap<usize, [(u64, ProcessId); 2]> = BTreeMap::new();
                let mut several: BTreeMap<usize, BTreeSet<ProcessId>> = BTreeMap::new();
                for one in arrivals {
                    let member = &group.members[one.member];
                    if is_of_unknown_host(model.process(member.process)) {
                        let end_ns = one.start_ns + one.duration_ns + self.clocks.grain_ns;
                        let ends = [(one.start_ns, member.process), (end_ns, member.process)];
                        several
                            .entry(member.host)
                            .or_default()
                            .insert(member.process);
                        let [begin, end] = spans.entry(member.host).or_insert(ends);
                        *begin = ends[0].max(*begin);
                        *end = ends[1].min(*end);
                    }
                }
                for (host, [begin, end]) in spans {
                    let [apart, all] = found.entry(host).or_default();
                    *all += u64::from(several[&host].len() > 1);
                    let is_apart = begin.1 != end.1 && begin.0 > end.0 + MARGIN_NS;
                    *apart += u64::from(is_apart);
                }
            });
        }
        // One alone may be matched with another.
        let apart = found
            .iter()
            .filter(|(_, [apart, all])| *apart > 0 && APART * apart >= *all);
        let apart: BTreeSet<usize> = apart.map(|(host, _)| *host).collect();
        if apart.is_empty() {
            return;
        }
        let members = self.groups.iter_mut().flat_map(|group| &mut group.members);
        let members = members.map(|one| (one.process, &mut one.host));
        let calls = calls.iter_mut().map(|one| (one.process, &mut one.host));
        let mut firsts: HashMap<usize, ProcessId> = HashMap::new();
        for (process, host) in members.chain(calls) {
            if !apart.contains(host) {
                continue;
            }
            let about = model.process(process);
            self.put_together.insert(about.file.clone());
            if *firsts.entry(*host).or_insert(process) != process {
                let clocks = &mut self.clocks.hosts;
                *host = *self.own_clocks.entry(process).or_insert_with(|| {
                    clocks.push(HostClock {
                        name: about
                            .rank
                            .map_or_else(String::new, |rank| format!("rank {rank}")),
                        ..HostClock::default()
                    });
                    clocks.len() - 1
                });
            }
        }
    }

    /// Whether all who take part in an operation have to be there together, and their times are those of its work.
    fn tells_clocks(&self, arrivals: &[Arrival], model: &Model) -> bool {
        let is_mutual = arrivals.first().is_some_and(|first| {
            let shape = &self.shapes[first.shape()];
            Operation::of(model.text(shape.name)).is_mutual()
        });
        is_mutual && !arrivals.iter().any(|one| one.has(BY_CALL))
    }

    /// Finds the axis that all hosts have in common, by collectives and then by messages, and matches the calls of MPI on it.
    fn align(&mut self, calls: Vec<mpi::PlacedCalls>, model: &Model) {
        for host in &mut self.clocks.hosts {
            host.wall_clock.settle();
        }
        let shared = match self.clocks.hosts.len() {
            0 | 1 => Vec::new(),
            _ => self.shared(model),
        };
        self.clocks.refine(shared);
        let hosts = &mut self.clocks.hosts;
        self.mpi = mpi::Job::new(calls, |host, time_ns| hosts[host].common(time_ns));
        let is_known = hosts.iter().map(|host| host.uncertainty_ns.is_some());
        let is_known: Vec<bool> = is_known.collect();
        for correction in self.mpi.corrections(&is_known) {
            let host = &mut hosts[correction.host];
            host.corrections = correction.points;
            host.uncertainty_ns = Some(correction.uncertainty_ns);
        }
        let clocks = &self.clocks;
        self.mpi.find_waits(
            |host, time_ns| clocks.hosts[host].common(time_ns),
            |one, other| clocks.uncertainty_ns(one, other),
        );
    }

    /// Collectives that ran on several hosts, as many as are enough.
    fn shared(&self, model: &Model) -> Vec<Shared> {
        let lengths = self.groups.iter().map(|group| {
            let lengths = group.members.iter().map(|member| member.rows.len());
            lengths.max().unwrap_or(0)
        });
        let most = (COMPARED / self.clocks.hosts.len()).max(1);
        let stride = lengths.sum::<usize>().div_ceil(most).max(1) as u64;
        let mut found = Vec::new();
        let grain_ns = self.clocks.grain_ns;
        for (place, group) in self.groups.iter().enumerate() {
            self.each(place, |sequence, arrivals| {
                if sequence % stride != 0 || !self.tells_clocks(arrivals, model) {
                    return;
                }
                let mut spans = Shared::new();
                for one in arrivals {
                    let clock = &self.clocks.hosts[group.members[one.member].host];
                    let start = clock.wall(one.start_ns);
                    // A time that was rounded may stand for a later one.
                    let end = clock.wall(one.start_ns + one.duration_ns + grain_ns);
                    let span = spans.entry(group.members[one.member].host);
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
    pub(crate) fn each(&self, place: usize, mut take: impl FnMut(u64, &[Arrival])) {
        let group = &self.groups[place];
        let rows = group
            .members
            .iter()
            .map(|member| member.rows.iter().peekable());
        let mut rows: Vec<_> = rows.collect();
        let mut arrivals: Vec<Arrival> = Vec::with_capacity(rows.len());
        let mut next = rows
            .iter_mut()
            .filter_map(|rows| rows.peek().map(|row| row[0]))
            .min();
        while let Some(sequence) = next {
            arrivals.clear();
            next = None;
            for (member, rows) in rows.iter_mut().enumerate() {
                let clock = &self.clocks.hosts[group.members[member].host];
                while let Some([_, start_ns, duration_ns, segment, info]) =
                    rows.next_if(|row| row[0] == sequence)
                {
                    let segment_ns = segment.checked_sub(1).map(|ns| {
                        let waits = self.mpi.ranks().get(&group.members[member].process);
                        // What it waited for others in messages is not its own.
                        ns - waits.map_or(0, |rank| rank.waited_ns((start_ns - ns, start_ns)))
                    });
                    arrivals.push(Arrival {
                        member,
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
        group
            .members
            .iter()
            .for_each(|member| member.rows.forget_chunk());
    }

    /// Files of other processes of a rank's machine that have no collectives, such as the shell that started it; first those of its rank, then the oldest.
    pub(crate) fn beside<'a>(&self, process: ProcessId, model: &'a Model) -> Vec<&'a str> {
        let own = model.process(process);
        let all = (0..model.processes.len()).map(ProcessId::new);
        let mut beside: Vec<_> = all
            .filter(|id| !self.rank_totals.contains_key(id))
            .map(|id| model.process(id))
            .filter(|one| host_key(one) == host_key(own) && one.file != own.file)
            .map(|one| (one.rank != own.rank, one.start_ns, one.file.as_str()))
            .collect();
        beside.sort_unstable();
        beside.truncate(BESIDE);
        beside.into_iter().map(|(_, _, file)| file).collect()
    }
}
