//! Ranges of the program as the GPU saw them: from the begin of the first operation that was launched in a range to the end of the last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::{Operation, Place, columns};
use crate::containers::sets::Union;
use crate::program::iteration_names::{is_numbered, with_numbers_out};
use crate::table::{Column, Table};
use rsys_traces::model::{GpuRange, Model, QueueId, TextId};

/// What all ranges of a name on a stream are together.
#[derive(Debug, Default)]
struct Sum {
    count: u64,
    total_ns: u64,
    busy_ns: u64,
    max_ns: u64,
}

/// The table.
pub(super) fn table(
    streams: &BTreeMap<Place, Vec<Operation>>,
    ranges: &[GpuRange],
    order: &[usize],
    model: &Model,
) -> Table {
    let busy: HashMap<QueueId, Union> = streams
        .iter()
        .map(|(place, list)| {
            let times = list.iter().map(|one| (one.start_ns, one.end_ns));
            (place.queue, times.collect())
        })
        .collect();
    let none = Union::default();
    let mut names: HashMap<TextId, String> = HashMap::new();
    let mut sums: BTreeMap<(Place, String), Sum> = BTreeMap::new();
    for range in ranges {
        let name = names.entry(range.name).or_insert_with(|| {
            let name = model.text(range.name);
            match is_numbered(name) {
                true => with_numbers_out(name),
                false => name.to_owned(),
            }
        });
        let place = Place::of(range.queue, range.process, order, model);
        let sum = sums.entry((place, name.clone())).or_default();
        let of_stream = busy.get(&range.queue).unwrap_or(&none);
        sum.count += 1;
        sum.total_ns += range.end_ns - range.start_ns;
        sum.busy_ns += of_stream.within((range.start_ns, range.end_ns));
        sum.max_ns = sum.max_ns.max(range.end_ns - range.start_ns);
    }
    let columns = columns(&[
        Column::plain("range", "range"),
        Column::plain("count", "count"),
        Column::ns("total_ns", "from begin to end"),
        Column::ns("busy_ns", "busy in it"),
        Column::share("busy_share", "busy"),
        Column::ns("max_ns", "longest"),
    ]);
    let title = "Ranges of the program as each stream saw them: from the first operation launched in them to the last";
    let mut table = Table::new("gpu_ranges", title, &columns);
    table.rows_in_text = 30;
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|((place, _), sum)| (place.device, Reverse(sum.total_ns)));
    for ((place, name), sum) in rows {
        let mut cells = place.cells(model);
        cells.extend([
            name.into(),
            sum.count.into(),
            sum.total_ns.into(),
            sum.busy_ns.into(),
            (sum.total_ns > 0)
                .then(|| sum.busy_ns as f64 / sum.total_ns as f64)
                .into(),
            sum.max_ns.into(),
        ]);
        table.push(cells);
    }
    table
}
