//! Which rows of a table are written, where a format has the tables as they are.

use rsys_tables::catalog::Table;

use crate::rows::Row;
use crate::run::Run;

/// Where a table has what decides whether a row is written.
#[derive(Debug)]
pub(crate) struct Chooser {
    name: &'static str,
    process: Option<usize>,
    times: Option<(usize, usize)>,
    runtime: Option<usize>,
}

impl Chooser {
    /// For the rows of a table whose columns are all asked for, in their order.
    pub(crate) fn new(table: &Table) -> Self {
        let place = |name: &str| table.column(name).map(|(place, _)| place);
        let point = place("time_ns").map(|place| (place, place));
        let is_record = !matches!(table.name, "processes");
        Self {
            name: table.name,
            process: place("process_id"),
            times: point
                .or_else(|| place("start_ns").zip(place("end_ns")))
                .filter(|_| is_record),
            runtime: place("runtime"),
        }
    }

    /// Whether a row is written.
    pub(crate) fn has(&self, run: &Run<'_>, row: Row<'_>) -> bool {
        let only = run.only;
        let is_of_kind = match self.name {
            "operations" => only.gpu,
            "ranges" | "markers" => only.ranges,
            "samples" | "waits" => only.samples,
            "counters" | "counter_tracks" => only.sensors,
            "collectives" => only.rccl,
            "calls" => self
                .runtime
                .is_none_or(|runtime| only.has_calls_of(row.text(runtime))),
            _ => true,
        };
        let Some(process) = self.process.filter(|_| is_of_kind) else {
            return is_of_kind;
        };
        let process = row.number(process);
        match self.times {
            Some((time, end)) if time == end => run.at(process, row.number(time)).is_some(),
            Some((start, end)) => run
                .during(process, row.number(start), row.number(end))
                .is_some(),
            None => run.process(process).is_some(),
        }
    }
}
