//! Finished tables, by the keys of tables and columns.

use crate::table::{Answer, Cell, Row, Table};

/// A row, with the table that it is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    table: &'a Table,
    row: &'a Row,
}

/// The rows of a table, which answers may lack where they have nothing to say.
pub(crate) fn rows<'a>(answer: Option<&'a Answer>, key: &str) -> Vec<View<'a>> {
    let tables = answer.map_or(&[][..], |answer| &answer.tables);
    // Questions that are asked of several runs have their tables below these.
    let below = tables.iter().flat_map(|table| &table.rows);
    let below = below.flat_map(|row| &row.below);
    let mut tables = tables.iter().chain(below);
    tables
        .find(|table| table.key == key)
        .map_or_else(Vec::new, views)
}

fn views(table: &Table) -> Vec<View<'_>> {
    let rows = table.rows.iter();
    rows.map(|row| View { table, row }).collect()
}

#[cfg(test)]
thread_local! {
    static CELLS_READ: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many cells this thread has read, for tests of how much work something is.
#[cfg(test)]
pub(crate) fn cells_read() -> u64 {
    CELLS_READ.get()
}

impl<'a> View<'a> {
    fn cell(&self, key: &str) -> &'a Cell {
        #[cfg(test)]
        CELLS_READ.set(CELLS_READ.get() + 1);
        let found = self.table.columns.iter().position(|one| one.key == key);
        debug_assert!(found.is_some(), "no column {key} in {}", self.table.key);
        found
            .and_then(|place| self.row.cells.get(place))
            .unwrap_or(&Cell::Null)
    }

    /// A text; empty if there is none.
    pub(crate) fn text(&self, key: &str) -> &'a str {
        match self.cell(key) {
            Cell::Text(text) => text,
            _ => "",
        }
    }

    /// A whole number; `None` if there is none.
    pub(crate) fn known(&self, key: &str) -> Option<u64> {
        match self.cell(key) {
            Cell::Count(count) => Some(*count),
            _ => None,
        }
    }

    /// A whole number; 0 if there is none.
    pub(crate) fn count(&self, key: &str) -> u64 {
        self.known(key).unwrap_or(0)
    }

    /// A measured number.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        match self.cell(key) {
            Cell::Number(number) => Some(*number),
            Cell::Count(count) => Some(*count as f64),
            _ => None,
        }
    }

    /// The rows of a table below the row.
    pub(crate) fn below(&self, key: &str) -> Vec<View<'a>> {
        let found = self.row.below.iter().find(|table| table.key == key);
        found.map_or_else(Vec::new, views)
    }

    /// Function, file and line in columns whose keys begin with a word: `step (train.py:12)`; empty if unknown.
    pub(crate) fn place(&self, word: &str) -> String {
        let key = |what: &str| format!("{word}{what}");
        let (function, source) = (self.text(&key("function")), self.text(&key("source")));
        let file = source.rsplit('/').next().unwrap_or(source);
        match (file, self.count(&key("line"))) {
            // `[no sample within the call]` and the like are no functions.
            _ if function.starts_with('[') => String::new(),
            ("", _) => function.to_owned(),
            (file, 0) => format!("{function} ({file})"),
            (file, line) => tidy(&format!("{function} ({file}:{line})")),
        }
    }
}

/// Functions of Python bear their file already: `step (train.py) (train.py:12)` is `step (train.py:12)`.
pub(crate) fn tidy(place: &str) -> String {
    let tidied = || {
        let (function, at) = place.rsplit_once(" (")?;
        let (file, _) = at.rsplit_once(':')?;
        let own = function.strip_suffix(&format!(" ({file})"))?;
        Some(format!("{own} ({at}"))
    };
    tidied().unwrap_or_else(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_once() {
        for (place, tidied) in [
            ("step (train.py) (train.py:12)", "step (train.py:12)"),
            ("step (train.py:12)", "step (train.py:12)"),
            ("step(int) (solver.c:3)", "step(int) (solver.c:3)"),
            ("hipFree", "hipFree"),
        ] {
            assert_eq!(tidy(place), tidied);
        }
    }
}
