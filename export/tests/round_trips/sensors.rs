//! Counters, in the formats that hold them.

use rsys_export::{Format, Selection};
use rsys_synthetic::random_run::RandomRun;

use crate::store::{Folder, Row, Tables, same};
use crate::{numbers, written};

/// The values of a run: time, value, group, name, unit, process id.
fn values(tables: &Tables) -> Vec<Row> {
    const COLUMNS: [&str; 6] = [
        "time_ns",
        "value",
        "belongs_to",
        "name",
        "unit",
        "process_id",
    ];
    let processes = tables.rows("processes", &["process"]);
    let mut rows = tables.rows("counters", &COLUMNS);
    for row in &mut rows {
        let number: usize = row[5].parse().unwrap();
        row[5].clone_from(&processes[number][0]);
    }
    rows
}

#[test]
fn every_value_of_every_sensor_comes_back() {
    let folder = Folder::new("sensors");
    let mut count = 0;
    for number in numbers() {
        let run = RandomRun::draw(number);
        let tables = Tables::read(&written(&run, &folder), &folder);
        let output = folder.path("output");
        let expected = values(&tables);
        let sensors = run.processes.iter().map(|process| process.sensors.len());
        assert_eq!(expected.len(), sensors.sum::<usize>());
        count += expected.len();
        for format in [Format::Chrome, Format::Rocpd] {
            tables.export(format, false, &Selection::default(), &output);
            let again = Tables::read(std::slice::from_ref(&output), &folder);
            same(
                &format!("run {number} as {format:?}"),
                expected.clone(),
                values(&again),
            );
        }
    }
    assert!(count > 100, "{count}");
}
