//! How rows are written: aligned text for people, JSON and CSV for programs.

use std::collections::HashMap;
use std::io::{self, Write};

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Number, Value};

use crate::engine::Shown;

/// Texts longer than this are cut in the middle of text; JSON and CSV have them whole.
const TEXT_WIDTH_MAX: usize = 72;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Aligned text with headings.
    Text,
    /// An object: `columns`, `rows`, `is_cut`.
    Json,
    /// CSV with the columns' names as the first line (RFC 4180).
    Csv,
}

/// Writes rows one after the other; of text, when all are there.
pub(crate) struct Writer<'w> {
    form: Form,
    names: Vec<String>,
    /// The names as JSON has them.
    keys: Vec<String>,
    out: io::BufWriter<&'w mut dyn Write>,
    /// The rows of text: each cell, and whether it is a number.
    lines: Vec<Vec<(String, bool)>>,
    is_first: bool,
}

impl<'w> Writer<'w> {
    pub(crate) fn new(form: Form, names: Vec<String>, out: &'w mut dyn Write) -> Self {
        let names = told_apart(names);
        let keys = names.iter().map(|name| serde_json::json!(name).to_string());
        Self {
            form,
            keys: keys.collect(),
            names,
            out: io::BufWriter::new(out),
            lines: Vec::new(),
            is_first: true,
        }
    }

    pub(crate) fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.begin()?;
        let count = self.names.len();
        let cells = (0..count).map(|place| row.get_ref(place).unwrap_or(ValueRef::Null));
        match self.form {
            Form::Text => {
                let cells = cells.map(|cell| match cell {
                    ValueRef::Null => ("-".to_owned(), true),
                    cell => {
                        let text = plain(cell).replace(['\n', '\r', '\t'], " ");
                        let is_number = !matches!(cell, ValueRef::Text(_) | ValueRef::Blob(_));
                        (shorten(text), is_number)
                    }
                });
                self.lines.push(cells.collect());
                Ok(())
            }
            Form::Csv => {
                let cells: Vec<String> = cells.map(plain).collect();
                csv_line(&mut self.out, cells.iter().map(String::as_str))
            }
            Form::Json => {
                let between = match std::mem::take(&mut self.is_first) {
                    true => "",
                    false => ",",
                };
                write!(self.out, "{between}\n    {{")?;
                for (place, (key, cell)) in self.keys.iter().zip(cells).enumerate() {
                    let between = if place == 0 { "" } else { "," };
                    write!(self.out, "{between}{key}:{}", json(cell))?;
                }
                write!(self.out, "}}")
            }
        }
    }

    /// What stands before the first row.
    fn begin(&mut self) -> io::Result<()> {
        if !self.lines.is_empty() || self.names.is_empty() || !self.is_first {
            return Ok(());
        }
        match self.form {
            Form::Text => Ok(()),
            Form::Csv => {
                self.is_first = false;
                csv_line(&mut self.out, self.names.iter().map(String::as_str))
            }
            Form::Json => {
                let columns = serde_json::json!(self.names);
                write!(
                    self.out,
                    "{{\n  \"schema_version\": 1,\n  \"columns\": {columns},\n  \"rows\": ["
                )
            }
        }
    }

    pub(crate) fn finish(mut self, shown: Shown) -> io::Result<()> {
        if shown.rows == 0 {
            self.begin()?;
        }
        match self.form {
            Form::Text => self.text(shown)?,
            Form::Csv => {}
            Form::Json => {
                let end = if shown.rows == 0 { "" } else { "\n  " };
                write!(self.out, "{end}],\n  \"is_cut\": {}\n}}\n", shown.is_cut)?;
            }
        }
        self.out.flush()
    }

    fn text(&mut self, shown: Shown) -> io::Result<()> {
        let mut widths: Vec<usize> = self.names.iter().map(|name| name.chars().count()).collect();
        let mut is_number = vec![true; widths.len()];
        for line in &self.lines {
            for (place, (cell, number)) in line.iter().enumerate() {
                widths[place] = widths[place].max(cell.chars().count());
                is_number[place] &= number;
            }
        }
        let lines = self.lines.iter();
        let lines = lines.map(|line| line.iter().map(|(cell, _)| cell.as_str()).collect());
        let names = self.names.iter().map(String::as_str).collect();
        for line in std::iter::once::<Vec<&str>>(names).chain(lines) {
            let mut text = String::new();
            for (place, cell) in line.into_iter().enumerate() {
                let width = widths[place];
                text.push_str(&match is_number[place] {
                    true => format!("{cell:>width$}  "),
                    false => format!("{cell:<width$}  "),
                });
            }
            writeln!(self.out, "{}", text.trim_end())?;
        }
        match shown.is_cut {
            true => writeln!(self.out, "… more than these {}: --limit ROWS", shown.rows),
            false => Ok(()),
        }
    }
}

/// Names of columns; equal ones get numbers.
fn told_apart(names: Vec<String>) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let numbered = names.into_iter().map(|name| {
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        match count {
            1 => name,
            count => format!("{name}_{count}"),
        }
    });
    numbered.collect()
}

fn plain(cell: ValueRef<'_>) -> String {
    match cell {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
    }
}

fn json(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        cell => Value::String(plain(cell)),
    }
}

/// Cuts out the middle of a long text: both ends of a name say something.
fn shorten(text: String) -> String {
    let length = text.chars().count();
    if length <= TEXT_WIDTH_MAX {
        return text;
    }
    let end = TEXT_WIDTH_MAX / 3;
    let start: String = text.chars().take(TEXT_WIDTH_MAX - end - 1).collect();
    let end: String = text.chars().skip(length - end).collect();
    format!("{start}…{end}")
}

fn csv_line<'c>(out: &mut impl Write, cells: impl Iterator<Item = &'c str>) -> io::Result<()> {
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        match cell.contains(['"', ',', '\n', '\r']) {
            true => write!(out, "\"{}\"", cell.replace('"', "\"\""))?,
            false => out.write_all(cell.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}
