//! How fast collectives moved data, by classes of sizes.

use std::collections::BTreeMap;

use super::bandwidth;
use crate::measure::gpu::copies::{size_class, size_name};
use crate::measure::job::collectives::job::records::{Matching, ShapeTotals};
use crate::measure::job::operation::Operation;
use crate::table::{Column, Table};
use rsys_traces::model::Model;

/// Sums of operations of one class. Times are nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: u64,
    /// Sizes of whole operations, and the times in which they were moved: the shortest of any rank each, for that one did not wait.
    bytes: u128,
    moved_ns: u64,
    start_skew_ns: u64,
    end_skew_ns: u64,
}

impl Sums {
    fn add(&mut self, whole_bytes: u64, total: &ShapeTotals) {
        self.count += total.count;
        self.bytes += u128::from(whole_bytes) * u128::from(total.count);
        self.moved_ns += total.latency_min_ns;
        self.start_skew_ns += total.start_skew_ns;
        self.end_skew_ns += total.end_skew_ns;
    }

    /// Bytes for each second.
    fn algorithm(&self) -> Option<f64> {
        let is_known = self.bytes > 0 && self.moved_ns > 0;
        is_known.then(|| self.bytes as f64 / self.moved_ns as f64 * 1e9)
    }
}

/// By communicator, operation, type and class of sizes.
pub(super) fn table(matching: &Matching, model: &Model) -> Table {
    let columns = [
        Column::plain("operation", "operation"),
        Column::plain("data_type", "type"),
        Column::plain("size", "size"),
        Column::plain("communicator", "communicator"),
        Column::plain("ranks", "ranks"),
        Column::plain("count", "count"),
        Column::bytes("whole_bytes", "bytes"),
        Column::ns("moved_ns", "moved in"),
        Column::ns("start_skew_mean_ns", "skew"),
        Column::ns("end_skew_mean_ns", "at end"),
        bandwidth("algorithm_bytes_per_s", "algorithm"),
        bandwidth("bus_bytes_per_s", "bus"),
    ];
    let mut table = Table::new("bandwidths", "Bandwidth of collectives by size", &columns);
    table.rows_in_text = 20;
    // Groups are in the order of communicators.
    let mut rows: BTreeMap<(usize, &str, &str, usize, u64), Sums> = BTreeMap::new();
    for (&(group, shape), total) in &matching.totals {
        let shape = &matching.shapes[shape];
        let of_group = matching.groups[group].members.len() as u64;
        let ranks = shape.ranks.unwrap_or(of_group);
        let [name, data_type] = [shape.name, shape.data_type].map(|id| model.text(id));
        // Barriers move nothing, and of others the size may not be known.
        let Some(bytes) = shape.known_bytes() else {
            continue;
        };
        let key = (group, name, data_type, size_class(bytes), ranks);
        let whole_bytes = Operation::of(name).whole_bytes(bytes, ranks);
        rows.entry(key).or_default().add(whole_bytes, total);
    }
    for ((group, name, data_type, size, ranks), sums) in rows {
        let mean = |sum_ns: u64| sum_ns as f64 / sums.count.max(1) as f64;
        let algorithm = sums.algorithm();
        let bus = algorithm.map(|speed| speed * Operation::of(name).bus_factor(ranks));
        table.push(vec![
            name.into(),
            data_type.into(),
            size_name(size).into(),
            matching.groups[group].name().into(),
            ranks.into(),
            sums.count.into(),
            u64::try_from(sums.bytes).ok().into(),
            sums.moved_ns.into(),
            mean(sums.start_skew_ns).into(),
            mean(sums.end_skew_ns).into(),
            algorithm.into(),
            bus.into(),
        ]);
    }
    table
}
