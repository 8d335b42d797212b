//! Rows of the tables, one after the other, with the columns that a writer asks for.

use rsys_tables::catalog::table;
use rsys_tables::store::StoreError;
use rsys_tables::view::{Values, View};

use crate::Failure;

/// A row. Columns are numbered in the order in which they were asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'c> {
    columns: &'c [Values],
    row: usize,
}

impl<'c> Row<'c> {
    /// A row of columns.
    pub(crate) fn of(columns: &'c [Values], row: usize) -> Self {
        Self { columns, row }
    }

    /// A whole number; `None` if it is unknown.
    #[inline]
    pub(crate) fn known(&self, column: usize) -> Option<u64> {
        match &self.columns[column] {
            Values::Integers(values, valid) => valid
                .is_valid(self.row)
                .then(|| values[self.row].cast_unsigned()),
            Values::Unsigned(values, valid) => valid.is_valid(self.row).then(|| values[self.row]),
            _ => None,
        }
    }

    /// A whole number, 0 if it is unknown.
    #[inline]
    pub(crate) fn number(&self, column: usize) -> u64 {
        self.known(column).unwrap_or(0)
    }

    /// A measured number.
    pub(crate) fn measured(&self, column: usize) -> f64 {
        match &self.columns[column] {
            Values::Numbers(values, valid) if valid.is_valid(self.row) => values[self.row],
            _ => self.number(column) as f64,
        }
    }

    /// A text, empty if it is unknown.
    #[inline]
    pub(crate) fn text(&self, column: usize) -> &'c str {
        match &self.columns[column] {
            Values::Texts(ids, words) => words.get(ids[self.row]).unwrap_or(""),
            _ => "",
        }
    }

    /// The cell as it would be written; `None` if it is unknown.
    pub(crate) fn cell(&self, column: usize) -> Option<Cell<'c>> {
        match &self.columns[column] {
            Values::Integers(values, valid) => valid
                .is_valid(self.row)
                .then(|| Cell::Integer(values[self.row])),
            // As SQL has them.
            Values::Unsigned(values, valid) => valid
                .is_valid(self.row)
                .then(|| Cell::Integer(values[self.row].cast_signed())),
            Values::Numbers(values, valid) => valid
                .is_valid(self.row)
                .then(|| Cell::Number(values[self.row])),
            Values::Texts(ids, words) => words.get(ids[self.row]).map(Cell::Text),
        }
    }
}

/// A value of any kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell<'c> {
    Integer(i64),
    Number(f64),
    Text(&'c str),
}

/// Hands each row of a table to `take`, in their order.
///
/// # Errors
/// When the store is damaged, or `take` fails.
pub(crate) fn each(
    view: &View,
    table_name: &str,
    columns: &[&str],
    mut take: impl FnMut(Row<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let of = table(table_name).ok_or(StoreError::Damaged)?;
    for (part, &rows) in view.parts(of).iter().enumerate() {
        let values = columns.iter().map(|name| {
            let (_, column) = of.column(name).ok_or(StoreError::Damaged)?;
            view.column(of, column, part)
        });
        let values = values.collect::<Result<Vec<Values>, StoreError>>()?;
        for row in 0..rows as usize {
            take(Row {
                columns: &values,
                row,
            })?;
        }
    }
    Ok(())
}
