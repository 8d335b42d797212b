//! Rows of SQLite's tables, many with one statement: what a statement costs beside its rows is twice what a row costs.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};

/// Rows that are added at once.
const ROWS: usize = 32;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Number(f64),
    Text(String),
    Word(&'static str),
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Number(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Word(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u64> for Value {
    /// Above 2^63 - 1 it is negative, as SQLite has no larger numbers.
    fn from(number: u64) -> Self {
        Self::Integer(number.cast_signed())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::from(number as u64)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Word(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A table to which rows of `N` values are added. The last ones are there after [`Rows::finish`].
pub(crate) struct Rows<'d, const N: usize> {
    database: &'d Connection,
    /// The statement without its values.
    insert: String,
    add: Statement<'d>,
    waiting: Vec<[Value; N]>,
}

impl<'d, const N: usize> Rows<'d, N> {
    /// `insert` is the statement up to its values: `insert into t (a, b)`.
    pub(crate) fn new(database: &'d Connection, insert: &str) -> rusqlite::Result<Self> {
        Ok(Self {
            database,
            insert: insert.to_owned(),
            add: database.prepare(&statement::<N>(insert, ROWS))?,
            waiting: Vec::with_capacity(ROWS),
        })
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn put(&mut self, row: [Value; N]) -> rusqlite::Result<()> {
        self.waiting.push(row);
        if self.waiting.len() == ROWS {
            execute(&mut self.add, &self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Adds the rows that wait.
    pub(crate) fn finish(mut self) -> rusqlite::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let rest = statement::<N>(&self.insert, self.waiting.len());
        execute(&mut self.database.prepare(&rest)?, &self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

fn statement<const N: usize>(insert: &str, rows: usize) -> String {
    let row = format!("({})", ["?"; N].join(", "));
    format!("{insert} values {}", vec![row; rows].join(", "))
}

fn execute<const N: usize>(add: &mut Statement<'_>, rows: &[[Value; N]]) -> rusqlite::Result<()> {
    for (place, value) in rows.iter().flatten().enumerate() {
        add.raw_bind_parameter(place + 1, value)?;
    }
    add.raw_execute()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_there() -> rusqlite::Result<()> {
        let database = Connection::open_in_memory()?;
        database.execute_batch("create table t (id integer primary key, a, b, c)")?;
        for count in [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS, 1000] {
            database.execute_batch("delete from t")?;
            let mut rows = Rows::new(&database, "insert or ignore into t")?;
            for id in 0..count {
                let text = (id % 3 == 0).then(|| format!("text {id}"));
                rows.put([
                    id.into(),
                    text.into(),
                    "word".into(),
                    (id as f64 / 2.0).into(),
                ])?;
            }
            // What is there already is left as it is.
            rows.put([0_u64.into(), Value::Null, Value::Null, Value::Null])?;
            rows.finish()?;
            let all = "select count(*), coalesce(sum(id), 0), count(a), coalesce(sum(c), 0) from t";
            let found: (usize, usize, usize, f64) = database.query_row(all, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
            let sum = (0..count).sum::<usize>();
            assert_eq!(
                found,
                (count.max(1), sum, count.div_ceil(3), sum as f64 / 2.0)
            );
        }
        Ok(())
    }
}
