//! How the durations of each kernel spread.

use std::collections::BTreeMap;

use crate::measure::Measure;
use crate::table::{Answer, Column, Row, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{Batch, Kinds, Model, OpKind};

/// So many kernels, those that took most time, have their durations shown.
const KERNELS_MAX: usize = 100;

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct KernelDurations {
    of_names: Vec<Spread>,
}

/// How many durations lie in each class; see [`class`].
#[derive(Debug, Default)]
struct Spread {
    total_ns: u64,
    classes: BTreeMap<u32, u64>,
}

/// The number of the class of a duration: four between a power of two and the next.
fn class(duration_ns: u64) -> u32 {
    match duration_ns.checked_ilog2() {
        None | Some(0 | 1) => duration_ns as u32,
        Some(log) => 4 * (log - 1) + (duration_ns >> (log - 2)) as u32 - 4,
    }
}

/// The shortest duration of a class.
fn shortest_ns(class: u32) -> u64 {
    match class {
        0..4 => u64::from(class),
        _ => (4 + u64::from(class % 4)) << (class / 4 - 1),
    }
}

impl Measure for KernelDurations {
    fn needs(&self) -> Kinds {
        Kinds::GPU
    }

    fn take(&mut self, batch: &Batch) {
        for record in batch.gpu.iter().filter(|one| one.kind == OpKind::Kernel) {
            let spread = entry(&mut self.of_names, record.name.index());
            spread.total_ns += record.duration_ns();
            *spread
                .classes
                .entry(class(record.duration_ns()))
                .or_default() += 1;
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let spreads = self.of_names.iter().enumerate();
        let mut order: Vec<(&Spread, &str)> = spreads
            .filter(|(_, spread)| !spread.classes.is_empty())
            .map(|(index, spread)| (spread, model.texts.at(index)))
            .collect();
        order.sort_by_key(|(spread, name)| (std::cmp::Reverse(spread.total_ns), *name));
        let columns = [Column::plain("name", "kernel")];
        let mut table = Table::new("kernel_durations", "Durations of kernels", &columns);
        let notes = match order.len() {
            0..=KERNELS_MAX => Vec::new(),
            count => vec![format!(
                "of {count} kernels, the durations of the {KERNELS_MAX} that took most time are drawn"
            )],
        };
        for (spread, name) in order.into_iter().take(KERNELS_MAX) {
            let columns = [
                Column::ns("from_ns", ""),
                Column::ns("to_ns", ""),
                Column::plain("count", ""),
            ];
            let mut below = Table::new("durations", "", &columns);
            below.is_detail = true;
            for (&class, &count) in &spread.classes {
                let bounds = [shortest_ns(class), shortest_ns(class + 1)];
                below.push(vec![bounds[0].into(), bounds[1].into(), count.into()]);
            }
            table.push(Row {
                cells: vec![name.into()],
                below: vec![below],
            });
        }
        Answer {
            is_empty: table.rows.is_empty(),
            tables: vec![table],
            notes,
            ..Answer::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_the_durations_between_their_bounds() {
        for shift in 0..63 {
            for duration_ns in [
                1_u64 << shift,
                (1 << shift) + 1,
                (3 << shift) / 2,
                (1 << shift) - 1,
            ] {
                let class = class(duration_ns);
                assert!(shortest_ns(class) <= duration_ns, "{duration_ns}");
                assert!(duration_ns < shortest_ns(class + 1), "{duration_ns}");
            }
        }
    }
}
