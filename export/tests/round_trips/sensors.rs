//! Counters, in the formats that hold them.

use rsys_export::{Format, Only, Selection};
use rsys_synthetic::random_run::RandomRun;

use crate::store::{Folder, Row, Tables, same};
use crate::{numbers, written};

/// The values of a run: time, value, group, name, unit, process id, and the rank if the format has it.
fn values(tables: &Tables, has_rank: bool) -> Vec<Row> {
    const COLUMNS: [&str; 6] = [
        "time_ns",
        "value",
        "belongs_to",
        "name",
        "unit",
        "process_id",
    ];
    let processes = tables.rows("processes", &["process", "rank"]);
    let mut rows = tables.rows("counters", &COLUMNS);
    for row in &mut rows {
        let number: usize = row[5].parse().unwrap();
        row[5].clone_from(&processes[number][0]);
        if has_rank {
            row.push(processes[number][1].clone());
        }
    }
    rows
}

#[test]
fn every_value_of_every_sensor_comes_back() {
    let folder = Folder::new("sensors");
    let mut count = 0;
    for number in numbers() {
        let run = RandomRun::draw(number);
        let tables = Tables::read(&written(&run, &folder));
        let output = folder.path("output");
        let sensors = run.processes.iter().map(|process| process.sensors.len());
        assert_eq!(values(&tables, true).len(), sensors.sum::<usize>());
        count += values(&tables, true).len();
        let alone = Only {
            gpu: false,
            rccl: false,
            ranges: false,
            samples: false,
            sensors: true,
        };
        for (format, only, has_rank) in [
            (Format::Chrome, Only::ALL, true),
            (Format::Chrome, alone, true),
            (Format::Rocpd, Only::ALL, false),
        ] {
            let selection = Selection {
                only,
                ..Selection::default()
            };
            tables.export(format, false, &selection, &output);
            let again = Tables::read(std::slice::from_ref(&output));
            same(
                &format!("run {number} as {format:?}, {only:?}"),
                values(&tables, has_rank),
                values(&again, has_rank),
            );
        }
    }
    assert!(count > 100, "{count}");
}
