//! How long kernels were all that a GPU did: what of them nothing hides.

use std::collections::{BTreeMap, HashMap};

use super::assign::Operation;
use super::sums::COMPUTE;
use rsys_traces::model::{Model, TextId};

/// So many kernels are kept of a GPU, those that were alone for longest.
const KEPT: usize = 12;

/// The time of a usual iteration in which all kernels that ran had one name, and nothing else ran, by that name; the longest first. `usual` says of each
/// iteration whether it is one: such a time is of the iteration of the kernel that began last.
pub(super) fn alone(
    operations: &[(usize, Operation)],
    usual: &[bool],
    model: &Model,
) -> Vec<(String, u64)> {
    let own = operations
        .iter()
        .filter(|(place, one)| *place < usual.len() && one.bits != 0);
    let mut events: Vec<(u64, bool, u64, bool, usize)> = Vec::new();
    for (place, one) in own.filter(|(_, one)| one.start_ns < one.end_ns) {
        let is_kernel = one.is_kernel && one.bits & COMPUTE != 0;
        events.push((one.start_ns, true, one.name, is_kernel, *place));
        events.push((one.end_ns, false, one.name, is_kernel, *place));
    }
    events.sort_unstable();
    let mut running: BTreeMap<(u64, bool), u64> = BTreeMap::new();
    let mut times: HashMap<u64, u64> = HashMap::new();
    let (mut now_ns, mut is_usual) = (0, false);
    for (time_ns, is_begin, name, is_kernel, place) in events {
        if let (Some((&(name, true), _)), 1, true) =
            (running.first_key_value(), running.len(), is_usual)
        {
            *times.entry(name).or_default() += time_ns - now_ns;
        }
        now_ns = time_ns;
        let count = running.entry((name, is_kernel)).or_default();
        match is_begin {
            true => {
                *count += 1;
                is_usual = usual[place];
            }
            false => *count -= 1,
        }
        if *count == 0 {
            running.remove(&(name, is_kernel));
        }
    }
    let count = usual.iter().filter(|one| **one).count().max(1) as u64;
    let text = |name: u64| model.text(TextId::at(name as usize)).to_owned();
    let mut found: Vec<(String, u64)> = times
        .into_iter()
        .map(|(name, ns)| (text(name), ns / count))
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
        let found = alone(&operations, &[true], &model);
        assert_eq!(found, [("gemm".to_owned(), 22), ("relu".to_owned(), 3)]);
        assert!(alone(&operations, &[false], &model).is_empty());
    }
}
