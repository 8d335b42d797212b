//! Several recordings of one job in one folder: PyTorch's profiler, which records some steps, pauses and records again, writes a file each time.
//!
//! Collectives that have no numbers in the files are counted from the start of each file, so those of two recordings have the same numbers. Time tells them
//! apart: the files of one recording overlap, those of two do not.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::clocks::HostClock;
use super::gathering::Gathering;
use super::identity::folder_of_member;
use crate::measure::job::collectives::read::operations::Member;
use rsys_traces::model::{Model, ProcessId, TextId};

/// A communicator's operations in a file.
struct Recorded {
    process: ProcessId,
    member: Member,
    numbers: (u64, u64),
    /// When the first began and the last ended, by the wall clock.
    span: (i64, i64),
}

/// Which recording each process' operations of a communicator are of, for communicators whose numbers come again in one folder.
pub(crate) fn recordings(
    gathering: &Gathering,
    copied: &HashSet<TextId>,
    model: &Model,
) -> HashMap<(ProcessId, TextId), usize> {
    let mut files: BTreeMap<(TextId, &str), Vec<Recorded>> = BTreeMap::new();
    for (id, of_process) in (0..).map(ProcessId::new).zip(&gathering.processes) {
        let about = model.process(id);
        let mut clock = HostClock::default();
        clock.wall_clock.points.clone_from(&about.wall_clock);
        clock.wall_clock.settle();
        for (member, rows) in &of_process.members {
            let ends = (rows.get(0), rows.get(rows.len().saturating_sub(1)));
            let (true, (Some(first), Some(last))) = (copied.contains(&member.communicator), ends)
            else {
                continue;
            };
            let folder = folder_of_member(member, about, model);
            let of_folder = files.entry((member.communicator, folder));
            of_folder.or_default().push(Recorded {
                process: id,
                member: *member,
                numbers: (first[0], last[0]),
                span: (clock.wall(first[1]), clock.wall(last[1] + last[2])),
            });
        }
    }
    let mut found = HashMap::new();
    for ((communicator, _), mut recorded) in files {
        if !numbers_come_again(&mut recorded) {
            continue;
        }
        recorded.sort_by_key(|one| (one.span, one.process));
        // Clocks of hosts that nothing compares are not one: recordings are counted on each.
        let mut hosts: HashMap<&str, (usize, i64)> = HashMap::new();
        let mut counted: Vec<(&str, ProcessId, usize)> = Vec::new();
        for one in recorded {
            let about = model.process(one.process);
            let host = match about.wall_clock.is_empty() {
                true => about.host.as_str(),
                false => "",
            };
            let (recording, end) = hosts.entry(host).or_insert((0, i64::MAX));
            *recording += usize::from(one.span.0 > *end);
            *end = match *end {
                i64::MAX => one.span.1,
                end => end.max(one.span.1),
            };
            counted.push((host, one.process, *recording));
        }
        // Those of hosts with other numbers of recordings are not known to be the same ones.
        let mut counts: Vec<usize> = hosts.values().map(|(last, _)| last + 1).collect();
        counts.sort_unstable();
        counts.dedup();
        for (host, process, recording) in counted {
            let count = hosts[host].0 + 1;
            let fewer = counts.iter().take_while(|one| **one < count);
            let recording = fewer.sum::<usize>() + recording;
            found.insert((process, communicator), recording);
        }
    }
    found
}

/// Whether a rank has an operation's number in two files.
fn numbers_come_again(recorded: &mut [Recorded]) -> bool {
    let mut last: HashMap<Member, u64> = HashMap::new();
    recorded.sort_by_key(|one| one.numbers);
    recorded.iter().any(|one| {
        let before = last.insert(one.member, one.numbers.1);
        before.is_some_and(|before| one.numbers.0 <= before)
    })
}
