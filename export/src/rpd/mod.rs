//! Databases of rocmProfileData (schema version 3): calls, operations, markers, sensors and the call stacks of calls.
//!
//! Numbers of GPUs and processes leave room for hosts, as its merger does: those of host `n` are above `n` times the strides in `rocpd_metadata`.
//!
//! | file | holds |
//! |---|---|
//! | `schema` | tables, views, indexes |
//! | `texts` | texts that are in the database once |
//! | `calls` | calls and their stacks |
//! | `nodes` | numbers of processes and GPUs of several nodes |
//! | `operations` | operations of GPUs and what links them with calls |
//! | `others` | markers and monitors |

mod calls;
mod nodes;
mod operations;
mod others;
mod schema;
mod texts;

use std::path::Path;

use crate::Failure;
use crate::run::Run;
use crate::sqlite::Bulk;
use nodes::{GPU_STRIDE, Nodes, PID_STRIDE};
use texts::Texts;

/// Writes a new database.
///
/// # Errors
/// When the store is damaged, or the database cannot be written.
pub(crate) fn write(run: &Run<'_>, path: &Path) -> Result<(), Failure> {
    let bulk = Bulk::create(path, schema::SCHEMA)?;
    let made = write_rows(run, &bulk);
    // What cannot be written is the reason, where both have failed.
    let database = bulk.finish()?;
    made?;
    database.execute_batch(schema::INDEXES)?;
    database.execute_batch("commit")?;
    Ok(())
}

/// Writes all rows.
fn write_rows(run: &Run<'_>, bulk: &Bulk) -> Result<(), Failure> {
    let mut metadata = bulk.rows("rocpd_metadata", ["tag", "value"])?;
    for (tag, value) in [
        ("gpu_stride", GPU_STRIDE),
        ("pid_stride", PID_STRIDE),
        ("schema_version", 3),
        ("session_count", 1),
    ] {
        metadata.put([tag.into(), value.to_string().as_str().into()])?;
    }
    metadata.finish();
    let nodes = Nodes::of(run);
    let mut texts = Texts::new(bulk)?;
    let calls = calls::write_calls(run, &nodes, bulk, &mut texts)?;
    if run.only.gpu {
        operations::write_operations(run, &nodes, bulk, &mut texts, &calls)?;
    }
    if run.only.ranges {
        others::write_markers(run, &nodes, bulk, &mut texts)?;
    }
    if run.only.sensors {
        others::write_monitors(run, &nodes, bulk)?;
    }
    texts.finish();
    Ok(())
}
