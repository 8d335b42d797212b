//! Call stacks of calls, and those that launched kernels, in the format that holds them.

use rsys_export::{Format, Selection};
use rsys_synthetic::random_run::RandomRun;

use crate::store::{Folder, Row, Tables, same};
use crate::{numbers, written};

/// Rows of a table with their call stacks, as a line each, those of kernels without the frame that stands for GPUs.
fn with_stacks(tables: &Tables, table: &str, columns: &[&str]) -> Vec<Row> {
    let frames = tables.rows("stacks", &["stack_id", "frames"]);
    let mut rows = tables.rows(table, columns);
    for row in &mut rows {
        let stack = row.last_mut().unwrap();
        let number: Option<usize> = stack.parse().ok();
        let told = number.map_or("", |number| &frames[number][1]);
        *stack = told.strip_prefix("[GPU];").unwrap_or(told).to_owned();
    }
    rows
}

#[test]
fn stacks_of_calls_and_launches_in_rocpd() {
    let folder = Folder::new("stacks");
    let mut counts = [0, 0];
    for number in numbers() {
        let mut run = RandomRun::draw(number);
        run.processes
            .iter_mut()
            .for_each(|process| process.has_call_stacks = true);
        let tables = Tables::read(&written(&run, &folder), &folder);
        let output = folder.path("output");
        tables.export(Format::Rocpd, false, &Selection::default(), &output);
        let again = Tables::read(std::slice::from_ref(&output), &folder);
        let what = [
            (
                "calls",
                ["name", "start_ns", "process", "thread", "stack_id"],
            ),
            (
                "operations",
                ["name", "start_ns", "process", "kind", "stack_id"],
            ),
        ];
        for (count, (table, columns)) in counts.iter_mut().zip(what) {
            let of = |tables: &Tables| {
                let mut rows = with_stacks(tables, table, &columns);
                // Copies have other names there, barriers no rows, and fills are kernels.
                rows.retain(|row| {
                    table == "calls" || ["kernel", "fill"].contains(&&*row[3]) && !row[4].is_empty()
                });
                if table == "operations" {
                    rows.iter_mut().for_each(|row| row[3].clear());
                }
                rows
            };
            let expected = of(&tables);
            *count += expected.iter().filter(|row| !row[4].is_empty()).count();
            same(
                &format!("run {number}: stacks of {table}"),
                expected,
                of(&again),
            );
        }
    }
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}
