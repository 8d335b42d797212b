//! Which rank came last to each collective of some times, for walks that go from rank to rank; and the common axis of their times.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::clocks::HostClock;
use super::found::Found;
use super::identity::host_key;
use super::records::{Arrival, last_two};
use crate::measure::job::collectives::read::operations::{BY_CALL, FUSED, Lane};
use crate::measure::job::operation::Operation;
use rsys_traces::model::{Model, ProcessId};

/// Turns the times of a process into those of the axis that all ranks have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct Axis(HostClock);

impl Axis {
    /// A BOOTTIME on the common axis.
    pub(crate) fn common(&self, time_ns: u64) -> i64 {
        self.0.common(time_ns)
    }

    /// The first BOOTTIME that is not before a time of the common axis.
    pub(crate) fn local(&self, common: i64) -> u64 {
        let (mut low, mut high) = (0, i64::MAX.cast_unsigned());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.common(middle) < common {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// A collective of all its ranks, or a message of both.
#[derive(Debug, Clone)]
pub(crate) struct LastArrival {
    pub(crate) name: String,
    /// Who came last, and when: as its trace has it, and on the common axis.
    pub(crate) last: ProcessId,
    pub(crate) last_start_ns: u64,
    pub(crate) last_start: i64,
    /// By how much that was later than the next one.
    pub(crate) margin_ns: u64,
    /// How far the clocks of these two may be apart.
    pub(crate) margin_uncertainty_ns: Option<u64>,
}

/// The collectives of some times.
#[derive(Debug, Default)]
pub(crate) struct LastArrivals {
    list: Vec<LastArrival>,
    /// By process: begin on it as its trace has it, and the collective; in order.
    of_processes: HashMap<ProcessId, Vec<(u64, usize)>>,
    /// Times by which they were matched are multiples of this.
    pub(crate) grain_ns: u64,
}

impl LastArrivals {
    /// The collective that begins on a process at a time.
    pub(crate) fn of(&self, process: ProcessId, start_ns: u64) -> Option<&LastArrival> {
        let list = self.of_processes.get(&process)?;
        let first = list.partition_point(|one| one.0 < start_ns.saturating_sub(self.grain_ns));
        let near = list[first..]
            .iter()
            .take_while(|one| one.0 <= start_ns.saturating_add(self.grain_ns));
        // Messages that are one kernel have waited for all of their other ranks.
        let order = |one: &&(u64, usize)| {
            let last = self.list.get(one.1).map(|one| one.last_start);
            (one.0.abs_diff(start_ns), Reverse(last), one.1)
        };
        self.list.get(near.min_by_key(order)?.1)
    }
}

impl Found {
    /// The axis of a process: that of its host, which collectives have corrected, else of its own wall clock.
    pub(crate) fn axis(&self, process: ProcessId, model: &Model) -> Axis {
        if let Some(host) = self.host(process, model) {
            return Axis(self.matching.clocks.hosts[host].clone());
        }
        let mut clock = HostClock::default();
        clock.wall_clock.points = model.process(process).wall_clock.clone();
        clock.wall_clock.settle();
        Axis(clock)
    }

    /// How far the clocks of two processes may be apart; `None`: nothing bounds it.
    pub(crate) fn apart_ns(&self, one: ProcessId, other: ProcessId, model: &Model) -> Option<u64> {
        let is_own = |id| self.matching.own_clocks.contains_key(&id);
        let is_one_host = host_key(model.process(one)) == host_key(model.process(other));
        if is_one_host && !(one != other && (is_own(one) || is_own(other))) {
            return Some(self.matching.clocks.grain_ns);
        }
        let hosts = (self.host(one, model)?, self.host(other, model)?);
        self.matching.clocks.uncertainty_ns(hosts.0, hosts.1)
    }

    fn host(&self, process: ProcessId, model: &Model) -> Option<usize> {
        let own = self.matching.own_clocks.get(&process);
        let of_host = || self.matching.hosts.get(host_key(model.process(process)));
        own.or_else(of_host).copied()
    }

    /// Collectives and messages that some rank has in one of these times of the common axis. Those that not all ranks have, that ranks tell differently, or of which
    /// no kernel is known, are left out, and so are those that a rank can end before all have begun.
    pub(crate) fn last_arrivals(&self, times: &[(i64, i64)], model: &Model) -> LastArrivals {
        let matching = &self.matching;
        let mut found = LastArrivals {
            grain_ns: matching.clocks.grain_ns,
            ..LastArrivals::default()
        };
        for (place, group) in matching.groups.iter().enumerate() {
            // The two ranks of a message wait for each other as those of a collective do, in whatever kernel.
            let is_message = group.lane != Lane::Everyone;
            let unknown = if is_message { BY_CALL } else { BY_CALL | FUSED };
            matching.each(place, |_, arrivals| {
                let is_asked = arrivals.iter().any(|one| {
                    let mut times = times.iter();
                    times.any(|time| one.start < time.1 && one.end > time.0)
                });
                if !is_asked {
                    return;
                }
                let shape = &matching.shapes[arrivals[0].shape()];
                let name = model.text(shape.name);
                let ranks = match is_message {
                    true => 2,
                    false => shape.ranks.unwrap_or(group.members.len() as u64),
                };
                if arrivals.len() as u64 != ranks
                    || arrivals.len() < 2
                    || arrivals.iter().any(|one| one.has(unknown))
                    || !(is_message || Operation::of(name).is_mutual())
                    || !matching.agree(arrivals, group.lane, model)
                {
                    return;
                }
                let (last, next) = last_two(arrivals);
                let process = |one: &Arrival| group.members[one.member].process;
                for one in arrivals {
                    let list = found.of_processes.entry(process(one)).or_default();
                    list.push((one.start_ns, found.list.len()));
                }
                found.list.push(LastArrival {
                    name: name.to_owned(),
                    last: process(last),
                    last_start_ns: last.start_ns,
                    last_start: last.start,
                    margin_ns: next.map_or(0, |next| last.start.abs_diff(next.start)),
                    margin_uncertainty_ns: next
                        .and_then(|next| self.apart_ns(process(last), process(next), model)),
                });
            });
        }
        for wait in matching.mpi.waits() {
            let (start, until) = wait.times;
            if !times.iter().any(|time| start < time.1 && until > time.0) {
                continue;
            }
            let list = found.of_processes.entry(wait.process).or_default();
            list.push((wait.start_ns, found.list.len()));
            found.list.push(LastArrival {
                name: wait.name.to_owned(),
                last: wait.other,
                last_start_ns: wait.other_start_ns,
                last_start: until,
                margin_ns: until.abs_diff(start),
                margin_uncertainty_ns: self.apart_ns(wait.process, wait.other, model),
            });
        }
        found
            .of_processes
            .values_mut()
            .for_each(|list| list.sort_unstable());
        found
    }
}
