//! Databases of rocprofiler-sdk (`rocpd`, schema version 3.0.3): operations, calls, ranges, samples with their call stacks, counters.
//!
//! They share nothing but the name with those of rocmProfileData. Tables end in an id of the file, so that several files can be attached to each other; views
//! without it are what tools ask.
//!
//! | file | holds |
//! |---|---|
//! | `schema` | tables and views |
//! | `entities` | what records refer to |
//! | `events` | what each record says besides its times |
//! | `records` | operations and calls |
//! | `others` | ranges, waits, samples, counters |

mod entities;
mod events;
mod others;
mod records;
mod schema;

use std::path::Path;

use crate::Failure;
use crate::run::Run;
use crate::sqlite::{Bulk, Rows};
use crate::stacks::Stacks;
use entities::Entities;
use events::Events;

/// A database while it is written.
struct Database<'b> {
    bulk: &'b Bulk,
    suffix: &'b str,
    entities: Entities,
    events: Events<'b>,
}

impl<'b> Database<'b> {
    /// Rows to be added to a table.
    fn insert<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
    ) -> Result<Rows<'b, N>, Failure> {
        insert(self.bulk, self.suffix, table, columns)
    }
}

/// Rows to be added to a table of a file.
fn insert<'b, const N: usize>(
    bulk: &'b Bulk,
    suffix: &str,
    table: &str,
    columns: [&str; N],
) -> Result<Rows<'b, N>, Failure> {
    bulk.rows(&format!("rocpd_{table}{suffix}"), columns)
}

/// Writes a new database.
///
/// # Errors
/// When the store is damaged, or the database cannot be written.
pub(crate) fn write(run: &Run<'_>, path: &Path) -> Result<(), Failure> {
    let guid = guid(run);
    let suffix = format!("_{}", guid.replace('-', "_"));
    let bulk = Bulk::create(path, &schema::schema(&guid, &suffix))?;
    let made = write_records(run, &bulk, &guid, &suffix);
    // What cannot be written is the reason, where both have failed.
    let database = bulk.finish()?;
    made?.write(run, &database, &suffix)?;
    database.execute_batch("commit")?;
    Ok(())
}

/// Writes all records; returns what they refer to.
fn write_records(
    run: &Run<'_>,
    bulk: &Bulk,
    guid: &str,
    suffix: &str,
) -> Result<Entities, Failure> {
    let mut metadata = insert(bulk, suffix, "metadata", ["tag", "value"])?;
    for (tag, value) in [("schema_version", "3"), ("uuid", suffix), ("guid", guid)] {
        metadata.put([tag.into(), value.into()])?;
    }
    metadata.finish();
    let stacks = Stacks::read(run.view)?;
    let mut database = Database {
        bulk,
        suffix,
        entities: Entities::of(run),
        events: Events::new(bulk, suffix, &stacks)?,
    };
    if run.only.gpu {
        database.operations(run)?;
    }
    if run.only.gpu || run.only.rccl {
        database.calls(run)?;
    }
    if run.only.ranges {
        database.ranges(run, "ranges")?;
        database.marks(run)?;
    }
    if run.only.samples {
        database.ranges(run, "waits")?;
        database.samples(run)?;
    }
    if run.only.sensors {
        database.counters(run)?;
    }
    let Database {
        entities, events, ..
    } = database;
    events.finish();
    Ok(entities)
}

/// What tells databases apart: made of the processes, so that the same run has the same.
fn guid(run: &Run<'_>) -> String {
    /// FNV-1a with 128 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>).
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash = BASIS;
    for (_, process) in run.processes() {
        let told = format!(
            "{} {} {:?} {} {};",
            process.host, process.pid, process.rank, process.start_ns, process.end_ns
        );
        for byte in told.bytes() {
            hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }
    // A UUID of version 8, whose bits mean what its maker likes (RFC 9562).
    let hash = hash & !(0xF << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    let digits = format!("{hash:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}
