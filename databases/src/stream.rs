//! Rows of a database, read by a thread of their own.
//!
//! A statement borrows its connection, which a reader that is asked again and again could not hold; and SQLite reads while records are measured.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rsys_traces::model::{Batch, Model, Notice};
use rsys_traces::read::{BATCH_RECORDS, Reader};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

/// Records that are handed over at once.
const CHUNK: usize = 4096;
/// Chunks that may wait.
const CHUNKS: usize = 4;

/// What a thread hands over.
enum Message<R> {
    Records(Vec<R>),
    /// Something that the user has to know.
    Notice(String),
}

/// Where a thread puts what it reads.
pub(crate) struct Sink<R> {
    records: Vec<R>,
    to: SyncSender<Message<R>>,
}

/// Nobody reads any more.
#[derive(Debug)]
pub(crate) struct Closed;

impl<R> Sink<R> {
    pub(crate) fn put(&mut self, record: R) -> Result<(), Closed> {
        self.records.push(record);
        match self.records.len() < CHUNK {
            true => Ok(()),
            false => self.flush(),
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        let records = std::mem::take(&mut self.records);
        self.to.send(Message::Records(records)).map_err(|_| Closed)
    }

    pub(crate) fn say(&mut self, text: String) -> Result<(), Closed> {
        self.flush()?;
        self.to.send(Message::Notice(text)).map_err(|_| Closed)
    }

    /// Hands each row of a query to `take`, whose `None` is counted as a row that is left out. What cannot be read is said.
    pub(crate) fn rows(
        &mut self,
        database: &Connection,
        what: &str,
        sql: &str,
        mut take: impl FnMut(&Row<'_>) -> Option<R>,
    ) -> Result<(), Closed> {
        let (mut left_out, mut first) = (0_u64, None);
        let mut failed = None;
        match database.prepare(sql) {
            Err(error) => failed = Some(error),
            Ok(mut statement) => {
                let mut rows = statement.raw_query();
                loop {
                    match rows.next() {
                        Ok(None) => break,
                        Err(error) => {
                            failed = Some(error);
                            break;
                        }
                        Ok(Some(row)) => match take(row) {
                            Some(record) => self.put(record)?,
                            None => {
                                left_out += 1;
                                first = first.or_else(|| number(row, 0));
                            }
                        },
                    }
                }
            }
        }
        if let Some(error) = failed {
            self.say(format!("{what}: what follows is left out: {error}"))?;
        }
        if left_out > 0 {
            let first = first.map_or(String::new(), |id| format!(", the first with id {id}"));
            self.say(format!(
                "{left_out} of {what} without times that make sense are left out{first}"
            ))?;
        }
        Ok(())
    }
}

/// What a thread reads from a database.
pub(crate) struct Rows<R> {
    file: String,
    from: Receiver<Message<R>>,
}

impl<R: Send + 'static> Rows<R> {
    /// Starts the thread, which has the database for itself; `path` is where it is.
    pub(crate) fn start(
        database: Connection,
        path: &Path,
        read: impl FnOnce(&Connection, &mut Sink<R>) -> Result<(), Closed> + Send + 'static,
    ) -> Self {
        let (to, from) = sync_channel(CHUNKS);
        let file = path.display().to_string();
        thread::spawn(move || {
            let mut sink = Sink {
                records: Vec::new(),
                to,
            };
            // A thread that ends early must not look like the end of the file.
            let done = catch_unwind(AssertUnwindSafe(|| read(&database, &mut sink)));
            let done = done.unwrap_or_else(|_| {
                sink.say("what follows is left out: a defect of rsys-report".to_owned())
            });
            // An error means that the receiver is gone: the reader was dropped.
            drop(done.and_then(|()| sink.flush()));
        });
        Self { file, from }
    }

    /// The next records; `None` at the end. What the user has to know becomes notices.
    pub(crate) fn next(&mut self, model: &mut Model) -> Option<Vec<R>> {
        loop {
            match self.from.recv().ok()? {
                Message::Records(records) => return Some(records),
                Message::Notice(text) => model.notices.push(Notice {
                    file: self.file.clone(),
                    offset: None,
                    text,
                }),
            }
        }
    }
}

/// What rows of a file become.
pub(crate) trait Taker {
    /// A row.
    type Row: Send + 'static;

    /// Takes in a row.
    fn take(&mut self, row: Self::Row, model: &mut Model, batch: &mut Batch);
}

/// Reads a file whose rows a thread hands over.
pub(crate) struct RowReader<T: Taker> {
    pub rows: Rows<T::Row>,
    pub taker: T,
}

impl<T: Taker + Send> Reader for RowReader<T> {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let goal = batch.len() + BATCH_RECORDS;
        while batch.len() < goal {
            let Some(rows) = self.rows.next(model) else {
                return false;
            };
            for row in rows {
                self.taker.take(row, model, batch);
            }
        }
        true
    }
}

/// A whole number, also where a file has it as text or with a fraction; `None` if it is none.
pub(crate) fn number(row: &Row<'_>, column: usize) -> Option<i64> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => Some(number),
        ValueRef::Real(number) if number.abs() < 9e18 => Some(number as i64),
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// A text, empty if it is none.
pub(crate) fn text(row: &Row<'_>, column: usize) -> String {
    match row.get_ref(column) {
        Ok(ValueRef::Text(text) | ValueRef::Blob(text)) => {
            String::from_utf8_lossy(text).into_owned()
        }
        Ok(ValueRef::Integer(number)) => number.to_string(),
        Ok(ValueRef::Real(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// The columns of a table; none if it is not there.
pub(crate) fn columns(database: &Connection, table: &str) -> Vec<String> {
    let names = database
        .prepare(&format!("pragma table_info({table})"))
        .and_then(|mut statement| {
            let names = statement.query_map([], |row| row.get::<_, String>(1))?;
            names.collect()
        });
    names.unwrap_or_default()
}

/// Begin and end, if they are times and in order.
pub(crate) fn times(start_ns: Option<i64>, end_ns: Option<i64>) -> Option<(u64, u64)> {
    let (start_ns, end_ns) = (u64::try_from(start_ns?).ok()?, u64::try_from(end_ns?).ok()?);
    (start_ns <= end_ns).then_some((start_ns, end_ns))
}
