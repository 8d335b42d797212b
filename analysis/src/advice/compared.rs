//! Ranks that wait for each other in collectives, as the answer to `collectives` has it.

use std::collections::BTreeMap;

use super::facts::{Gpu, Host, Owner, Span, host_of};
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
    /// From the first to the last operation of its GPUs.
    pub(super) span: Option<Span>,
}

/// How ranks waited for each other in collectives, where they were compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Compared {
    pub(super) stragglers: Vec<Straggler>,
    /// How long the processes of a host waited in their collectives for the last rank.
    waited_ns: BTreeMap<(usize, Owner), u64>,
    /// Operations that were judged.
    pub(super) judged: u64,
}

impl Compared {
    /// How many ranks have collectives.
    pub(super) fn ranks(&self) -> u64 {
        self.waited_ns.len() as u64
    }

    /// How much of the time in which a GPU has nothing but collectives to do it waits for other ranks: of all its time in collectives as much as its process, whose
    /// GPUs wait alike.
    pub(super) fn exposed_wait_ns(&self, gpu: &Gpu, gpus: &[Gpu]) -> u64 {
        let owner = (gpu.span.host, gpu.owner.clone());
        let Some(waited_ns) = self.waited_ns.get(&owner) else {
            return 0;
        };
        let is_same = |other: &&Gpu| {
            other.comm_ns > 0 && other.span.host == gpu.span.host && other.owner == gpu.owner
        };
        let comm_ns: u64 = gpus.iter().filter(is_same).map(|other| other.comm_ns).sum();
        if comm_ns == 0 {
            return 0;
        }
        let waited = u128::from(*waited_ns) * u128::from(gpu.exposed_comm_ns) / u128::from(comm_ns);
        u64::try_from(waited)
            .unwrap_or(u64::MAX)
            .min(gpu.exposed_comm_ns)
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
        Straggler {
            host: view.text("host").to_owned(),
            cause: view.text("cause").to_owned(),
            place: tidy(view.text("place")),
            late_ns: view.count("late_ns"),
            blame_ns: view.count("blame_ns"),
            saved_ns: change.map_or(0, saved_ns),
            span: gpu.map(|gpu| gpu.span),
            owner,
        }
    };
    let stragglers = rows(Some(collectives), "stragglers");
    let ranks = rows(Some(collectives), "ranks");
    let waited_ns = ranks.iter().map(|rank| {
        let owner = (host_of(rank, hosts), Owner::of(rank));
        (owner, rank.count("wait_ns"))
    });
    let communicators = rows(Some(collectives), "communicators");
    let judged = communicators.iter().map(|one| {
        let not_judged = one.count("fused") + one.count("by_call");
        one.count("matched").saturating_sub(not_judged)
    });
    Compared {
        stragglers: stragglers.iter().map(straggler).collect(),
        waited_ns: waited_ns.collect(),
        judged: judged.sum(),
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
            Column::plain("rank", ""),
            Column::plain("host", ""),
            Column::plain("process", ""),
        ];
        columns.extend(numbers.iter().map(|key| Column::plain(key, "")));
        let mut table = Table::new(key, "", &columns);
        for (host, process, cells) in rows {
            let mut row = vec![Cell::Null, (*host).into(), (*process).into()];
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
            span: Span::between(number, 100, host),
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
                    &["wait_ns"],
                    &[("a", 7, &[60_u64.into()]), ("b", 7, &[8_u64.into()])],
                ),
                table("stragglers", &straggler, &[("b", 7, &straggler_cells)]),
                table(
                    "what_if",
                    &changes,
                    &[("a", 7, &change(1)), ("b", 7, &change(30))],
                ),
                table(
                    "communicators",
                    &["matched", "fused", "by_call"],
                    &[("", 0, &[9_u64.into(), 2_u64.into(), 3_u64.into()])],
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
        assert_eq!(waited.collect::<Vec<_>>(), [25, 10, 8]);
        let stranger = gpu(2, 0, (10, 10));
        assert_eq!(found.exposed_wait_ns(&stranger, &gpus), 0);
    }

    #[test]
    fn the_beginning_of_a_large_job_stands_for_all_of_it() {
        assert_eq!(found(0.25).0.stragglers[0].saved_ns, 120);
    }
}
