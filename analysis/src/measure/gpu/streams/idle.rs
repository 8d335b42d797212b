//! Idle time of streams, by what the next operation waited for. The kinds are those by which Holistic Trace Analysis divides it.

use std::collections::BTreeMap;

use super::{Operation, Place, columns};
use crate::joined::ids::CorrelationId;
use crate::joined::submissions::Submissions;
use crate::table::{Column, Table};
use rsys_traces::model::{Model, ProcessId};

/// The GPU takes so long from a kernel to the next that is there already; what is longer has another reason.
const BETWEEN_KERNELS_NS: u64 = 30;

/// What a stream did.
#[derive(Debug, Default)]
struct StreamIdle {
    span_ns: Option<(u64, u64)>,
    idle_ns: u64,
    host_wait_ns: u64,
    kernel_wait_ns: u64,
    unknown_ns: u64,
}

impl StreamIdle {
    /// Takes in the next operation in order of begins.
    fn add(&mut self, one: &Operation, launched_ns: Option<u64>) {
        let Some((first_ns, last_ns)) = self.span_ns else {
            self.span_ns = Some((one.start_ns, one.end_ns));
            return;
        };
        self.span_ns = Some((first_ns, last_ns.max(one.end_ns)));
        let idle_ns = one.start_ns.saturating_sub(last_ns);
        self.idle_ns += idle_ns;
        match launched_ns {
            Some(launched_ns) if launched_ns > last_ns => self.host_wait_ns += idle_ns,
            _ if idle_ns <= BETWEEN_KERNELS_NS => self.kernel_wait_ns += idle_ns,
            Some(_) => {}
            None => self.unknown_ns += idle_ns,
        }
    }
}

/// The table.
pub(super) fn table(
    streams: &BTreeMap<Place, Vec<Operation>>,
    calls: &BTreeMap<ProcessId, Submissions>,
    model: &Model,
) -> Table {
    let columns = columns(&[
        Column::plain("operations", "operations"),
        Column::ns("total_ns", "first to last"),
        Column::ns("idle_ns", "idle"),
        Column::share("idle_share", "idle"),
        Column::ns("host_wait_ns", "host wait"),
        Column::ns("kernel_wait_ns", "kernel wait"),
        Column::ns("other_wait_ns", "other"),
        Column::ns("unknown_ns", "unknown"),
    ]);
    let mut table = Table::new(
        "stream_idle",
        "Idle time of each stream, by what its next operation waited for",
        &columns,
    );
    for (place, list) in streams {
        let mut of_stream = StreamIdle::default();
        for one in list {
            let link = CorrelationId::new(one.link);
            let of_process = calls.get(&place.process);
            let call = of_process.zip(link).and_then(|(of_process, link)| {
                // Ids may begin anew.
                of_process.find(link, one.start_ns)
            });
            of_stream.add(one, call.map(|call| call.start_ns));
        }
        let (first_ns, last_ns) = of_stream.span_ns.unwrap_or_default();
        let total_ns = last_ns - first_ns;
        let known_ns = of_stream.host_wait_ns + of_stream.kernel_wait_ns + of_stream.unknown_ns;
        let mut cells = place.cells(model);
        cells.extend([
            (list.len() as u64).into(),
            total_ns.into(),
            of_stream.idle_ns.into(),
            (total_ns > 0)
                .then(|| of_stream.idle_ns as f64 / total_ns as f64)
                .into(),
            of_stream.host_wait_ns.into(),
            of_stream.kernel_wait_ns.into(),
            (of_stream.idle_ns - known_ns).into(),
            of_stream.unknown_ns.into(),
        ]);
        table.push(cells);
    }
    table
}
