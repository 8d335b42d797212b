//! Databases of SQLite that other profilers write, as records for `rsys-analysis`.
//!
//! | module | holds |
//! |---|---|
//! | [`rpd`] | rocmProfileData's (schema versions 1 to 3, also merged) and rocm-trace-lite's |
//! | [`rocpd`] | rocprofiler-sdk's, of rocprofv3 and rocprof-sys (schemas 3.x and 4.x) |
//! | [`nsys`] | Nsight Systems' exports |
//! | [`stream`] | rows from a thread of their own: a query is read while it runs, whatever its length |
//! | [`places`] | processes, threads, GPUs and queues of a file |
//!
//! [`OPENER`] is what `rsys_traces::read::understand` takes.

#![forbid(unsafe_code)]

mod nsys;
mod places;
mod rocpd;
mod rpd;
mod stream;

use std::path::Path;

use rsys_traces::model::Kinds;
use rsys_traces::read::{FurtherKind, OpenError, Opened};
use rusqlite::{Connection, OpenFlags};

/// What files of SQLite begin with (<https://www.sqlite.org/fileformat2.html>, 1.3.1).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// How such files are known and read.
pub const OPENER: FurtherKind = FurtherKind {
    begins_with: MAGIC,
    open,
};

/// A reader for a database.
///
/// # Errors
/// When it cannot be read, or is of no profiler that is known.
fn open(path: &Path, kinds: Kinds) -> Opened {
    let unreadable = |error: rusqlite::Error| {
        OpenError::Io(path.to_path_buf(), std::io::Error::other(error.to_string()))
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags).map_err(unreadable)?;
    let names = names(&database).map_err(unreadable)?;
    let has = |name: &str| names.iter().any(|one| one == name);
    // rocprofiler-sdk calls its own databases rocpd as well; its tables end in an id.
    if names.iter().any(|one| one.starts_with(rocpd::TABLE)) {
        return Ok(Box::new(rocpd::reader(database, path, kinds, names)));
    }
    if has("rocpd_api") && has("rocpd_op") && has("rocpd_string") && !has("rocpd_kernel_dispatch") {
        return Ok(Box::new(rpd::reader(database, path, kinds)));
    }
    if nsys::TABLES.iter().any(|name| has(name)) {
        return Ok(Box::new(nsys::reader(database, path, kinds)));
    }
    Err(OpenError::Unknown(path.to_path_buf()))
}

/// The names of all tables and views.
fn names(database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut names =
        database.prepare("select name from sqlite_master where type in ('table', 'view')")?;
    let names = names.query_map([], |row| row.get(0))?;
    names.collect()
}
