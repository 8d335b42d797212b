//! Ranks that wait for each other in collectives, as the answer to `collectives` has it.

use std::collections::BTreeMap;

use super::facts::{Gpu, Host, Owner, Span, host_of};
use crate::measure::collectives::TOGETHER;
use crate::table::Answer;
use crate::table::view::{View, rows, tidy};

/// A rank that made the others wait in collectives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Straggler {
    pub(super) owner: Owner,
    /// Empty if unknown.
    pub(super) host: String,
    /// What it did longer than others, and where; empty if unknown.
    pub(super) cause: String,
    pub(super) place: String,
    pub(super) late_ns: u64,
    pub(super) blame_ns: u64,
    /// By how much the job would end sooner if it were like the others.
    pub(super) saved_ns: u64,
    /// The same as the collectives alone tell it.
    pub(super) replayed_ns: u64,
    /// From the first to the last operation of its GPUs.
    pub(super) span: Option<Span>,
}

/// How ranks waited for each other in collectives, where they were compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Compared {
    pub(super) stragglers: Vec<Straggler>,
    /// How long the processes of a host waited in their collectives for the last rank, and in their messages for the other one.
    waited_ns: BTreeMap<(usize, Owner), [u64; 2]>,
    /// Operations that were judged.
    pub(super) judged: u64,
    /// By how much the job would end sooner if all stragglers were like the others, and if all ranks were alike.
    pub(super) together_saved_ns: u64,
    pub(super) alike_saved_ns: u64,
}

/// Causes of stragglers for which their GPUs are idle.
const OF_IDLE_GPUS: [&str; 4] = ["host_code", "host_wait", "runtime_call", "off_processor"];
/// And for which these copy.
const COPIES: &str = "copies";

/// Causes of stragglers whose GPUs compute longer.
pub(super) const OF_COMPUTING_GPUS: [&str; 3] = ["longer_kernels", "more_kernels", "slow_clock"];

/// By how much a GPU does longer what makes its rank late than those of other processes usually do, which is all that can be saved there: where collectives run beside computation,
/// others seem to need no time between two of them, since they have computed while they waited.
fn does_longer_ns(cause: &str, gpu: &Gpu, gpus: &[Gpu]) -> Option<u64> {
    let does_ns = |gpu: &Gpu| match cause {
        cause if OF_COMPUTING_GPUS.contains(&cause) => Some(gpu.computation_ns),
        cause if OF_IDLE_GPUS.contains(&cause) => gpu.span.duration_ns.checked_sub(gpu.busy_ns),
        COPIES => Some(gpu.exposed_copies_ns),
        _ => None,
    };
    let is_other = |other: &&Gpu| (&other.owner, other.span.host) != (&gpu.owner, gpu.span.host);
    let others = gpus.iter().filter(is_other);
    let mut others: Vec<u64> = others.filter_map(does_ns).collect();
    others.sort_unstable();
    let usual_ns = others.get(others.len().checked_sub(1)? / 2)?;
    // Others that wait on the host have idle GPUs as well. Less than others: of one of them the trace is not whole.
    if gpu.comm_ns == 0 {
        return None;
    }
    does_ns(gpu)?.checked_sub(*usual_ns)
}

impl Straggler {
    /// Whether it is late by the time in which a GPU is idle or copies.
    pub(super) fn loses(&self, gpu: &Gpu) -> bool {
        let host = self.span.map(|span| span.host);
        let cause = self.cause.as_str();
        (&self.owner, host) == (&gpu.owner, Some(gpu.span.host))
            && (OF_IDLE_GPUS.contains(&cause) || cause == COPIES)
    }
}

impl Compared {
    /// How many ranks have collectives.
    pub(super) fn ranks(&self) -> u64 {
        self.waited_ns.len() as u64
    }

    /// How long a GPU without collectives was idle because its process waited for ranks that are late.
    pub(super) fn idle_wait_ns(&self, gpu: &Gpu) -> u64 {
        let owner = (gpu.span.host, gpu.owner.clone());
        let waited_ns = self
            .waited_ns
            .get(&owner)
            .map_or(0, |waited_ns| waited_ns[0]);
        if gpu.comm_ns == 0 { waited_ns } else { 0 }
    }

    /// How much of the time in which a GPU has nothing but collectives and messages to do it waits for other ranks in each of both: of all its time in them as much as its process,
    /// whose GPUs wait alike.
    pub(super) fn exposed_wait_ns(&self, gpu: &Gpu, gpus: &[Gpu]) -> [u64; 2] {
        let owner = (gpu.span.host, gpu.owner.clone());
        let Some(waited_ns) = self.waited_ns.get(&owner) else {
            return [0; 2];
        };
        let is_same = |other: &&Gpu| {
            other.comm_ns > 0 && other.span.host == gpu.span.host && other.owner == gpu.owner
        };
        let comm_ns: u64 = gpus.iter().filter(is_same).map(|other| other.comm_ns).sum();
        if comm_ns == 0 {
            return [0; 2];
        }
        waited_ns.map(|waited_ns| {
            let exposed = u128::from(gpu.exposed_comm_ns);
            let waited = u128::from(waited_ns) * exposed / u128::from(comm_ns);
            u64::try_from(waited)
                .unwrap_or(u64::MAX)
                .min(gpu.exposed_comm_ns)
        })
    }
}

/// What an answer to `collectives` says of the owners of these GPUs.
pub(super) fn compared(collectives: &Answer, gpus: &[Gpu], hosts: &[Host]) -> Compared {
    let what_if = rows(Some(collectives), "what_if");
    let straggler = |view: &View<'_>| {
        let (owner, host) = (Owner::of(view), host_of(view, hosts));
        let change = what_if.iter().find(|change| {
            let is_of_rank = change.known("process").is_some();
            is_of_rank && Owner::of(change) == owner && host_of(change, hosts) == host
        });
        let gpu = gpus
            .iter()
            .find(|gpu| gpu.owner == owner && gpu.span.host == host);
        let replayed_ns = change.map_or(0, saved_ns);
        let cause = view.text("cause").to_owned();
        let longer_ns = gpu.and_then(|gpu| does_longer_ns(&cause, gpu, gpus));
        Straggler {
            host: view.text("host").to_owned(),
            cause,
            place: tidy(view.text("place")),
            late_ns: view.count("late_ns"),
            blame_ns: view.count("blame_ns"),
            saved_ns: replayed_ns.min(longer_ns.unwrap_or(u64::MAX)),
            replayed_ns,
            span: gpu.map(|gpu| gpu.span),
            owner,
        }
    };
    // The last change is that of all ranks.
    let alike = what_if.last().map_or(0, saved_ns);
    let together = what_if
        .iter()
        .find(|change| change.text("change") == TOGETHER);
    let stragglers = rows(Some(collectives), "stragglers");
    let ranks = rows(Some(collectives), "ranks");
    let waited_ns = ranks.iter().map(|rank| {
        let owner = (host_of(rank, hosts), Owner::of(rank));
        let waited_ns = [rank.count("wait_ns"), rank.count("message_wait_ns")];
        (owner, waited_ns)
    });
    let communicators = rows(Some(collectives), "communicators");
    let judged = communicators.iter().map(|one| {
        let not_judged = one.count("fused") + one.count("by_call");
        // Ranks that are there are compared though others are not.
        let incomplete = match one.count("present") {
            0 | 1 => 0,
            _ => one.count("incomplete"),
        };
        (one.count("matched") + incomplete).saturating_sub(not_judged)
    });
    Compared {
        stragglers: stragglers.iter().map(straggler).collect(),
        waited_ns: waited_ns.collect(),
        judged: judged.sum(),
        together_saved_ns: together.map_or(0, saved_ns),
        alike_saved_ns: alike,
    }
}

/// Time that a change saves. Of a large job only the first part is replayed, and scaled to the whole.
fn saved_ns(change: &View<'_>) -> u64 {
    let share = change.number("replayed_share").unwrap_or(1.0);
    (change.count("saved_ns") as f64 / share).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Column, Table};

    fn table(key: &'static str, numbers: &[&'static str], rows: &[(&str, u64, &[Cell])]) -> Table {
        let mut columns = vec![
            Column::plain("change", ""),
            Column::plain("rank", ""),
            Column::plain("host", ""),
            Column::plain("process", ""),
        ];
        columns.extend(numbers.iter().map(|key| Column::plain(key, "")));
        let mut table = Table::new(key, "", &columns);
        for (host, process, cells) in rows {
            let mut row = vec![Cell::Null, Cell::Null, (*host).into(), (*process).into()];
            row.extend_from_slice(cells);
            table.push(row);
        }
        table
    }

    /// A GPU of the process 7 on a host: all its time in collectives, and the part of it without computation.
    fn gpu(host: usize, number: u64, (comm_ns, exposed_comm_ns): (u64, u64)) -> Gpu {
        Gpu {
            owner: Owner {
                rank: None,
                process: 7,
            },
            number,
            comm_ns,
            exposed_comm_ns,
            // Only the second host's is idle.
            busy_ns: if host == 0 { 1_000 - number } else { 0 },
            span: Span::between(number, 1_000, host),
            ..Gpu::default()
        }
    }

    /// Two hosts, on each of which is a process 7: on the first it waits for 60, on the second for 8 and is the straggler.
    fn found(replayed_share: f64) -> (Compared, Vec<Gpu>) {
        let straggler = ["cause", "place", "late_ns", "blame_ns"];
        let straggler_cells = [
            "host_code".into(),
            "f (f.py:3)".into(),
            20_u64.into(),
            10_u64.into(),
        ];
        let changes = ["saved_ns", "replayed_share"];
        let change = |saved_ns: u64| [saved_ns.into(), replayed_share.into()];
        let collectives = Answer {
            tables: vec![
                table(
                    "ranks",
                    &["wait_ns", "message_wait_ns"],
                    &[
                        ("a", 7, &[60_u64.into(), 30_u64.into()]),
                        ("b", 7, &[8_u64.into(), 0_u64.into()]),
                    ],
                ),
                table("stragglers", &straggler, &[("b", 7, &straggler_cells)]),
                table(
                    "what_if",
                    &changes,
                    &[("a", 7, &change(1)), ("b", 7, &change(30))],
                ),
                table(
                    "communicators",
                    &["matched", "fused", "by_call", "present", "incomplete"],
                    &[("", 0, &[9_u64, 2, 3, 1, 7].map(Cell::from))],
                ),
            ],
            ..Answer::default()
        };
        let hosts = ["a", "b"].map(|name| Host {
            name: name.to_owned(),
            start_ns: 0,
        });
        // On the first host two GPUs of which one computes beside half of its collectives.
        let gpus = vec![
            gpu(0, 0, (100, 50)),
            gpu(0, 1, (20, 20)),
            gpu(1, 0, (10, 10)),
        ];
        (compared(&collectives, &gpus, &hosts), gpus)
    }

    #[test]
    fn processes_of_equal_number_are_told_apart_by_their_hosts() {
        let (found, gpus) = found(1.0);
        assert_eq!((found.ranks(), found.judged), (2, 4));
        let [straggler] = &found.stragglers[..] else {
            panic!("{found:?}");
        };
        assert_eq!((straggler.host.as_str(), straggler.saved_ns), ("b", 30));
        assert_eq!(straggler.span, Some(gpus[2].span));
    }

    #[test]
    fn a_process_waits_with_all_its_gpus_and_beside_computation_too() {
        let (found, gpus) = found(1.0);
        let waited = gpus.iter().map(|gpu| found.exposed_wait_ns(gpu, &gpus));
        // Half of the 120 are waits, so half of what is exposed.
        assert_eq!(waited.collect::<Vec<_>>(), [[25, 12], [10, 5], [8, 0]]);
        let stranger = gpu(2, 0, (10, 10));
        assert_eq!(found.exposed_wait_ns(&stranger, &gpus), [0, 0]);
    }

    #[test]
    fn the_beginning_of_a_large_job_stands_for_all_of_it() {
        assert_eq!(found(0.25).0.stragglers[0].saved_ns, 120);
    }
}
