//! Ranks in containers of one machine may have the same process id, and each calls its GPU the first one.

use std::collections::BTreeMap;

use rsys_export::{Format, Selection};
use rsys_synthetic::random_run::RandomRun;

use crate::store::{Folder, Tables};
use crate::{numbers, written};

/// The number of operations of each process on each of its GPUs, in ascending order.
fn operations(tables: &Tables) -> Vec<usize> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for row in tables.rows("operations", &["process_id", "device"]) {
        *counts.entry((row[0].clone(), row[1].clone())).or_default() += 1;
    }
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable();
    counts
}

#[test]
fn ranks_with_one_process_id_stay_apart() {
    let folder = Folder::new("containers");
    let mut compared = 0;
    for number in numbers() {
        let mut run = RandomRun::draw(number);
        let host = run.processes[0].host;
        for (rank, process) in run.processes.iter_mut().enumerate() {
            (process.pid, process.rank) = (77, Some(rank as u64));
            process.host = host;
            // What is on the GPUs is known by all formats, and whose it is by its call.
            process.operations.retain(|operation| {
                operation.direction.is_empty()
                    && !operation.grid.is_empty()
                    && operation.call.is_some()
            });
        }
        let tables = Tables::read(&written(&run, &folder));
        let expected = operations(&tables);
        compared += usize::from(expected.len() > 2);
        for format in [Format::Rpd, Format::Rocpd] {
            let output = folder.path("output");
            tables.export(format, false, &Selection::default(), &output);
            let again = Tables::read(std::slice::from_ref(&output));
            assert_eq!(operations(&again), expected, "run {number} as {format:?}");
        }
    }
    assert!(compared > 5, "{compared}");
}
