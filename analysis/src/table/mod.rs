//! Finished answers: tables with typed cells, whose rows may have tables below them.
//!
//! A table knows nothing of how it is written. Keys of columns name their units (`idle_ns`); a dot in a key makes a nested object in JSON.

pub(crate) mod view;

/// The version of all JSON forms. It changes when a key goes or changes its meaning.
pub const SCHEMA_VERSION: u64 = 1;

/// What the numbers of a column are, for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Text, or plain numbers.
    #[default]
    Plain,
    /// Nanoseconds, shown in a unit that fits.
    Nanoseconds,
    /// Bytes, shown in a unit that fits.
    Bytes,
    /// A part of a whole, 1 being all of it; shown in percent.
    Share,
    /// Bytes for each second.
    Bandwidth,
    /// Any text, which in text output has a line of its own below its row, behind the column's title.
    Line,
}

impl Unit {
    /// The unit that the end of a key names.
    #[must_use]
    pub fn of_key(key: &str) -> Self {
        let ends = [
            ("_ns", Self::Nanoseconds),
            ("_bytes", Self::Bytes),
            ("_share", Self::Share),
            ("_per_s", Self::Bandwidth),
        ];
        let found = ends.iter().find(|(end, _)| key.ends_with(end));
        found.map_or(Self::Plain, |(_, unit)| *unit)
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its key in JSON and CSV.
    pub key: &'static str,
    /// Its heading in text; empty: it is not shown there.
    pub title: &'static str,
    /// What its numbers are.
    pub unit: Unit,
}

impl Column {
    /// A column of text or plain numbers.
    #[must_use]
    pub const fn plain(key: &'static str, title: &'static str) -> Self {
        Self {
            key,
            title,
            unit: Unit::Plain,
        }
    }

    /// A column of nanoseconds.
    #[must_use]
    pub const fn ns(key: &'static str, title: &'static str) -> Self {
        Self {
            key,
            title,
            unit: Unit::Nanoseconds,
        }
    }

    /// A column whose values have lines of their own in text.
    #[must_use]
    pub const fn line(key: &'static str, title: &'static str) -> Self {
        Self {
            key,
            title,
            unit: Unit::Line,
        }
    }

    /// The column without a place in text.
    #[must_use]
    pub const fn unseen(self) -> Self {
        Self { title: "", ..self }
    }

    /// A column of bytes.
    #[must_use]
    pub const fn bytes(key: &'static str, title: &'static str) -> Self {
        Self {
            key,
            title,
            unit: Unit::Bytes,
        }
    }

    /// A column of shares.
    #[must_use]
    pub const fn share(key: &'static str, title: &'static str) -> Self {
        Self {
            key,
            title,
            unit: Unit::Share,
        }
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Cell {
    /// None: `null` in JSON, empty in CSV, a dash in text.
    #[default]
    Null,
    /// Text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A measured number.
    Number(f64),
    /// Values with names, which end with their units as keys of columns do: an object in JSON.
    Named(Vec<(&'static str, Cell)>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// `yes` or `no`.
impl From<bool> for Cell {
    fn from(is_so: bool) -> Self {
        if is_so { "yes" } else { "no" }.into()
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Count(u64::from(count))
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        if number.is_finite() {
            Self::Number(number)
        } else {
            Self::Null
        }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row, and the tables that belong to it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// One cell for each column.
    pub cells: Vec<Cell>,
    /// Tables of what the row is made of.
    pub below: Vec<Table>,
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Self {
        Self {
            cells,
            below: Vec::new(),
        }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its key in JSON.
    pub key: &'static str,
    /// Its heading in text.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Rows beyond this number are left out of text, which says how many those are. JSON and CSV have all.
    pub rows_in_text: usize,
    /// Below a row: it goes into details, and has no place in CSV and summaries.
    pub is_detail: bool,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>, columns: &[Column]) -> Self {
        Self {
            key,
            title: title.into(),
            columns: columns.to_vec(),
            rows: Vec::new(),
            rows_in_text: usize::MAX,
            is_detail: false,
        }
    }

    fn brief(&mut self, rows: usize) {
        self.rows_in_text = self.rows_in_text.min(rows);
        for row in &mut self.rows {
            row.below.retain(|table| !table.is_detail);
            row.below.iter_mut().for_each(|table| table.brief(rows));
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it has not one cell for each column.
    pub fn push(&mut self, row: impl Into<Row>) {
        let row = row.into();
        assert_eq!(row.cells.len(), self.columns.len(), "cells of {}", self.key);
        self.rows.push(row);
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Its tables, the first of which is what CSV has.
    pub tables: Vec<Table>,
    /// The answers that it is made of, each with the name of its question.
    pub parts: Vec<(&'static str, Self)>,
    /// What the user has to know of it: what was left out, and why numbers are missing.
    pub notes: Vec<String>,
    /// The traces hold nothing of what was asked for.
    pub is_empty: bool,
    /// What stands at the very end whatever was asked: JSON has it under its key, CSV does not.
    pub closing: Option<Table>,
}

impl Answer {
    /// The answer without details, and with the first `rows` rows of each table in text.
    #[must_use]
    pub fn brief(mut self, rows: usize) -> Self {
        self.tables.iter_mut().for_each(|table| table.brief(rows));
        for (_, part) in &mut self.parts {
            *part = std::mem::take(part).brief(rows);
        }
        self
    }

    /// One answer of several, which keep their tables; each note is there once.
    #[must_use]
    pub fn joined(parts: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let mut joined = Self {
            is_empty: true,
            ..Self::default()
        };
        for (question, mut part) in parts {
            joined.is_empty &= part.is_empty;
            for note in part.notes.drain(..) {
                if !joined.notes.contains(&note) {
                    joined.notes.push(note);
                }
            }
            joined.parts.push((question, part));
        }
        joined
    }
}
