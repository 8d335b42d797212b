//! Typed answers of the trace processor.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// One value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value.
    Null,
    /// A whole number.
    Int(i64),
    /// A number with a point.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes, in hexadecimal.
    Blob {
        /// Two digits per byte.
        blob: String,
    },
}

impl Cell {
    /// The value as a whole number, when it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as a number.
    #[must_use]
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as text, when it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::Blob { blob } => write!(f, "x'{blob}'"),
        }
    }
}

/// The answer to one query.
#[derive(Debug, Clone)]
pub struct Rows {
    columns: Arc<[String]>,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    pub(crate) fn new(columns: Vec<String>, rows: Vec<Vec<Cell>>) -> Self {
        Self {
            columns: columns.into(),
            rows,
        }
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Goes over the rows.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row {
            columns: &self.columns,
            cells,
        })
    }

    /// The only cell of an answer with one row and one column.
    ///
    /// # Errors
    /// When the answer has another shape.
    pub fn single(&self) -> Result<&Cell> {
        match self.rows.as_slice() {
            [row] if row.len() == 1 => Ok(&row[0]),
            rows => bail!(
                "expected one cell, got {} rows of {:?}",
                rows.len(),
                self.columns
            ),
        }
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.columns.join("\t"))?;
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::to_string).collect();
            writeln!(f, "{}", cells.join("\t"))?;
        }
        Ok(())
    }
}

/// One row of an answer; cells are asked for by column name.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    columns: &'a [String],
    cells: &'a [Cell],
}

impl<'a> Row<'a> {
    /// The cell in a column.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn cell(&self, column: &str) -> Result<&'a Cell> {
        let at = self.columns.iter().position(|name| name == column);
        at.and_then(|at| self.cells.get(at))
            .with_context(|| format!("no column `{column}` in {:?}", self.columns))
    }

    /// A whole number.
    ///
    /// # Errors
    /// When the column does not exist or holds something else.
    pub fn int(&self, column: &str) -> Result<i64> {
        let cell = self.cell(column)?;
        cell.as_int()
            .with_context(|| format!("column `{column}` holds {cell}, not a whole number"))
    }

    /// Any number.
    ///
    /// # Errors
    /// When the column does not exist or holds something else.
    pub fn float(&self, column: &str) -> Result<f64> {
        let cell = self.cell(column)?;
        cell.as_float()
            .with_context(|| format!("column `{column}` holds {cell}, not a number"))
    }

    /// Text; nothing counts as empty.
    ///
    /// # Errors
    /// When the column does not exist or holds a number.
    pub fn text(&self, column: &str) -> Result<&'a str> {
        match self.cell(column)? {
            Cell::Text(text) => Ok(text),
            Cell::Null => Ok(""),
            cell => bail!("column `{column}` holds {cell}, not text"),
        }
    }
}
