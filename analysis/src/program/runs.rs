//! Several runs among traces that are read together, as where a batch script starts a program again and again in one folder.
//!
//! A rank that was started by several profilers, or that is there as several processes in files of others, was in several runs. Which of the processes of other ranks belong to
//! which of them is told by time, and where runs overlap, by order.

use std::collections::{BTreeMap, BTreeSet};

use rsys_traces::model::Process;

/// What tells the starts of a rank apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Started<'p> {
    /// By which profiler.
    By(&'p str, u64),
    /// Of a file of another profiler: as which process.
    As(&'p str, u32),
}

/// A start of a rank: when it began and ended, by one clock as far as that is known; the places of its processes.
#[derive(Debug, Default)]
struct Start<'p> {
    begin: i64,
    end: i64,
    clock: Option<&'p str>,
    /// Whether it was started by a profiler of ours.
    is_ours: bool,
    processes: Vec<usize>,
}

/// Ranks, or `None` for all that has none, with their starts in order of time.
type Starts<'p> = BTreeMap<Option<u64>, Vec<Start<'p>>>;

/// What times of a process are compared by: the wall clock, or where that is unknown, the clock of its host.
fn clock(process: &Process) -> Option<&str> {
    let own = [process.boot_id.as_str(), process.host.as_str()];
    let own = own.into_iter().find(|name| !name.is_empty());
    let own = if process.wall_clock.is_empty() {
        own
    } else {
        Some("")
    };
    own.filter(|_| process.start_ns > 0)
}

/// A time of a process by that clock.
fn by_clock(process: &Process, time_ns: u64) -> i64 {
    let ahead = process.wall_clock.first().map_or(0, |point| point.1);
    time_ns.cast_signed().saturating_add(ahead)
}

fn started(process: &Process) -> Option<Started<'_>> {
    match process.account {
        Some(account) if account.sampler_pid > 0 => {
            Some(Started::By(&process.boot_id, account.sampler_pid))
        }
        // A profiler that is started once writes a file for each process: those without a rank may be of one run.
        None if process.boot_id.is_empty() && process.rank.is_some() => {
            Some(Started::As(&process.host, process.pid))
        }
        _ => None,
    }
}

/// What stands for all that are the same.
fn first_of<'p>(same: &BTreeMap<Started<'p>, Started<'p>>, mut one: Started<'p>) -> Started<'p> {
    while let Some(other) = same.get(&one) {
        one = *other;
    }
    one
}

fn starts(processes: &[Process]) -> Starts<'_> {
    // A process that was attached to again is in one run: so are those of all that attached to it.
    let mut same: BTreeMap<Started<'_>, Started<'_>> = BTreeMap::new();
    let mut known: BTreeMap<(&str, &str, u32, u64), Started<'_>> = BTreeMap::new();
    for process in processes {
        let Some(by) = started(process) else {
            continue;
        };
        let own = (
            process.boot_id.as_str(),
            process.host.as_str(),
            process.pid,
            process.start_ns,
        );
        let other = *known.entry(own).or_insert(by);
        let (by, other) = (first_of(&same, by), first_of(&same, other));
        if by != other {
            same.insert(by, other);
        }
    }
    let mut found: BTreeMap<(Option<u64>, Started<'_>), Start<'_>> = BTreeMap::new();
    for (place, process) in processes.iter().enumerate() {
        let Some(by) = started(process) else {
            continue;
        };
        let begin = by_clock(process, process.start_ns);
        let end = match process.end_ns {
            0 => i64::MAX,
            end_ns => by_clock(process, end_ns),
        };
        let key = (process.rank, first_of(&same, by));
        let start = found.entry(key).or_insert(Start {
            begin,
            end,
            clock: clock(process),
            is_ours: matches!(by, Started::By(..)),
            processes: Vec::new(),
        });
        start.begin = start.begin.min(begin);
        start.end = start.end.max(end);
        start.clock = start.clock.filter(|one| Some(*one) == clock(process));
        start.processes.push(place);
    }
    let mut starts = Starts::new();
    for ((rank, _), start) in found {
        starts.entry(rank).or_default().push(start);
    }
    for of_rank in starts.values_mut() {
        of_rank.sort_by_key(|one| (one.begin, one.processes[0]));
    }
    starts
}

/// The clock that starts have in common.
fn one_clock<'p: 's, 's>(mut starts: impl Iterator<Item = &'s Start<'p>>) -> Option<&'p str> {
    let first = starts.next()?.clock?;
    starts.all(|one| one.clock == Some(first)).then_some(first)
}

/// How many runs are at once, where all ranks were started as often; otherwise one, in which some were started anew.
fn at_once<'s>(counts: impl Iterator<Item = (&'s Option<u64>, usize)>) -> usize {
    let counts = counts.filter(|(rank, _)| rank.is_some());
    let counts: BTreeSet<usize> = counts.map(|(_, count)| count).collect();
    match counts.first() {
        Some(count) if counts.len() == 1 => *count,
        _ => 1,
    }
}

/// Which run each process is of, from 0 on; how many there are is one more than the largest. `None`: ranks are there several times, and nothing tells in what order.
#[must_use]
pub fn runs(processes: &[Process]) -> Option<Vec<usize>> {
    let starts = starts(processes);
    let mut found = vec![0; processes.len()];
    let common = one_clock(starts.values().flatten());
    let Some(common) = common else {
        let follow = |of_rank: &[Start<'_>]| of_rank.is_sorted_by(|one, next| one.end < next.begin);
        let several = || {
            starts
                .iter()
                .filter(|(rank, all)| rank.is_some() && all.len() > 1)
        };
        if several().any(|(_, of_rank)| one_clock(of_rank.iter()).is_none()) {
            return None;
        }
        // Each rank has the clock of its host: they are told by order.
        let do_follow = several().all(|(_, of_rank)| follow(of_rank));
        if do_follow && at_once(starts.iter().map(|(rank, all)| (rank, all.len()))) > 1 {
            let ranks = starts.iter().filter(|(rank, _)| rank.is_some());
            for (run, one) in ranks.flat_map(|(_, of_rank)| of_rank.iter().enumerate()) {
                one.processes.iter().for_each(|place| found[*place] = run);
            }
        }
        return Some(found);
    };
    // Runs follow each other: none of the ranks of the next has begun before all have ended.
    let mut all: Vec<(Option<u64>, &Start<'_>)> = starts
        .iter()
        .flat_map(|(rank, of_rank)| of_rank.iter().map(|one| (*rank, one)))
        .collect();
    all.sort_by_key(|(rank, one)| (one.begin, *rank));
    let mut groups: Vec<BTreeMap<Option<u64>, Vec<&Start<'_>>>> = Vec::new();
    let mut end = i64::MIN;
    for (rank, one) in all {
        if one.begin > end || groups.is_empty() {
            groups.push(BTreeMap::new());
        }
        end = end.max(one.end);
        if let Some(group) = groups.last_mut() {
            group.entry(rank).or_default().push(one);
        }
    }
    let mut run = 0;
    let mut ranks: BTreeSet<Option<u64>> = BTreeSet::new();
    let mut begins: BTreeMap<usize, i64> = BTreeMap::new();
    for group in groups {
        if group.keys().any(|rank| ranks.contains(rank)) {
            run += 1;
            ranks.clear();
        }
        ranks.extend(group.keys());
        // Runs that overlap are told by order.
        // In files of others, further processes of a rank may be its children.
        let is_ours = group.values().flatten().all(|one| one.is_ours);
        let count = match is_ours {
            true => at_once(group.iter().map(|(rank, all)| (rank, all.len()))),
            false => 1,
        };
        for of_rank in group.values() {
            for (number, one) in of_rank.iter().enumerate() {
                let run = run + number.min(count - 1);
                let begin = begins.entry(run).or_insert(one.begin);
                *begin = one.begin.min(*begin);
                one.processes.iter().for_each(|place| found[*place] = run);
            }
        }
        run += count - 1;
    }
    // What does not say who started it, as a trace that was cut off, is of the run that had begun last.
    for (place, process) in processes.iter().enumerate() {
        if started(process).is_none() && clock(process) == Some(common) {
            let at = by_clock(process, process.start_ns);
            let begun = begins.iter().filter(|(_, begin)| **begin <= at);
            found[place] = begun.map(|(run, _)| *run).max().unwrap_or(0);
        }
    }
    Some(found)
}

/// How notes on several runs begin behind their number.
const SEVERAL: &str = " runs in this folder: ";

/// What is said where nothing tells runs apart.
const UNTOLD: &str = "ranks are several times in this folder, and nothing in their traces tells in what order: what follows is of all of them together";

/// What is said of traces of several runs.
pub(crate) fn note(processes: &[Process]) -> Option<String> {
    let Some(runs) = runs(processes) else {
        return Some(UNTOLD.to_owned());
    };
    let count = runs.into_iter().max()? + 1;
    (count > 1).then(|| {
        format!(
            "{count}{SEVERAL}what follows is of all of them together; --run 1 asks for the first alone, --run {count} for the last"
        )
    })
}

/// Whether a note says that: it stands in front of all else.
pub(crate) fn is_note(note: &str) -> bool {
    let behind = note.trim_start_matches(|one: char| one.is_ascii_digit());
    note == UNTOLD || behind.len() < note.len() && behind.starts_with(SEVERAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::Account;

    /// Ranks by their profilers, begins and ends.
    fn found(told: &[(Option<u64>, u64, u64, u64)]) -> Vec<usize> {
        let processes = told
            .iter()
            .map(|&(rank, sampler_pid, start_ns, end_ns)| Process {
                rank,
                start_ns,
                end_ns,
                boot_id: "boot".to_owned(),
                account: Some(Account {
                    sampler_pid,
                    ..Account::default()
                }),
                ..Process::default()
            });
        runs(&processes.collect::<Vec<_>>()).expect("an order")
    }

    #[test]
    fn ranks_that_are_started_again_are_other_runs() {
        let (zero, one) = (Some(0), Some(1));
        // A shell and its program are one start; the next step begins when all have ended.
        let steps = [
            (zero, 7, 10, 50),
            (zero, 7, 20, 40),
            (one, 8, 12, 45),
            (one, 18, 62, 90),
            (zero, 17, 60, 95),
        ];
        assert_eq!(found(&steps), [0, 0, 0, 1, 1]);
        // Two steps at once.
        let at_once = [
            (zero, 7, 10, 50),
            (zero, 17, 20, 60),
            (one, 8, 11, 50),
            (one, 18, 21, 60),
        ];
        assert_eq!(found(&at_once), [0, 1, 0, 1]);
        // Three, of which each overlaps the next.
        let three = [
            (zero, 7, 10, 50),
            (one, 8, 10, 50),
            (zero, 17, 40, 90),
            (one, 18, 40, 90),
            (zero, 27, 80, 99),
            (one, 28, 80, 99),
        ];
        assert_eq!(found(&three), [0, 0, 1, 1, 2, 2]);
        // One rank was started anew.
        let anew = [(zero, 7, 10, 90), (one, 8, 10, 40), (one, 9, 50, 90)];
        assert_eq!(found(&anew), [0, 0, 0]);
        // What has no rank: one after the other, and side by side.
        assert_eq!(found(&[(None, 7, 10, 20), (None, 8, 30, 40)]), [0, 1]);
        assert_eq!(found(&[(None, 7, 10, 35), (None, 8, 30, 40)]), [0, 0]);
    }

    /// Files of another profiler: host, rank, process, begin and end.
    fn of_others(told: &[(&str, Option<u64>, u32, u64, u64)]) -> Option<Vec<usize>> {
        let processes = told
            .iter()
            .map(|&(host, rank, pid, start_ns, end_ns)| Process {
                host: host.to_owned(),
                rank,
                pid,
                start_ns,
                end_ns,
                ..Process::default()
            });
        runs(&processes.collect::<Vec<_>>())
    }

    #[test]
    fn files_of_others_without_times_claim_no_order() {
        let found = |told: &[(u64, u32)]| {
            let told = told.iter().map(|&(rank, pid)| ("", Some(rank), pid, 0, 0));
            of_others(&told.collect::<Vec<_>>())
        };
        assert_eq!(found(&[(0, 10), (1, 11), (0, 20), (1, 21)]), None);
        assert_eq!(found(&[(0, 10), (1, 11), (1, 12)]), None);
        // Several recordings of one process.
        assert_eq!(
            found(&[(0, 10), (1, 11), (0, 10), (1, 11)]),
            Some(vec![0; 4])
        );
        assert_eq!(found(&[(0, 10), (1, 10)]), Some(vec![0; 2]));
    }

    #[test]
    fn times_are_compared_within_one_clock() {
        let (zero, one) = (Some(0), Some(1));
        // One job on two nodes, of which one is up for much longer.
        let job = [("a", zero, 10, 100, 200), ("b", one, 10, 900_000, 900_100)];
        assert_eq!(of_others(&job), Some(vec![0; 2]));
        let programs = [("a", None, 10, 100, 200), ("a", None, 11, 300, 400)];
        assert_eq!(of_others(&programs), Some(vec![0; 2]));
        let twice = [
            ("b", one, 20, 900_500, 900_600),
            ("a", zero, 10, 100, 200),
            ("a", zero, 20, 600, 700),
            ("b", one, 10, 900_000, 900_100),
        ];
        assert_eq!(of_others(&twice), Some(vec![1, 0, 1, 0]));
    }

    /// A process of one boot: by which profiler, if that is known.
    fn attached(pid: u32, sampler_pid: Option<u64>, start_ns: u64, end_ns: u64) -> Process {
        Process {
            rank: Some(u64::from(pid)),
            pid,
            start_ns,
            end_ns,
            boot_id: "boot".to_owned(),
            account: sampler_pid.map(|sampler_pid| Account {
                sampler_pid,
                ..Account::default()
            }),
            ..Process::default()
        }
    }

    #[test]
    fn profilers_of_one_process_are_one_start_in_whatever_order_files_are_read() {
        let mut processes = vec![
            attached(0, Some(8), 10, 40),
            attached(1, Some(7), 11, 40),
            attached(0, Some(7), 10, 80),
            attached(1, Some(8), 11, 80),
        ];
        for _ in 0..4 {
            processes.rotate_left(1);
            assert_eq!(runs(&processes), Some(vec![0; 4]));
        }
    }

    #[test]
    fn a_trace_that_was_cut_off_is_of_the_run_in_which_it_began() {
        let processes = [
            attached(0, Some(7), 10, 40),
            attached(0, Some(8), 60, 90),
            attached(1, None, 61, 0),
            attached(1, None, 11, 0),
        ];
        assert_eq!(runs(&processes), Some(vec![0, 1, 1, 0]));
    }
}
