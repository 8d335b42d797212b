//! What passes between a launch and the end of its operation: T = A + Q + K.

use super::join::{Call, Operation};
use super::ledger::Time;
use crate::containers::quantiles::Quantiles;

/// The times of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    /// A: within the call, until it ends or the operation begins.
    pub(super) submit_ns: u64,
    /// Q: from there to the begin of the operation.
    pub(super) queue_ns: u64,
    /// K: the operation.
    pub(super) run_ns: u64,
}

impl Parts {
    /// The parts of an operation and its call. An operation that seems to begin before its call has neither A nor Q.
    pub(super) fn of(operation: &Operation, call: Call) -> Self {
        let submitted_ns = submitted_ns(operation, call);
        Self {
            submit_ns: submitted_ns.saturating_sub(call.start_ns),
            queue_ns: operation.start_ns - submitted_ns,
            run_ns: operation.duration_ns(),
        }
    }
}

/// When an operation was handed over: where its call ends, and at its begin at the latest.
pub(super) fn submitted_ns(operation: &Operation, call: Call) -> u64 {
    call.end_ns.min(operation.start_ns)
}

/// So many values of each part are kept as they are: three times that for each name.
pub(super) const EXACT_MAX: usize = 4096;

/// The values of one of the parts.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) total_ns: u64,
    pub(super) max_ns: u64,
    quantiles: Quantiles<EXACT_MAX>,
}

impl Values {
    fn add(&mut self, value_ns: u64) {
        self.total_ns += value_ns;
        self.max_ns = self.max_ns.max(value_ns);
        self.quantiles.add(value_ns);
    }

    /// Median and 95th percentile; `None` without values.
    pub(super) fn quantiles_ns(&self) -> Option<[f64; 2]> {
        self.quantiles.at([0.5, 0.95])
    }

    /// Whether there were few enough for exact quantiles.
    pub(super) fn is_exact(&self) -> bool {
        self.quantiles.is_exact()
    }
}

/// The launches of operations of one name.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// Those whose call is known.
    pub(super) linked: u64,
    /// A.
    pub(super) submit: Values,
    /// Q.
    pub(super) queue: Values,
    /// K of those.
    pub(super) run: Values,
    /// Those whose call is not known.
    pub(super) unlinked: Time,
}

impl Delays {
    /// Takes in an operation.
    pub(super) fn add(&mut self, operation: &Operation, call: Option<Call>) {
        let Some(call) = call else {
            self.unlinked.add(operation.duration_ns());
            return;
        };
        if call.is_graph {
            return self.add_node(operation);
        }
        self.add_launch(operation, call);
    }

    /// Takes in a node of a graph, of which the launch counts elsewhere.
    fn add_node(&mut self, operation: &Operation) {
        self.linked += 1;
        self.run.add(operation.duration_ns());
    }

    /// Takes in an operation and the call that launched it, or all that a graph ran and its call.
    pub(super) fn add_launch(&mut self, operation: &Operation, call: Call) {
        let parts = Parts::of(operation, call);
        self.linked += 1;
        self.submit.add(parts.submit_ns);
        self.queue.add(parts.queue_ns);
        self.run.add(parts.run_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::{GpuRecord, TextId, ThreadId};

    #[test]
    fn parts_sum_to_the_time_from_the_call_to_the_end() {
        let cases = [
            // Call, operation, A, Q.
            ((100, 110), (150, 200), 10, 40),
            ((100, 300), (150, 200), 50, 0),
            ((100, 150), (150, 200), 50, 0),
            // A clock that is off.
            ((160, 170), (150, 200), 0, 0),
        ];
        for ((call_ns, return_ns), (start_ns, end_ns), submit_ns, queue_ns) in cases {
            let call = Call {
                start_ns: call_ns,
                end_ns: return_ns,
                thread: ThreadId::default(),
                name: TextId::EMPTY,
                is_graph: false,
            };
            let operation = Operation::from(&GpuRecord {
                start_ns,
                end_ns,
                ..GpuRecord::default()
            });
            let parts = Parts::of(&operation, call);
            assert_eq!((parts.submit_ns, parts.queue_ns), (submit_ns, queue_ns));
            let total_ns = parts.submit_ns + parts.queue_ns + parts.run_ns;
            assert_eq!(total_ns, end_ns - call_ns.min(start_ns));
        }
    }
}
