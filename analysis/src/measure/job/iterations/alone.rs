//! How long kernels were all that a GPU did: what of them nothing hides.

use std::collections::{BTreeMap, HashMap};

use super::assign::Operation;
use super::sums::COMPUTE;
use rsys_traces::model::{Model, TextId};

/// So many kernels are kept of a GPU, those that were alone for longest.
const KEPT: usize = 12;

/// The time in which all kernels that ran had one name, and nothing else ran, by that name; the longest first.
pub(super) fn alone(
    operations: &[(usize, Operation)],
    none: usize,
    model: &Model,
) -> Vec<(String, u64)> {
    let own = operations
        .iter()
        .filter(|(place, one)| *place != none && one.bits != 0);
    let mut events: Vec<(u64, bool, u64, bool)> = Vec::new();
    for (_, one) in own.filter(|(_, one)| one.start_ns < one.end_ns) {
        let is_kernel = one.is_kernel && one.bits & COMPUTE != 0;
        events.push((one.start_ns, true, one.name, is_kernel));
        events.push((one.end_ns, false, one.name, is_kernel));
    }
    events.sort_unstable();
    let mut running: BTreeMap<(u64, bool), u64> = BTreeMap::new();
    let mut times: HashMap<u64, u64> = HashMap::new();
    let mut now_ns = 0;
    for (time_ns, is_begin, name, is_kernel) in events {
        if let (Some((&(name, true), _)), 1) = (running.first_key_value(), running.len()) {
            *times.entry(name).or_default() += time_ns - now_ns;
        }
        now_ns = time_ns;
        let count = running.entry((name, is_kernel)).or_default();
        match is_begin {
            true => *count += 1,
            false => *count -= 1,
        }
        if *count == 0 {
            running.remove(&(name, is_kernel));
        }
    }
    let text = |name: u64| model.text(TextId::at(name as usize)).to_owned();
    let mut found: Vec<(String, u64)> = times
        .into_iter()
        .map(|(name, ns)| (text(name), ns))
        .collect();
    found.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    found.retain(|(_, ns)| *ns > 0);
    found.truncate(KEPT);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::job::iterations::sums::COMM;

    #[test]
    fn what_runs_beside_something_else_is_not_alone() {
        let mut model = Model::default();
        let [gemm, relu, comm] =
            ["gemm", "relu", "ncclKernel"].map(|name| model.texts.intern(name).index() as u64);
        let operation = |name: u64, start_ns: u64, end_ns: u64| {
            let one = Operation {
                start_ns,
                end_ns,
                bits: if name == comm { COMM } else { COMPUTE },
                is_kernel: true,
                name,
                link: 0,
                thread: 0,
                launched_ns: start_ns,
            };
            (0, one)
        };
        let operations = [
            operation(gemm, 0, 10),
            // Itself on another stream: still nothing else.
            operation(gemm, 5, 15),
            operation(relu, 12, 20),
            operation(comm, 18, 40),
            operation(gemm, 30, 50),
        ];
        let found = alone(&operations, 1, &model);
        assert_eq!(found, [("gemm".to_owned(), 22), ("relu".to_owned(), 3)]);
        assert!(alone(&operations, 0, &model).is_empty());
    }
}
