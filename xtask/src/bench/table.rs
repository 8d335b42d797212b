//! Results as a table on a terminal and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Serialize, Serializer};

/// One field of a table.
#[derive(Debug, Clone)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, and with how many digits after the point it is printed.
    Number(f64, usize),
    /// Not measured.
    None,
}

impl Cell {
    /// A number that may not be there.
    pub fn number(value: Option<f64>, digits: usize) -> Self {
        value.map_or(Self::None, |value| Self::Number(value, digits))
    }

    fn print(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value, digits) => format!("{value:.digits$}"),
            Self::None => "-".to_owned(),
        }
    }
}

/// A string, a number with all its digits, or null.
impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(value, _) => serializer.serialize_f64(*value),
            Self::None => serializer.serialize_none(),
        }
    }
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

/// The outcome of one measure.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What was measured.
    pub title: String,
    /// What each column holds, with its unit.
    pub columns: Vec<String>,
    /// One row for each case and tool.
    pub rows: Vec<Vec<Cell>>,
    /// What to know when reading it.
    pub notes: Vec<String>,
}

impl Table {
    /// An empty table.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Adds a remark below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The table as text: words to the left, numbers to the right, a line between groups of equal first fields.
    pub fn print(&self) -> String {
        let printed: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::print).collect())
            .collect();
        let width_of = |column: usize| {
            printed
                .iter()
                .filter_map(|row| row.get(column))
                .chain(self.columns.get(column))
                .map(|text| text.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width_of).collect();
        let mut text = format!("\n{}\n", self.title);
        for (column, &width) in self.columns.iter().zip(&widths) {
            write!(text, "  {column:<width$}").unwrap_or_default();
        }
        let text_before = text.trim_end().len();
        text.truncate(text_before);
        text.push('\n');
        let mut group = None;
        for (row, cells) in self.rows.iter().zip(&printed) {
            if group.is_some() && group != cells.first() {
                text.push('\n');
            }
            group = cells.first();
            let mut line = String::new();
            for ((cell, printed), &width) in row.iter().zip(cells).zip(&widths) {
                let written = match cell {
                    Cell::Text(_) => write!(line, "  {printed:<width$}"),
                    _ => write!(line, "  {printed:>width$}"),
                };
                written.unwrap_or_default();
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for note in &self.notes {
            text.push_str(&format!("  * {note}\n"));
        }
        text
    }
}

/// Single figures by name, from which the goals are judged: `overhead/chain 30/1000/rsys/cpu_percent`.
pub type Figures = BTreeMap<String, f64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_plain_json() {
        let cells = ["a".into(), Cell::Number(1.25, 1), Cell::None];
        assert_eq!(serde_json::to_string(&cells).unwrap(), r#"["a",1.25,null]"#);
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new("Title", &["case", "value"]);
        table.row(vec!["a".into(), Cell::number(Some(1.25), 1)]);
        table.row(vec!["long".into(), Cell::number(None, 1)]);
        table.note("remark");
        table.note("remark");
        assert_eq!(
            table.print(),
            "\nTitle\n  case  value\n  a       1.2\n\n  long      -\n  * remark\n"
        );
    }
}
