//! Slices of Perfetto's typed traces as viewers show them, and the domains of RPD: both say which runtime a call is of.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rsys_export::{Format, Selection};
use rsys_proto::message::{Field, Fields};
use rsys_synthetic::random_run::RandomRun;
use rusqlite::Connection;

use crate::store::{Folder, Row, Tables, same};
use crate::{numbers, written};

fn fields(message: &[u8], number: u32) -> impl Iterator<Item = Field<'_>> {
    let fields = Fields::new(message).map(Result::unwrap);
    fields.filter(move |field| field.number == number)
}

fn bytes(message: &[u8], number: u32) -> &[u8] {
    fields(message, number)
        .next()
        .map_or(&[][..], |field| field.value.bytes())
}

fn number(message: &[u8], number: u32) -> u64 {
    fields(message, number)
        .next()
        .map_or(0, |field| field.value.number())
}

fn text(message: &[u8], number: u32) -> String {
    String::from_utf8(bytes(message, number).to_vec()).unwrap()
}

/// The slices of a trace. Viewers sort events by time; an end closes what began last on its track.
fn shown(path: &Path) -> Vec<Row> {
    let file = fs::read(path).unwrap();
    let (mut names, mut events) = (HashMap::new(), Vec::new());
    for packet in fields(&file, 1) {
        let packet = packet.value.bytes();
        for name in fields(bytes(packet, 12), 2) {
            let name = name.value.bytes();
            names.insert(number(name, 1), text(name, 2));
        }
        let event = bytes(packet, 11);
        let begins = match number(event, 9) {
            1 => Some((text(event, 22), names[&number(event, 10)].clone())),
            2 => None,
            _ => continue,
        };
        events.push((number(packet, 8), number(event, 11), begins));
    }
    events.sort_by_key(|event| event.0);
    let mut open: HashMap<u64, Vec<_>> = HashMap::new();
    let mut rows = Vec::new();
    for (time_ns, track, begins) in events {
        let of_track = open.entry(track).or_default();
        match begins {
            Some(what) => of_track.push((time_ns, what)),
            None => {
                let (start_ns, (category, name)) = of_track.pop().unwrap();
                let [start, duration] = [start_ns, time_ns - start_ns].map(|one| one.to_string());
                rows.push(vec![category, name, start, duration]);
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    rows
}

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
fn slices_and_domains_have_their_runtimes_and_times() {
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
        let (mut calls, mut ranges) = (Vec::new(), Vec::new());
        for process in &run.processes {
            calls.extend(process.calls.iter().map(|one| {
                row(
                    &one.category.to_uppercase(),
                    one.name,
                    one.start_ns,
                    one.end_ns,
                )
            }));
            let of_process = process.ranges.iter();
            ranges.extend(of_process.map(|one| row("range", &one.name, one.start_ns, one.end_ns)));
        }
        of_mpi += calls.iter().filter(|row| row[0] == "MPI").count();
        tables.export(Format::Rpd, false, &Selection::default(), &output);
        same(
            &format!("run {number}: domains"),
            calls.clone(),
            of_domains(&output),
        );
        tables.export(Format::PerfettoTyped, false, &Selection::default(), &output);
        let expected = [calls, ranges].concat();
        same(&format!("run {number}: slices"), expected, shown(&output));
    }
    assert!(of_mpi > 0, "calls of MPI");
}
