//! Ranks that wait for each other in collectives, as the answer to `collectives` has it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::facts::Gpu;
use super::owners::{Host, Owner, Span, host_named};
use super::places::without_line;
use super::rule::is_worth_of;
use crate::measure::job::collectives::{TOGETHER, UNJUDGED};
use crate::table::Answer;
use crate::table::view::{View, rows, tidy};
use rsys_traces::words::nanoseconds;

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
    /// How often it came late.
    pub(super) arrivals: u64,
    /// By how much the job would end sooner if it were like the others: as the collectives tell it, and no more than `longer_ns`.
    pub(super) saved_ns: u64,
    /// By how much its GPUs do longer what makes it late than others usually do; `None` if that is not known.
    longer_ns: Option<u64>,
    /// The same as the collectives alone tell it.
    pub(super) replayed_ns: u64,
    /// The time before its latest arrival.
    pub(super) span: Span,
}

/// Stragglers that are worth a finding.
#[derive(Debug, Default)]
pub(super) struct Reported<'c> {
    /// Those that are worth one each.
    pub(super) alone: Vec<&'c Straggler>,
    /// All others, if they are worth one together: ranks of a slow host, say, of which each alone would gain nothing. And what they save.
    pub(super) together: Vec<&'c Straggler>,
    /// How many more ranks are late, which are not named.
    pub(super) more: u64,
    pub(super) together_ns: u64,
}

/// The collective for which the others waited longest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LatestArrival {
    /// Who came last to what.
    pub(super) place: String,
    /// By how much it came later than the next.
    pub(super) span: Span,
}

/// How ranks waited for each other in collectives, where they were compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Compared {
    pub(super) stragglers: Vec<Straggler>,
    /// How long the processes of a host waited in their collectives for the last rank, and in their messages for the other one.
    waited_ns: BTreeMap<Owner, [u64; 2]>,
    /// By how much the processes of a host were late to collectives by themselves.
    late_ns: BTreeMap<Owner, u64>,
    /// Time in collectives of all GPUs of the processes of a host.
    comm_ns: BTreeMap<Owner, u64>,
    /// Operations that were judged.
    pub(super) judged: u64,
    /// By how much the job would end sooner if all stragglers were like the others, and if all ranks were alike.
    pub(super) together_saved_ns: u64,
    /// How many ranks are late, of which the worst are `stragglers`.
    pub(super) late_ranks: u64,
    pub(super) alike_saved_ns: u64,
    pub(super) latest: Option<LatestArrival>,
    /// In words, of the rank of which most is not judged, how much that is; if it is much.
    pub(super) unjudged: Option<String>,
}

/// Causes of stragglers for which their GPUs are idle.
const OF_IDLE_GPUS: [&str; 6] = [
    "host_code",
    "host_wait",
    "runtime_call",
    "host_runnable",
    "queued",
    "off_processor",
];
/// And for which these copy.
const COPIES: &str = "copies";

/// Causes of stragglers whose GPUs compute longer.
pub(super) const OF_COMPUTING_GPUS: [&str; 3] = ["longer_kernels", "more_kernels", "slow_clock"];

/// By how much a GPU does longer what makes its rank late than those of ranks that are not late usually do, which is all that can be saved there: where collectives run beside
/// computation, others seem to need no time between two of them, since they have computed while they waited. `None` where that cannot be compared.
fn does_longer_ns(cause: &str, gpu: &Gpu, usual: &[&Gpu]) -> Option<u64> {
    let does_ns = |gpu: &Gpu| match cause {
        cause if OF_COMPUTING_GPUS.contains(&cause) => Some(gpu.computation_ns),
        cause if OF_IDLE_GPUS.contains(&cause) => {
            Some(gpu.span.duration_ns.saturating_sub(gpu.busy_ns))
        }
        COPIES => Some(gpu.exposed_copies_ns),
        _ => None,
    };
    let usual_ns = middle(usual.iter().filter_map(|other| does_ns(other)).collect())?;
    let span_ns = middle(usual.iter().map(|other| other.span.duration_ns).collect())?;
    // Ranks that wait on the host have idle GPUs as well; and of a rank that ended early the trace has less of everything.
    let is_alike = gpu.comm_ns > 0 && gpu.span.duration_ns >= span_ns - span_ns / 10;
    is_alike.then(|| Some(does_ns(gpu)?.saturating_sub(usual_ns)))?
}

impl Straggler {
    /// Whether a GPU is one of its own.
    pub(super) fn is_of(&self, gpu: &Gpu) -> bool {
        self.owner == gpu.owner
    }

    /// Whether it is late by the time in which a GPU is idle or copies.
    pub(super) fn loses(&self, gpu: &Gpu) -> bool {
        let cause = self.cause.as_str();
        self.is_of(gpu) && (OF_IDLE_GPUS.contains(&cause) || cause == COPIES)
    }
}

impl Reported<'_> {
    /// What a finding counts for a straggler of which this holds.
    pub(super) fn of_ns(&self, is_it: impl Fn(&Straggler) -> bool) -> Option<u64> {
        let alone = self.alone.iter().find(|one| is_it(one));
        let mut together = self.together.iter();
        match alone {
            Some(one) => Some(one.saved_ns),
            None => together.any(|one| is_it(one)).then_some(self.together_ns),
        }
    }

    /// What the findings of stragglers count of which a GPU is not one.
    pub(super) fn of_others_ns(&self, gpu: &Gpu) -> u64 {
        let alone = self.alone.iter().filter(|one| !one.is_of(gpu));
        let alone_ns: u64 = alone.map(|one| one.saved_ns).sum();
        let is_one = self.together.iter().any(|one| one.is_of(gpu));
        alone_ns + if is_one { 0 } else { self.together_ns }
    }

    /// What a GPU loses that these findings have already: what makes its rank late, or its waits for others on the host.
    pub(super) fn lost<'g>(
        &'g self,
        gpu: &'g Gpu,
        compared: &Compared,
        gpus: &'g [Gpu],
    ) -> Lost<'g> {
        let Some(own_ns) = self.of_ns(|one| one.loses(gpu)) else {
            let waits_ns = compared.idle_wait_ns(gpu).min(self.of_others_ns(gpu));
            return Lost {
                there_ns: waits_ns,
                elsewhere_ns: waits_ns,
                ..Lost::default()
            };
        };
        let mut stragglers = self.alone.iter().chain(&self.together);
        let straggler = stragglers.find(|one| one.loses(gpu));
        let is_late = |gpu: &Gpu| compared.stragglers.iter().any(|one| one.is_of(gpu));
        let usual = gpus.iter().filter(|gpu| gpu.comm_ns > 0 && !is_late(gpu));
        let mut lost = Lost {
            gpu: Some(gpu),
            place: straggler.map_or("", |one| without_line(&one.place)),
            there_ns: own_ns,
            elsewhere_ns: own_ns,
            usual: usual.collect(),
        };
        let more_there_ns = gpu
            .idle_in_ns(lost.place)
            .saturating_sub(lost.usual_ns(lost.place));
        lost.elsewhere_ns = own_ns.saturating_sub(more_there_ns);
        lost
    }
}

/// What a GPU loses that findings of stragglers have.
#[derive(Debug, Default)]
pub(super) struct Lost<'g> {
    /// The GPU of a straggler.
    gpu: Option<&'g Gpu>,
    /// The function where its rank loses it, empty if that is not known.
    place: &'g str,
    there_ns: u64,
    /// What its rank does not do longer than others there.
    elsewhere_ns: u64,
    /// GPUs of ranks that are not late.
    usual: Vec<&'g Gpu>,
}

impl Lost<'_> {
    /// How long the others are idle in a function: the one in the middle.
    fn usual_ns(&self, function: &str) -> u64 {
        let usual = self.usual.iter();
        middle(usual.map(|gpu| gpu.idle_in_ns(function)).collect()).unwrap_or(0)
    }

    /// What is left of a finding at a place. What others lose there as well makes no rank late.
    pub(super) fn left_ns(&self, saves_ns: u64, place: &str) -> u64 {
        let function = without_line(place);
        // What is found of a call has idle times of several places, that of the straggler among them.
        let idle_ns = self.gpu.map_or(0, |gpu| gpu.idle_in_ns(function));
        let is_of_several = 2 * idle_ns < saves_ns;
        if is_of_several || !self.place.is_empty() && function == self.place {
            return saves_ns.saturating_sub(self.there_ns);
        }
        let usual_ns = self.usual_ns(function).min(saves_ns);
        saves_ns.saturating_sub(self.elsewhere_ns).max(usual_ns)
    }
}

fn middle(mut all: Vec<u64>) -> Option<u64> {
    all.sort_unstable();
    all.get(all.len().checked_sub(1)? / 2).copied()
}

impl Compared {
    /// How many ranks have collectives.
    pub(super) fn ranks(&self) -> u64 {
        self.waited_ns.len() as u64
    }

    /// The stragglers that are worth a finding in a run of this length.
    pub(super) fn reported(&self, run_ns: u64) -> Reported<'_> {
        let all = self.stragglers.iter();
        let worth = |one: &&Straggler| is_worth_of(one.saved_ns, run_ns, one.arrivals);
        let (alone, others): (Vec<_>, Vec<_>) = all.partition(worth);
        let alone_ns: u64 = alone.iter().map(|one| one.saved_ns).sum();
        // No more than any of them does longer.
        let most_ns = others.iter().map(|one| one.longer_ns.unwrap_or(u64::MAX));
        let together_ns = self.together_saved_ns.saturating_sub(alone_ns);
        let together_ns = together_ns.min(most_ns.max().unwrap_or(0));
        let arrivals = others.iter().map(|one| one.arrivals).sum();
        match is_worth_of(together_ns, run_ns, arrivals) {
            true => Reported {
                alone,
                together: others,
                more: self.late_ranks.saturating_sub(self.stragglers.len() as u64),
                together_ns,
            },
            false => Reported {
                alone,
                ..Reported::default()
            },
        }
    }

    /// How long a GPU without collectives was idle because its process waited for ranks that are late.
    fn idle_wait_ns(&self, gpu: &Gpu) -> u64 {
        let waited_ns = self
            .waited_ns
            .get(&gpu.owner)
            .map_or(0, |waited_ns| waited_ns[0]);
        if gpu.comm_ns == 0 { waited_ns } else { 0 }
    }

    /// How much of the time in which a GPU has nothing but collectives and messages to do it waits for other ranks in each of both: of all its time in them as much as its process,
    /// whose GPUs wait alike.
    pub(super) fn exposed_wait_ns(&self, gpu: &Gpu) -> [u64; 2] {
        let (waited_ns, comm_ns) = (&self.waited_ns, &self.comm_ns);
        let both = waited_ns.get(&gpu.owner).zip(comm_ns.get(&gpu.owner));
        let Some((waited_ns, &comm_ns)) = both.filter(|(_, comm_ns)| **comm_ns > 0) else {
            return [0; 2];
        };
        waited_ns
            .map(|waited_ns| part(waited_ns, gpu.exposed_comm_ns, comm_ns).min(gpu.exposed_comm_ns))
    }

    /// The same of a run without GPUs: what a process waited for others, and was late itself.
    pub(super) fn lost_in_turn_of_hosts_ns(&self) -> u64 {
        let lost = self.waited_ns.iter().map(|(owner, waited_ns)| {
            let late_ns = self.late_ns.get(owner).copied().unwrap_or(0);
            waited_ns[0] + late_ns
        });
        lost.max().unwrap_or(0)
    }

    /// What a GPU can lose at most because ranks come to collectives at different times: what it waits for others while it does nothing else, and by how much it was late
    /// itself, as far as others wait for it likewise.
    pub(super) fn lost_in_turn_ns(&self, gpu: &Gpu) -> u64 {
        let late_ns = self.late_ns.get(&gpu.owner).copied().unwrap_or(0);
        match self.comm_ns.get(&gpu.owner) {
            None | Some(0) => 0,
            Some(&comm_ns) => {
                let late_ns = part(late_ns, gpu.exposed_comm_ns.min(comm_ns), comm_ns);
                self.exposed_wait_ns(gpu)[0] + late_ns
            }
        }
    }
}

/// As much of a time as one is of another.
fn part(time_ns: u64, one: u64, of: u64) -> u64 {
    let part = u128::from(time_ns) * u128::from(one) / u128::from(of);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// What an answer to `collectives` says of the owners of these GPUs.
pub(super) fn compared(collectives: &Answer, gpus: &[Gpu], hosts: &[Host]) -> Compared {
    let what_if = rows(Some(collectives), "what_if");
    let stragglers = rows(Some(collectives), "stragglers");
    let owner = |view: &View<'_>| Owner::of(view, hosts);
    let late: BTreeSet<_> = stragglers.iter().map(owner).collect();
    let is_late = |gpu: &Gpu| late.contains(&gpu.owner);
    let usual = gpus.iter().filter(|gpu| gpu.comm_ns > 0 && !is_late(gpu));
    let usual: Vec<&Gpu> = usual.collect();
    // A rank that was recorded several times has several rows.
    let mut recordings: BTreeMap<Owner, usize> = BTreeMap::new();
    let straggler = |view: &View<'_>| {
        let owner = Owner::of(view, hosts);
        let recording = recordings.entry(owner).or_default();
        let mut changes = what_if.iter().filter(|change| {
            let is_of_rank = change.known("process").is_some();
            is_of_rank && Owner::of(change, hosts) == owner
        });
        let change = changes.nth(*recording);
        *recording += 1;
        let own = gpus.iter();
        let own = own.filter(|gpu| gpu.owner == owner);
        let replayed_ns = change.map_or(0, saved_ns);
        let cause = view.text("cause").to_owned();
        // Whichever of its GPUs is the latest holds the others up.
        let longer_ns = own.filter_map(|gpu| does_longer_ns(&cause, gpu, &usual));
        let longer_ns = longer_ns.max();
        Straggler {
            host: view.text("host").to_owned(),
            cause,
            place: tidy(view.text("place")),
            late_ns: view.count("late_ns"),
            blame_ns: view.count("blame_ns"),
            arrivals: view.count("arrivals"),
            saved_ns: replayed_ns.min(longer_ns.unwrap_or(u64::MAX)),
            longer_ns,
            replayed_ns,
            span: Span::longest(view, owner.host),
            owner,
        }
    };
    // The last change is that of all ranks.
    let alike = what_if.last().map_or(0, saved_ns);
    let together = what_if
        .iter()
        .find(|change| change.text("change") == TOGETHER);
    let ranks = rows(Some(collectives), "ranks");
    let mut waited_ns: BTreeMap<Owner, [u64; 2]> = BTreeMap::new();
    let mut late_ns: BTreeMap<Owner, u64> = BTreeMap::new();
    for rank in &ranks {
        let waited_ns = waited_ns.entry(owner(rank)).or_default();
        waited_ns[0] += rank.count("wait_ns");
        waited_ns[1] += rank.count("message_wait_ns");
        *late_ns.entry(owner(rank)).or_default() += rank.count("late_ns");
    }
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
    // Waits of MPI's calls that are not among the operations.
    let waits = rows(Some(collectives), "mpi_waits");
    let waits: u64 = waits.iter().map(|one| one.count("waits")).sum();
    let mut comm_ns: BTreeMap<Owner, u64> = BTreeMap::new();
    for gpu in gpus {
        *comm_ns.entry(gpu.owner).or_default() += gpu.comm_ns;
    }
    Compared {
        comm_ns,
        stragglers: merge_recordings(stragglers.iter().map(straggler)),
        waited_ns,
        late_ns,
        judged: judged.sum::<u64>() + waits,
        together_saved_ns: together.map_or(0, saved_ns),
        late_ranks: together.map_or(0, |change| change.count("ranks")),
        alike_saved_ns: alike,
        latest: latest_arrival(collectives, hosts, &late),
        unjudged: unjudged(&ranks),
    }
}

/// Adds up the stragglers of one owner, which has one for each recording. The cause is that of the latest one.
fn merge_recordings(stragglers: impl Iterator<Item = Straggler>) -> Vec<Straggler> {
    let mut found: Vec<Straggler> = Vec::new();
    for mut next in stragglers {
        let Some(same) = found.iter_mut().find(|one| one.owner == next.owner) else {
            found.push(next);
            continue;
        };
        if next.late_ns > same.late_ns {
            std::mem::swap(same, &mut next);
        }
        same.blame_ns += next.blame_ns;
        same.arrivals += next.arrivals;
        same.saved_ns += next.saved_ns;
        same.replayed_ns += next.replayed_ns;
        same.longer_ns = same
            .longer_ns
            .zip(next.longer_ns)
            .map(|both| both.0 + both.1);
    }
    found
}

/// Of the rank of which the largest part of the time is in calls that are not judged, how much that is.
fn unjudged(ranks: &[View<'_>]) -> Option<String> {
    let share =
        |rank: &View<'_>| rank.count("unjudged_ns") as f64 / rank.count("span_ns").max(1) as f64;
    let most = ranks
        .iter()
        .max_by(|one, other| share(one).total_cmp(&share(other)))?;
    let who = match most.known("rank") {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", most.count("process")),
    };
    (share(most) >= UNJUDGED).then(|| {
        format!(
            "{:.0} % of the time of {who} ({}) is in calls of MPI of which it is not known for whom they waited",
            100.0 * share(most),
            nanoseconds(most.count("unjudged_ns"))
        )
    })
}

/// The operation in which a rank that is no straggler held the others up most by what it did itself, where it is certain who came last.
fn latest_arrival(
    collectives: &Answer,
    hosts: &[Host],
    late: &BTreeSet<Owner>,
) -> Option<LatestArrival> {
    let last = |one: &View<'_>| Owner {
        host: host_named(one.text("last_host"), hosts),
        rank: one.known("last_rank"),
        process: one.count("last_process"),
    };
    let instances = rows(Some(collectives), "instances");
    let most = instances
        .iter()
        .filter(|one| one.text("verdict") == "certain" && !late.contains(&last(one)))
        .min_by_key(|one| Reverse(one.count("blame_ns")))?;
    let duration_ns = most.count("blame_ns");
    let name = most.text("last_host");
    let who = match most.known("last_rank") {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", most.count("last_process")),
    };
    let of_host = match name {
        "" => String::new(),
        name => format!(" on {name}"),
    };
    Some(LatestArrival {
        place: format!(
            "most at one time {who}{of_host}, before {} number {} of communicator {}",
            most.text("operation"),
            most.count("sequence"),
            most.text("communicator")
        ),
        span: Span {
            start_ns: most.count("start_ns").saturating_sub(duration_ns),
            duration_ns,
            host: last(most).host,
        },
    })
    .filter(|_| duration_ns > 0)
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
                host,
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

    /// On the first host two GPUs of which one computes beside half of its collectives.
    fn gpus() -> Vec<Gpu> {
        vec![
            gpu(0, 0, (100, 50)),
            gpu(0, 1, (20, 20)),
            gpu(1, 0, (10, 10)),
        ]
    }

    /// Two hosts, on each of which is a process 7: on the first it waits for 60, on the second for 8 and is the straggler.
    fn found(replayed_share: f64, gpus: &[Gpu]) -> Compared {
        let straggler = [
            "cause",
            "place",
            "late_ns",
            "blame_ns",
            "longest_ns",
            "longest_at_ns",
        ];
        let straggler_cells = [
            "host_code".into(),
            "f (f.py:3)".into(),
            20_u64.into(),
            10_u64.into(),
            5_u64.into(),
            700_u64.into(),
        ];
        let changes = ["saved_ns", "replayed_share"];
        let change = |saved_ns: u64| [saved_ns.into(), replayed_share.into()];
        let collectives = Answer {
            tables: vec![
                table(
                    "ranks",
                    &[
                        "wait_ns",
                        "message_wait_ns",
                        "late_ns",
                        "unjudged_ns",
                        "span_ns",
                    ],
                    &[
                        ("a", 7, &[60_u64, 30, 0, 0, 100].map(Cell::from)),
                        ("b", 7, &[8_u64, 0, 20, 30, 100].map(Cell::from)),
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
        compared(&collectives, gpus, &hosts)
    }

    #[test]
    fn processes_of_equal_number_are_told_apart_by_their_hosts() {
        let gpus = gpus();
        let found = found(1.0, &gpus);
        assert_eq!((found.ranks(), found.judged), (2, 4));
        let [straggler] = &found.stragglers[..] else {
            panic!("{found:?}");
        };
        assert_eq!((straggler.host.as_str(), straggler.saved_ns), ("b", 30));
        assert_eq!(straggler.span, Span::between(700, 705, 1));
    }

    #[test]
    fn the_latest_arrival_is_certain_and_no_stragglers() {
        let keys = [
            "last_host",
            "last_process",
            "blame_ns",
            "start_ns",
            "operation",
            "sequence",
            "communicator",
            "verdict",
        ];
        let instance = |host: &'static str, blame_ns: u64, verdict: &'static str| -> Vec<Cell> {
            let number = blame_ns / 10;
            vec![
                host.into(),
                7_u64.into(),
                blame_ns.into(),
                1_000_u64.into(),
                "ncclAllReduce".into(),
                number.into(),
                "0xabc".into(),
                verdict.into(),
            ]
        };
        let all = [
            instance("b", 30, "certain"),
            instance("a", 20, "inconclusive"),
            instance("a", 10, "certain"),
        ];
        let hosts = ["a", "b"].map(|name| Host {
            name: name.to_owned(),
            start_ns: 0,
        });
        let latest = |late: &[Owner]| {
            let rows: Vec<_> = all.iter().map(|cells| ("", 0, &cells[..])).collect();
            let collectives = Answer {
                tables: vec![table("instances", &keys, &rows)],
                ..Answer::default()
            };
            let late = late.iter().copied().collect();
            latest_arrival(&collectives, &hosts, &late).map(|one| (one.place, one.span))
        };
        let of_host = |host| Owner {
            host,
            rank: None,
            process: 7,
        };
        let place = |host: &str, number: u64| {
            format!(
                "most at one time process 7 on {host}, before ncclAllReduce number {number} of communicator 0xabc"
            )
        };
        assert_eq!(
            latest(&[]),
            Some((place("b", 3), Span::between(970, 1_000, 1)))
        );
        assert_eq!(
            latest(&[of_host(1)]),
            Some((place("a", 1), Span::between(990, 1_000, 0)))
        );
        assert_eq!(latest(&[of_host(0), of_host(1)]), None);
    }

    #[test]
    fn a_process_waits_with_all_its_gpus_and_beside_computation_too() {
        let gpus = gpus();
        let found = found(1.0, &gpus);
        let waited = gpus.iter().map(|gpu| found.exposed_wait_ns(gpu));
        // Half of the 120 are waits, so half of what is exposed.
        assert_eq!(waited.collect::<Vec<_>>(), [[25, 12], [10, 5], [8, 0]]);
        let stranger = gpu(2, 0, (10, 10));
        assert_eq!(found.exposed_wait_ns(&stranger), [0, 0]);
    }

    #[test]
    fn the_beginning_of_a_large_job_stands_for_all_of_it() {
        assert_eq!(found(0.25, &gpus()).stragglers[0].saved_ns, 120);
    }

    #[test]
    fn a_straggler_saves_no_more_than_its_gpu_does_longer() {
        let mut gpus = gpus();
        gpus[2].busy_ns = 990;
        assert_eq!(found(1.0, &gpus).stragglers[0].saved_ns, 10);
        // Of a rank that ended early there is less of everything.
        gpus[2].span.duration_ns = 800;
        assert_eq!(found(1.0, &gpus).stragglers[0].saved_ns, 30);
    }

    #[test]
    fn stragglers_are_reported_alone_or_together() {
        const MS: u64 = 1_000_000;
        let late = |saved_ms: u64, longer_ms: Option<u64>| Straggler {
            saved_ns: saved_ms * MS,
            longer_ns: longer_ms.map(|ms| ms * MS),
            ..Straggler::default()
        };
        let told = |stragglers: &[Straggler], together_ms: u64| {
            let compared = Compared {
                stragglers: stragglers.to_vec(),
                together_saved_ns: together_ms * MS,
                ..Compared::default()
            };
            let reported = compared.reported(1_000 * MS);
            let (alone, together) = (reported.alone.len(), reported.together.len());
            (alone, together, reported.together_ns / MS)
        };
        // Each alone would gain nothing.
        let slow_host = [late(0, Some(300)), late(0, Some(200))];
        assert_eq!(told(&slow_host, 280), (0, 2, 280));
        // Behind computation of the others nothing would be gained.
        let hidden = [late(0, Some(0)), late(0, Some(20))];
        assert_eq!(told(&hidden, 280), (0, 0, 0));
        // One that is worth a finding does not hide the others.
        let beside = [late(150, Some(200)), late(0, Some(900)), late(0, None)];
        assert_eq!(told(&beside, 1_150), (1, 2, 1_000));
    }
}
