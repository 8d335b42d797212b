//! How long kernels took in stretches of the run: what a comparison of runs needs to tell a change from chance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::containers::id_map::IdMap;
use crate::measure::Measure;
use crate::table::Answer;
use rsys_traces::model::{Batch, Kinds, Model, OpKind, ProcessId, TextId};

/// Stretches that are kept of a kernel of a process, at most.
const STRETCHES: usize = 64;

/// Launches of a kernel that followed each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stretch {
    /// How many.
    pub count: u64,
    /// The sum of their durations.
    pub sum_ns: u64,
}

/// All launches of a kernel by a process, in stretches of equal numbers; the last may be shorter.
#[derive(Debug, Clone, Default)]
struct Stretches {
    all: Vec<Stretch>,
    /// Launches in a whole one.
    whole: u64,
}

impl Stretches {
    fn add(&mut self, duration_ns: u64) {
        self.whole = self.whole.max(1);
        if self.all.last().is_none_or(|last| last.count == self.whole) {
            if self.all.len() == STRETCHES {
                self.halve();
            }
            self.all.push(Stretch::default());
        }
        if let Some(last) = self.all.last_mut() {
            last.count += 1;
            last.sum_ns += duration_ns;
        }
    }

    /// Makes one of each two.
    fn halve(&mut self) {
        let pairs = self.all.chunks(2).map(|pair| Stretch {
            count: pair.iter().map(|one| one.count).sum(),
            sum_ns: pair.iter().map(|one| one.sum_ns).sum(),
        });
        self.all = pairs.collect();
        self.whole *= 2;
    }
}

/// The measure. Clones share what was read.
#[derive(Debug, Clone, Default)]
pub struct Spread(Arc<Mutex<IdMap<(ProcessId, TextId), Stretches>>>);

impl Measure for Spread {
    fn needs(&self) -> Kinds {
        Kinds::GPU
    }

    fn take(&mut self, batch: &Batch) {
        let mut kernels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in &batch.gpu {
            if record.kind == OpKind::Kernel {
                let key = (record.process, record.name);
                kernels.entry(key).or_default().add(record.duration_ns());
            }
        }
    }

    /// Nothing: see [`Spread::kernels`].
    fn answer(&mut self, _model: &Model, _label: &str) -> Answer {
        Answer::default()
    }
}

impl Spread {
    /// The stretches of each kernel, those of a process in order of time, the processes in the order of output.
    #[must_use]
    pub fn kernels(&self, model: &Model) -> BTreeMap<String, Vec<Stretch>> {
        let kernels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = kernels.iter().collect();
        all.sort_by_key(|((process, name), _)| {
            (model.process(*process).order(), model.text(*name))
        });
        let mut found: BTreeMap<String, Vec<Stretch>> = BTreeMap::new();
        for ((_, name), stretches) in all {
            let of_name = found.entry(model.text(*name).to_owned()).or_default();
            of_name.extend_from_slice(&stretches.all);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_many_there_are() {
        for count in [0_u64, 1, 63, 64, 65, 128, 1000, 12_345] {
            let mut stretches = Stretches::default();
            (1..=count).for_each(|duration_ns| stretches.add(duration_ns));
            let launches: u64 = stretches.all.iter().map(|one| one.count).sum();
            let sum: u64 = stretches.all.iter().map(|one| one.sum_ns).sum();
            assert_eq!((launches, sum), (count, count * (count + 1) / 2));
            assert!(stretches.all.len() <= STRETCHES);
            assert!(stretches.all.len() as u64 >= count.min(32));
            let (_, whole) = stretches
                .all
                .split_last()
                .unwrap_or((&stretches.all.first().copied().unwrap_or_default(), &[]))
                .to_owned();
            assert!(whole.iter().all(|one| one.count == stretches.whole));
        }
    }
}
