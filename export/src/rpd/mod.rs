//! Databases of rocmProfileData (schema version 3): calls, operations, markers, sensors and the call stacks of calls.
//!
//! Numbers of GPUs and processes leave room for hosts, as its merger does: those of host `n` are above `n` times the strides in `rocpd_metadata`.
//!
//! | file | holds |
//! |---|---|
//! | `schema` | tables, views, indexes |
//! | `texts` | texts that are in the database once |
//! | `calls` | calls, operations and what links them |
//! | `others` | markers and monitors |

mod calls;
mod others;
mod schema;
mod texts;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use rusqlite::{Connection, params};

use crate::Failure;
use crate::run::{Process, Run};
use texts::Texts;

const GPU_STRIDE: u64 = 1000;
const PID_STRIDE: u64 = 10_000_000;

/// Writes a new database.
///
/// # Errors
/// When the store is damaged, or the database cannot be written.
pub(crate) fn write(run: &Run<'_>, path: &Path) -> Result<(), Failure> {
    // Nothing that is there is written over.
    drop(std::fs::File::create_new(path)?);
    let database = Connection::open(path)?;
    // A file that is not finished goes away, so nothing need be durable before.
    database.execute_batch("pragma journal_mode = off; pragma synchronous = off; pragma locking_mode = exclusive; begin")?;
    database.execute_batch(schema::SCHEMA)?;
    for (tag, value) in [
        ("gpu_stride", GPU_STRIDE),
        ("pid_stride", PID_STRIDE),
        ("schema_version", 3),
        ("session_count", 1),
    ] {
        database.execute(
            "insert into rocpd_metadata (tag, value) values (?, ?)",
            params![tag, value.to_string()],
        )?;
    }
    let nodes = Nodes::of(run);
    let mut texts = Texts::new(&database)?;
    let links = calls::write_calls(run, &nodes, &database, &mut texts)?;
    if run.only.gpu {
        calls::write_operations(run, &nodes, &database, &mut texts, &links)?;
    }
    if run.only.ranges {
        others::write_markers(run, &nodes, &database, &mut texts)?;
    }
    if run.only.sensors {
        others::write_monitors(run, &nodes, &database)?;
    }
    drop(texts);
    database.execute_batch(schema::INDEXES)?;
    database.execute_batch("commit")?;
    Ok(())
}

/// The numbers of hosts.
#[derive(Debug)]
struct Nodes(HashMap<String, u64>);

impl Nodes {
    fn of(run: &Run<'_>) -> Self {
        let hosts = run.processes().map(|(_, process)| process.host.clone());
        let hosts: BTreeSet<String> = hosts.collect();
        Self(hosts.into_iter().zip(0..).collect())
    }

    fn node(&self, process: &Process) -> u64 {
        self.0.get(&process.host).copied().unwrap_or(0)
    }

    /// The number of a process.
    fn pid(&self, process: &Process) -> u64 {
        process.pid + self.node(process) * PID_STRIDE
    }

    /// The number of a GPU.
    fn gpu(&self, process: &Process, device: u64) -> u64 {
        device + self.node(process) * GPU_STRIDE
    }
}
