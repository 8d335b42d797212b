//! A job whose folder is there several times: what is found of each rank stays the same, and what that takes grows with the number of copies. Counted is work, not time.

use std::fs;
use std::path::PathBuf;

use crate::common::{Scratch, rows};
use rsys_analysis::measure::job::collectives;
use rsys_analysis::measure::job::iterations::Options;
use rsys_analysis::ranks;
use rsys_analysis::table::Answer;
use rsys_synthetic::{Cause, Fault, HostClock, Job};
use rsys_traces::read::BytesRead;
use serde_json::{Value, json};

const RANKS: usize = 6;

/// Copies of the traces of a job, each in a folder of its own.
fn copies(scratch: &Scratch, count: usize) -> Vec<PathBuf> {
    let clock = |wall_error_ns| HostClock {
        wall_error_ns,
        drift_ppb: 0,
    };
    let job = Job {
        ranks: RANKS as u64,
        ranks_per_host: 2,
        iterations: 30,
        group: 2,
        clocks: vec![clock(0), clock(1_000_000)],
        faults: vec![Fault {
            rank: 4,
            cause: Cause::LongKernel,
            amount_ns: 3_000_000,
            every: 1,
        }],
        ..Job::default()
    };
    let (mut files, root) = (Vec::new(), scratch.write("root", b"").with_file_name(""));
    for copy in 0..count {
        let folder = root.join(format!("{count}/copy{copy}"));
        rsys_synthetic::write(&job, &folder).unwrap();
        let entries = fs::read_dir(&folder).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "proto")));
    }
    files.sort();
    files
}

/// What is said of a rank in each copy.
fn of_rank(answer: &Answer, table: &str, rank: u64, keys: &[&str]) -> Vec<Value> {
    let rows = rows(answer, table);
    let own = rows.iter().filter(|row| row["rank"] == rank);
    own.map(|row| keys.iter().map(|key| row[*key].clone()).collect())
        .collect()
}

#[test]
fn collectives_of_copies_are_compared_within_each() {
    let scratch = Scratch::new();
    let keys = [
        "operations",
        "last",
        "blame_ns",
        "inherited_ns",
        "late_ns",
        "wait_ns",
        "span_ns",
    ];
    let mut one = None;
    for count in [1_usize, 2, 4] {
        let files = copies(&scratch, count);
        let job = collectives::Job::default();
        for file in &files {
            job.add(ranks::collectives_part(file, &BytesRead::default(), 1));
        }
        let (found, model) = job.find();
        let answer = found.answer(&model);
        let of_ranks: Vec<_> = (0..RANKS as u64)
            .map(|rank| of_rank(&answer, "ranks", rank, &keys))
            .collect();
        assert!(
            of_ranks.iter().all(|rank| rank.len() == count),
            "{of_ranks:?}"
        );
        let stragglers = of_rank(&answer, "stragglers", 4, &["late_ns", "blame_ns"]);
        assert_eq!(stragglers.len(), count, "{stragglers:?}");
        let visited = found.visited();
        let (visited_once, alone) = one.get_or_insert_with(|| (visited, of_ranks.clone()));
        // The changes that are tried are those of each straggler, and each is tried on all that was gone through once.
        assert_eq!(visited, *visited_once * count as u64, "{count} copies");
        for (rank, alone) in of_ranks.iter().zip(alone) {
            assert!(
                rank.iter().all(|copy| *copy == alone[0]),
                "{rank:?} {alone:?}"
            );
        }
    }
    assert!(
        one.is_some_and(|(visited, _)| visited > 0),
        "nothing was counted"
    );
}

#[test]
fn iterations_of_copies_are_read_once_each() {
    let scratch = Scratch::new();
    let keys = [
        "iterations",
        "mean_ns",
        "computation_ns",
        "exposed_comm_ns",
        "idle_ns",
    ];
    let mut one = None;
    for count in [1_usize, 2, 4] {
        let files = copies(&scratch, count);
        let read = BytesRead::default();
        let (answer, _) = ranks::overlap(&files, &Options::default(), &read, 2);
        let of_ranks: Vec<_> = (0..RANKS as u64)
            .map(|rank| of_rank(&answer, "overlap_ranks", rank, &keys))
            .collect();
        let (read_once, alone) = one.get_or_insert_with(|| (read.get(), of_ranks.clone()));
        assert_eq!(read.get(), *read_once * count as u64, "{count} copies");
        for (rank, alone) in of_ranks.iter().zip(alone) {
            assert!(
                rank.len() == count && rank.iter().all(|copy| *copy == alone[0]),
                "{rank:?}"
            );
            assert_ne!(alone[0][1], json!(null));
        }
    }
}
