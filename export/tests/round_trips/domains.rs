//! The domains of RPD, which say which runtime a call is of.

use std::path::Path;

use rsys_export::{Format, Selection};
use rsys_synthetic::random_run::RandomRun;
use rusqlite::Connection;

use crate::store::{Folder, Row, Tables, same};
use crate::{numbers, written};

/// The calls of a database, with their domains.
fn of_domains(path: &Path) -> Vec<Row> {
    let database = Connection::open(path).unwrap();
    let sql = "select upper(domain), apiName, start, end - start from api where domain in ('hip', 'hsa', 'rccl', 'mpi')";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        let numbers = [row.get::<_, i64>(2)?, row.get(3)?].map(|one| one.to_string());
        let [start, duration] = numbers;
        Ok(vec![row.get(0)?, row.get(1)?, start, duration])
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn calls_have_their_runtimes_and_times() {
    let folder = Folder::new("slices");
    let output = folder.path("output");
    let mut of_mpi = 0;
    for number in numbers() {
        let run = RandomRun::draw(number);
        let tables = Tables::read(&written(&run, &folder));
        let row = |category: &str, name: &str, start_ns: u64, end_ns: u64| -> Row {
            let [start, duration] = [start_ns, end_ns - start_ns].map(|one| one.to_string());
            vec![category.to_owned(), name.to_owned(), start, duration]
        };
        let all = run.processes.iter().flat_map(|process| &process.calls);
        let calls: Vec<Row> = all
            .map(|one| {
                row(
                    &one.category.to_uppercase(),
                    one.name,
                    one.start_ns,
                    one.end_ns,
                )
            })
            .collect();
        of_mpi += calls.iter().filter(|row| row[0] == "MPI").count();
        tables.export(Format::Rpd, false, &Selection::default(), &output);
        same(
            &format!("run {number}: domains"),
            calls,
            of_domains(&output),
        );
    }
    assert!(of_mpi > 0, "calls of MPI");
}
