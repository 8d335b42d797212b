//! A table before it is printed in one form or another.

use std::collections::BTreeSet;

/// Rows under named columns, with what there is to say below them.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Its name in JSON: `settings`.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Sentences below the table.
    pub notes: Vec<String>,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name in JSON and CSV; in upper case, its heading.
    pub id: &'static str,
    /// Whether it is printed; JSON has all of them.
    pub shown: bool,
}

impl Column {
    /// A column that is printed if `shown`.
    #[must_use]
    pub const fn new(id: &'static str, shown: bool) -> Self {
        Self { id, shown }
    }
}

/// What stands in a row under a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// Several texts.
    List(Vec<String>),
    /// Yes or no.
    Flag(bool),
}

impl Cell {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Several texts.
    pub fn list<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Self {
        Self::List(texts.into_iter().map(Into::into).collect())
    }

    /// As it is printed.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::List(texts) => texts.join(", "),
            Self::Flag(true) => "yes".to_owned(),
            Self::Flag(false) => "no".to_owned(),
        }
    }
}

impl Table {
    /// The place of a column.
    #[must_use]
    pub fn column(&self, id: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    /// Adds a note for each remedy of its rows.
    pub fn add_remedies(&mut self) {
        let (Some(reason), Some(remedy)) = (self.column("reason"), self.column("remedy")) else {
            return;
        };
        let remedies: BTreeSet<String> = self
            .rows
            .iter()
            .map(|row| (row[reason].shown(), row[remedy].shown()))
            .filter(|(_, remedy)| !remedy.is_empty())
            .map(|(reason, remedy)| format!("'{reason}': {remedy}"))
            .collect();
        self.notes.splice(0..0, remedies);
    }

    /// The places of the columns that are printed.
    pub fn shown_columns(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.columns.len()).filter(|place| self.columns[*place].shown)
    }
}
