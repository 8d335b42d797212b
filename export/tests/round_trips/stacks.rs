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
        let tables = Tables::read(&written(&run, &folder));
        let output = folder.path("output");
        tables.export(Format::Rocpd, false, &Selection::default(), &output);
        let again = Tables::read(std::slice::from_ref(&output));
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

/// Name, begin and functions, outermost first, of each call of HIP whose stack is known: its own, or that of a kernel that it launched.
fn launch_stacks(tables: &Tables) -> Vec<Row> {
    let call = ["process", "correlation", "start_ns", "stack_id"];
    let launched = with_stacks(
        tables,
        "operations",
        &["process", "correlation", "call_start_ns", "stack_id"],
    );
    let names = tables.rows("calls", &["runtime", "name"]);
    let calls = with_stacks(tables, "calls", &call).into_iter().zip(names);
    let known = calls.filter(|(_, name)| name[0] == "HIP");
    let stacks = known.filter_map(|(mut row, mut name)| {
        if row[3].is_empty() {
            let same = |one: &&Row| one[..3] == row[..3] && !one[3].is_empty();
            row[3] = launched.iter().find(same)?[3].clone();
        }
        let stack = row.remove(3);
        let functions = stack.strip_prefix("[calls];").unwrap_or(&stack).to_owned();
        Some(vec![name.remove(1), row.remove(2), functions])
    });
    stacks.collect()
}

#[test]
fn calls_have_the_stacks_of_what_they_launched() {
    const IN_RPD: &str = "select name, start, group_concat(frame, ';') from
            (select n.string as name, a.start as start, a.id as id, f.string as frame
            from rocpd_api a join rocpd_string n on n.id = a.apiName_id join rocpd_string d on d.id = a.domain_id
            join rocpd_stackframe s on s.api_ptr_id = a.id join rocpd_string f on f.id = s.name_id
            where d.string = 'hip' order by a.id, s.depth desc) group by id";
    let folder = Folder::new("launches");
    let mut from_launches = 0;
    for number in numbers() {
        let mut run = RandomRun::draw(number);
        for process in &mut run.processes {
            process.has_call_stacks = number % 2 == 0;
            process.ranges.clear();
        }
        let tables = Tables::read(&written(&run, &folder));
        let expected = launch_stacks(&tables);
        let output = folder.path("output");
        tables.export(Format::Rpd, false, &Selection::default(), &output);
        let database = rusqlite::Connection::open(&output).unwrap();
        let mut query = database.prepare(IN_RPD).unwrap();
        let rows = query
            .query_map((), |row| {
                Ok(vec![
                    row.get(0)?,
                    row.get::<_, i64>(1)?.to_string(),
                    row.get(2)?,
                ])
            })
            .unwrap();
        let found = rows.map(Result::unwrap).collect();
        same(
            &format!("run {number}: stacks in rpd"),
            expected.clone(),
            found,
        );
        tables.export(Format::Kineto, false, &Selection::default(), &output);
        let operators = Tables::read(std::slice::from_ref(&output));
        let mut operators = operators.rows("ranges", &["kind", "name", "start_ns"]);
        operators.retain(|row| row[0] == "operator");
        let found = operators.into_iter().map(|row| row[1..].to_vec()).collect();
        let innermost = |row: &Row| {
            let function = row[2].rsplit(';').next().unwrap_or_default();
            vec![function.to_owned(), row[1].clone()]
        };
        let operators = expected.iter().map(innermost).collect();
        same(
            &format!("run {number}: operators in kineto"),
            operators,
            found,
        );
        if number % 2 == 1 {
            from_launches += expected.len();
        }
    }
    assert!(from_launches > 100, "{from_launches}");
}
