//! What was left out of a file, and what was in it.

use std::collections::BTreeMap;

use super::meaning::{Meaning, may_be_of_device};
use crate::model::HostKind;
use crate::words::counted;

/// How many events of each kind there were.
#[derive(Debug, Default)]
pub(super) struct Contents {
    gpu: u64,
    calls: u64,
    operators: u64,
    ranges: u64,
    functions: u64,
    /// Operations of GPUs without a duration.
    pub(super) unfinished: u64,
    /// Calls, operators and functions of the host without one, and ranges.
    pub(super) unfinished_host: u64,
    pub(super) unfinished_ranges: u64,
    /// Events of categories that are not known, and look like work of a device or calls of its runtime.
    unknown: BTreeMap<Vec<u8>, u64>,
}

/// Unknown categories that are counted.
const UNKNOWN: usize = 4;

impl Contents {
    #[inline]
    pub(super) fn count(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Gpu(_) => self.gpu += 1,
            Meaning::Host(HostKind::Runtime) => self.calls += 1,
            Meaning::Host(HostKind::Operator) => self.operators += 1,
            Meaning::Host(HostKind::Function) => self.functions += 1,
            Meaning::Host(_) => self.ranges += 1,
            Meaning::GpuRange | Meaning::Counters | Meaning::Mark | Meaning::None => {}
        }
    }

    /// An event of no known category takes a time.
    pub(super) fn unknown(&mut self, category: &[u8]) {
        if let Some(count) = self.unknown.get_mut(category) {
            *count += 1;
        } else if self.unknown.len() < UNKNOWN && may_be_of_device(category) {
            self.unknown.insert(category.to_vec(), 1);
        }
    }

    /// What is said of such categories.
    pub(super) fn of_unknown(&self) -> Option<String> {
        let each = self.unknown.iter().map(|(category, count)| {
            let category = String::from_utf8_lossy(category);
            format!("{category} ({})", counted(*count, "event"))
        });
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| {
            format!(
                "categories that are not known, and may be work of a device or calls of its runtime, are left out: {}",
                each.join(", ")
            )
        })
    }

    /// Whether there was anything that is known.
    pub(super) fn is_empty(&self) -> bool {
        self.gpu + self.calls + self.operators + self.ranges + self.functions == 0
    }

    /// What there is instead of operations of GPUs, if there are none of those.
    pub(super) fn without_gpu(&self) -> Option<String> {
        if self.gpu > 0 {
            return None;
        }
        let kinds = [
            (self.operators, "operator"),
            (self.calls, "runtime call"),
            (self.ranges, "range"),
            (self.functions, "Python function call"),
        ];
        let kinds: Vec<String> = kinds
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|&(count, what)| counted(count, what))
            .collect();
        Some(match kinds.as_slice() {
            [] => "no operations of GPUs, nor anything else that is known".to_owned(),
            kinds => format!("no operations of GPUs, but {}", kinds.join(", ")),
        })
    }
}
