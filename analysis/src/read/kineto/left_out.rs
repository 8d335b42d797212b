//! What was left out of a file, and what was in it.

use crate::model::{HostKind, Notice};

use super::meaning::Meaning;

/// Events that were left out for one cause.
#[derive(Debug, Default)]
pub(super) struct Cause {
    count: u64,
    first: Option<u64>,
}

impl Cause {
    #[cold]
    pub(super) fn add(&mut self, offset: u64) {
        self.count += 1;
        self.first.get_or_insert(offset);
    }
}

/// Events that were left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// No JSON.
    pub(super) malformed: Cause,
    /// Their times are no numbers, or before the beginning of time.
    pub(super) timeless: Cause,
    /// They end before they begin.
    pub(super) backward: Cause,
    /// Ends of what never began.
    pub(super) unmatched: Cause,
}

impl LeftOut {
    /// A notice for each cause, at the place of its first event.
    pub(super) fn notices(&self, file: &str) -> Vec<Notice> {
        let causes = [
            (&self.malformed, "no JSON"),
            (&self.timeless, "their times are no numbers from 0 on"),
            (&self.backward, "they end before they begin"),
            (&self.unmatched, "ends of slices that never began"),
        ];
        causes
            .into_iter()
            .filter(|(cause, _)| cause.count > 0)
            .map(|(cause, why)| Notice {
                file: file.to_owned(),
                offset: cause.first,
                text: match cause.count {
                    1 => format!("an event is left out here: {why}"),
                    count => format!("the first of {count} events that are left out: {why}"),
                },
            })
            .collect()
    }
}

/// How many events of each kind there were.
#[derive(Debug, Default)]
pub(super) struct Contents {
    gpu: u64,
    calls: u64,
    operators: u64,
    ranges: u64,
    functions: u64,
}

impl Contents {
    #[inline]
    pub(super) fn count(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Gpu(_) => self.gpu += 1,
            Meaning::Host(HostKind::Runtime) => self.calls += 1,
            Meaning::Host(HostKind::Operator) => self.operators += 1,
            Meaning::Host(HostKind::Function) => self.functions += 1,
            Meaning::Host(_) => self.ranges += 1,
            Meaning::Mark | Meaning::None => {}
        }
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

/// `1 range`, `2 ranges`.
pub(super) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
