//! A value of each processor.

use std::sync::Arc;

use rsys_config::Numbers;

use crate::counters::{Gauge, Group, Reading, Unit};

/// The processors that have tracks of their own: where nothing was said, none.
#[derive(Debug, Clone)]
pub(super) struct Chosen(pub(super) Numbers);

impl Chosen {
    fn has(&self, processor: usize) -> bool {
        let number = u32::try_from(processor).ok();
        self.0 != Numbers::Unsaid && number.is_some_and(|number| self.0.contains(number))
    }
}

/// A value of each processor: mean, lowest and highest, and those that were asked for.
#[derive(Debug)]
pub(super) struct Spread {
    name: &'static str,
    unit: Unit,
    group: Arc<Group>,
    chosen: Chosen,
    mean: Gauge,
    lowest: Gauge,
    highest: Gauge,
    single: Vec<Option<Gauge>>,
}

impl Spread {
    pub(super) fn new(
        name: &'static str,
        unit: Unit,
        group: &Arc<Group>,
        chosen: Chosen,
        description: &str,
    ) -> Self {
        let gauge = |which: &str| {
            Gauge::new(
                format!("{name} {which} (S)"),
                unit,
                Some(group),
                description,
            )
        };
        Self {
            name,
            unit,
            group: Arc::clone(group),
            chosen,
            mean: gauge("mean"),
            lowest: gauge("min"),
            highest: gauge("max"),
            single: Vec::new(),
        }
    }

    pub(super) fn set(
        &mut self,
        time_ns: u64,
        values: impl Iterator<Item = (usize, f64)>,
        out: &mut Vec<Reading>,
    ) {
        let (mut sum, mut count) = (0.0, 0_u32);
        let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
        for (processor, value) in values {
            sum += value;
            count += 1;
            lowest = lowest.min(value);
            highest = highest.max(value);
            if self.chosen.has(processor) {
                if processor >= self.single.len() {
                    self.single.resize_with(processor + 1, || None);
                }
                let single = self.single[processor].get_or_insert_with(|| {
                    let name = format!("{} [{processor}] (S)", self.name);
                    Gauge::new(name, self.unit, Some(&self.group), "")
                });
                single.set(time_ns, value, out);
            }
        }
        if count > 0 {
            let mean = (sum / f64::from(count) * 10.0).round() / 10.0;
            self.mean.set(time_ns, mean, out);
            self.lowest.set(time_ns, lowest, out);
            self.highest.set(time_ns, highest, out);
        }
    }
}
