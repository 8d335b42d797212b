//! Rows that come nearly in the order of their ids.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::bulk::Rows;
use super::value::Value;
use crate::Failure;

/// Rows that wait for those in front of them.
const WAITING: usize = 1 << 16;

/// A row with its values.
pub(crate) trait OrderedRow<const N: usize> {
    /// The values in the order of the columns, of which the first is the id.
    fn values(&self, id: i64) -> [Value<'_>; N];
}

/// Rows that came too late, for SQLite to add.
pub(crate) type Late<R> = Vec<(i64, R)>;

/// A table to which rows are added in nearly any order. Of those with the same id the first counts.
pub(crate) struct Ordered<'b, R, const N: usize> {
    rows: Rows<'b, N>,
    waiting: BTreeMap<i64, R>,
    last: i64,
    late: Late<R>,
}

impl<'b, R: OrderedRow<N>, const N: usize> Ordered<'b, R, N> {
    pub(crate) fn new(rows: Rows<'b, N>) -> Self {
        Self {
            rows,
            waiting: BTreeMap::new(),
            last: i64::MIN,
            late: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn put(&mut self, id: i64, row: R) -> Result<(), Failure> {
        if id < self.last {
            self.late.push((id, row));
        } else if id > self.last {
            self.waiting.entry(id).or_insert(row);
            if self.waiting.len() > WAITING {
                self.write_first()?;
            }
        }
        Ok(())
    }

    fn write_first(&mut self) -> Result<(), Failure> {
        if let Some((id, row)) = self.waiting.pop_first() {
            self.last = id;
            self.rows.put(row.values(id))?;
        }
        Ok(())
    }

    /// Adds the rows that wait; returns those that came too late, in the order of their ids.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn finish(mut self) -> Result<Late<R>, Failure> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        self.rows.finish();
        // In order SQLite finds the place of each near the last; of rows with the same id the first stays in front.
        self.late.sort_by_key(|(id, _)| *id);
        Ok(self.late)
    }
}

/// Has SQLite add rows whose ids are not there yet.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn add_late<R: OrderedRow<N>, const N: usize>(
    database: &Connection,
    table: &str,
    columns: [&str; N],
    late: &Late<R>,
) -> rusqlite::Result<()> {
    let marks = ["?"; N].join(", ");
    let columns = columns.join(", ");
    let insert = format!("insert or ignore into {table} ({columns}) values ({marks})");
    let mut insert = database.prepare(&insert)?;
    for (id, row) in late {
        for (place, value) in row.values(*id).into_iter().enumerate() {
            insert.raw_bind_parameter(place + 1, value)?;
        }
        insert.raw_execute()?;
    }
    Ok(())
}
