//! What hardware counters counted of kernels, by kernel and counter: a table of the question [`super::kernels`].

use std::collections::HashMap;

use rsys_traces::model::{KernelCounter, Model, TextId};

use crate::table::{Cell, Column};

/// Values of a counter, of the kernels of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::measure) struct Values {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

/// The columns of values.
pub(super) const COLUMNS: [Column; 6] = [
    Column::plain("counter", "counter"),
    Column::plain("counted", "counted"),
    Column::plain("mean", "mean"),
    Column::plain("min", "min"),
    Column::plain("max", "max"),
    Column::plain("total", "total"),
];

/// The values of all counters, by what tells rows apart and counter.
#[derive(Debug)]
pub(super) struct Counters<K> {
    of_keys: HashMap<(K, TextId), Values>,
}

impl<K> Default for Counters<K> {
    fn default() -> Self {
        Self {
            of_keys: HashMap::new(),
        }
    }
}

impl<K: std::hash::Hash + Eq + Copy> Counters<K> {
    /// Adds a value.
    pub(super) fn add(&mut self, key: K, counter: &KernelCounter) {
        let value = counter.value;
        let values = self
            .of_keys
            .entry((key, counter.counter))
            .or_insert(Values {
                count: 0,
                sum: 0.0,
                min: value,
                max: value,
            });
        values.count += 1;
        values.sum += value;
        values.min = values.min.min(value);
        values.max = values.max.max(value);
    }

    /// What tells each row apart, and its cells in [`COLUMNS`].
    pub(super) fn rows(&self, model: &Model) -> Vec<(K, [Cell; 6])> {
        let rows = self.of_keys.iter().map(|((key, counter), values)| {
            let name = model.text(*counter);
            let name = name.strip_prefix(KernelCounter::PREFIX).unwrap_or(name);
            let mean = values.sum / values.count as f64;
            let cells = [
                name.into(),
                values.count.into(),
                mean.into(),
                values.min.into(),
                values.max.into(),
                values.sum.into(),
            ];
            (*key, cells)
        });
        rows.collect()
    }
}
