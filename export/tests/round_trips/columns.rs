//! Tables as files.

use std::fs;

use rsys_export::{Format, Selection};
use rsys_synthetic::random_run::RandomRun;
use rsys_tables::catalog::{Kind, TABLES};

use crate::store::{Folder, Row, Tables, same};
use crate::{numbers, written};

/// The rows of a CSV file (RFC 4180).
fn csv(text: &str) -> Vec<Row> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Row::new(), String::new());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => loop {
                match letters.next().unwrap() {
                    '"' if letters.peek() == Some(&'"') => cell.extend(letters.next()),
                    '"' => break,
                    other => cell.push(other),
                }
            },
            ',' => row.push(std::mem::take(&mut cell)),
            '\n' => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(
        row.is_empty() && cell.is_empty(),
        "the last line has no end"
    );
    rows
}

#[test]
fn csv_files_have_every_cell() {
    let folder = Folder::new("csv");
    let output = folder.path("output");
    for number in numbers() {
        let run = RandomRun::draw(number);
        let tables = Tables::read(&written(&run, &folder));
        tables.export(Format::Csv, false, &Selection::default(), &output);
        for table in TABLES {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            let mut expected = tables.rows(table.name, &names);
            for (place, column) in table.columns.iter().enumerate() {
                if column.kind == Kind::Unsigned {
                    for row in &mut expected {
                        // As SQL has them.
                        if let Ok(value) = row[place].parse::<u64>() {
                            row[place] = value.cast_signed().to_string();
                        }
                    }
                }
            }
            let path = output.join(format!("{}.csv", table.name));
            let found = match fs::read_to_string(&path) {
                Ok(text) => {
                    let mut rows = csv(&text);
                    assert_eq!(rows.remove(0), names);
                    rows
                }
                Err(_) => Vec::new(),
            };
            same(&format!("run {number}: {}", table.name), expected, found);
        }
    }
}
