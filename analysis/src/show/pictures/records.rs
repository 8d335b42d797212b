//! Rows of tables by the keys of their columns.

use crate::table::{Cell, Row, Table};

/// A row of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'t> {
    table: &'t Table,
    row: &'t Row,
}

/// The rows of a table.
pub(super) fn records(table: &Table) -> impl Iterator<Item = Record<'_>> {
    table.rows.iter().map(move |row| Record { table, row })
}

impl<'t> Record<'t> {
    fn cell(&self, key: &str) -> Option<&'t Cell> {
        let at = self.table.columns.iter().position(|one| one.key == key)?;
        self.row.cells.get(at)
    }

    /// A number, if there is one.
    pub(super) fn some(&self, key: &str) -> Option<f64> {
        match self.cell(key)? {
            Cell::Count(count) => Some(*count as f64),
            Cell::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A number; 0 if there is none.
    pub(super) fn number(&self, key: &str) -> f64 {
        self.some(key).unwrap_or(0.0)
    }

    /// A text; empty if there is none.
    pub(super) fn text(&self, key: &str) -> &'t str {
        match self.cell(key) {
            Some(Cell::Text(text)) => text,
            _ => "",
        }
    }

    /// The rows of a table below it.
    pub(super) fn below(&self, key: &str) -> Vec<Record<'t>> {
        let table = self.row.below.iter().find(|table| table.key == key);
        table.into_iter().flat_map(records).collect()
    }

    /// The rows of the first table below it.
    pub(super) fn first_below(&self) -> Vec<Record<'t>> {
        self.row
            .below
            .first()
            .into_iter()
            .flat_map(records)
            .collect()
    }

    /// The GPU, the process, or what else it is about, as the page has it.
    pub(super) fn owner(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.some("rank").map(|rank| format!("rank {rank}")));
        words.extend(self.some("device").map(|device| format!("GPU {device}")));
        words.push(self.text("process_name").to_owned());
        words.extend(self.some("process").map(|pid| format!("process {pid}")));
        joined(&words)
    }
}

/// Words with a point between them, without those that are empty.
pub(super) fn joined(words: &[String]) -> String {
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" \u{b7} ")
}

/// A number and a word, in the plural where that is due.
pub(super) fn counted(count: f64, word: &str) -> String {
    let end = match (count == 1.0, word.ends_with('s')) {
        (true, _) => "",
        (false, true) => "es",
        (false, false) => "s",
    };
    format!("{count} {word}{end}")
}
