//! What rocprofv3 writes as text: JSON, and tables with commas.
//!
//! | file | holds |
//! |---|---|
//! | `json` | the JSON: processes one after another, names and records |
//! | `record`, `names` | the numbers of a record, and what they stand for |
//! | `csv`, `rows`, `group` | the tables: records, lines and cells, and which files belong to one process |
//! | `emit`, `places` | the records that all of these make, and what their ids stand for |
//!
//! Times are nanoseconds of CLOCK_BOOTTIME, as in our own traces.

mod csv;
mod emit;
mod group;
mod json;
mod names;
mod places;
mod record;
mod rows;

pub(super) use csv::CsvReader;
pub use group::csv_companions;
pub(super) use json::{JsonReader, KEY};
pub(super) use rows::is_table;

/// What a call of roctx leaves in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Mark,
    /// A range of a thread.
    Range,
    /// A range that any thread may end.
    ProcessRange,
}

/// What a call of roctx leaves, by its name; `None` of those that end ranges or speak to the profiler.
fn marker(call: &str) -> Option<Marker> {
    match call {
        "roctxMarkA" => Some(Marker::Mark),
        "roctxRangePushA" | "roctxThreadRangeA" => Some(Marker::Range),
        "roctxRangeStartA" | "roctxProcessRangeA" => Some(Marker::ProcessRange),
        _ => None,
    }
}
