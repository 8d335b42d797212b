//! A query, from its text to its rows.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use rsys_tables::catalog::TABLES;
use rsys_tables::store::{Store, StoreError};
use rsys_tables::view::View;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, OpenFlags};
use thiserror::Error;

use crate::show::{Form, Writer};
use crate::{grouped, records, shape};

/// What a query may keep in memory beside the columns that it reads.
const HEAP_BYTES_MAX: i64 = 4 << 30;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum Failure {
    /// The query is wrong.
    #[error("the query: {0}")]
    Query(String),
    /// It cannot be answered: the tables are damaged, memory is short.
    #[error("the query cannot be answered: {0}")]
    Answer(String),
    /// The tables cannot be read.
    #[error("the file of tables {0}")]
    Store(#[from] StoreError),
    /// The answer cannot be written.
    #[error("the answer cannot be written: {0}")]
    Write(#[from] std::io::Error),
}

/// What was shown of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The rows.
    pub rows: u64,
    /// There are more.
    pub is_cut: bool,
}

/// Asks the tables of a store, and writes at most `limit` rows of the answer.
///
/// # Errors
/// When the query is wrong or no query that reads, cannot be answered, or the answer cannot be written.
pub fn query(
    store: File,
    sql: &str,
    limit: Option<u64>,
    form: Form,
    out: &mut dyn Write,
) -> Result<Shown, Failure> {
    let view = Arc::new(View::new(Store::open(store)?));
    let connection = connection(&view).map_err(|error| Failure::Answer(error.to_string()))?;
    let wrong = |error: rusqlite::Error| Failure::Query(told(&error));
    let grouped;
    let mut statement = connection.prepare(sql).map_err(wrong)?;
    if statement.column_count() == 0 {
        return Err(Failure::Query("is none: it asks for nothing".to_owned()));
    }
    let names = statement.column_names().map(str::to_owned);
    let mut writer = Writer::new(form, names.collect(), out);
    grouped = self::grouped(&view, sql)?;
    let of_groups = grouped.as_ref();
    let mut of_groups = of_groups.and_then(|(connection, sql)| connection.prepare(sql).ok());
    let mut rows = of_groups.as_mut().unwrap_or(&mut statement).raw_query();
    let mut shown = Shown {
        rows: 0,
        is_cut: false,
    };
    loop {
        let row = rows.next().map_err(|error| Failure::Answer(told(&error)))?;
        let Some(row) = row else { break };
        if limit.is_some_and(|limit| shown.rows >= limit) {
            shown.is_cut = true;
            break;
        }
        shown.rows += 1;
        writer.row(row)?;
    }
    writer.finish(shown)?;
    Ok(shown)
}

/// A database of groups, and what to ask it, if the query does no more than to group the rows of a table.
fn grouped(view: &View, sql: &str) -> Result<Option<(Connection, String)>, Failure> {
    let Some(grouping) = shape::grouping(sql) else {
        return Ok(None);
    };
    let Some(groups) = grouped::groups(view, &grouping)? else {
        return Ok(None);
    };
    let made = || {
        let mut connection = empty()?;
        grouped::store(&mut connection, &grouping, groups)?;
        connection.authorizer(Some(allowed))?;
        Ok(connection)
    };
    let connection = made().map_err(|error: rusqlite::Error| Failure::Answer(told(&error)))?;
    Ok(Some((connection, grouping.sql)))
}

/// An empty database in memory.
fn empty() -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_in_memory_with_flags(flags)?;
    connection.pragma_update(None, "hard_heap_limit", HEAP_BYTES_MAX)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "trusted_schema", true)?;
    Ok(connection)
}

/// A database with the tables, which reads and does nothing else.
fn connection(view: &Arc<View>) -> rusqlite::Result<Connection> {
    let mut connection = empty()?;
    for table in TABLES {
        records::register(&connection, view, table)?;
    }
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_aggregate_function(c"percentile", 2, flags, Percentile)?;
    connection.authorizer(Some(allowed))?;
    Ok(connection)
}

/// Reading, and nothing else: no file, no setting, no table that is made.
fn allowed(asked: AuthContext<'_>) -> Authorization {
    match asked.action {
        AuthAction::Function {
            function_name: "load_extension",
        } => Authorization::Deny,
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

/// An error of the engine in one line.
fn told(error: &rusqlite::Error) -> String {
    let text = match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        rusqlite::Error::MultipleStatement => "one at a time".to_owned(),
        error => error.to_string(),
    };
    match text.as_str() {
        "not authorized" => "only reading is allowed".to_owned(),
        text => text.lines().next().unwrap_or_default().to_owned(),
    }
}

/// `percentile(x, p)`: the smallest value of which at least `p` percent of the values are no larger.
#[derive(Debug)]
struct Percentile;

impl Aggregate<(Vec<f64>, f64), Option<f64>> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<(Vec<f64>, f64)> {
        Ok((Vec::new(), 0.0))
    }

    fn step(
        &self,
        context: &mut Context<'_>,
        (values, percent): &mut (Vec<f64>, f64),
    ) -> rusqlite::Result<()> {
        *percent = context.get(1)?;
        values.extend(context.get::<Option<f64>>(0)?);
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        taken: Option<(Vec<f64>, f64)>,
    ) -> rusqlite::Result<Option<f64>> {
        let Some((mut values, percent)) = taken.filter(|(values, _)| !values.is_empty()) else {
            return Ok(None);
        };
        if !(0.0..=100.0).contains(&percent) {
            let text = "percentile(x, p): p is a number from 0 to 100";
            return Err(rusqlite::Error::UserFunctionError(text.into()));
        }
        let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
        let (_, value, _) = values.select_nth_unstable_by(rank.saturating_sub(1), f64::total_cmp);
        Ok(Some(*value))
    }
}
