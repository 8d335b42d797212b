//! How answers name a rank, and what is usual among ranks.

use crate::table::{Cell, Column};
use rsys_traces::model::{Model, ProcessId};

/// By which a rank is named.
pub(super) const RANK: [Column; 3] = [
    Column::plain("rank", "rank"),
    Column::plain("host", "host"),
    Column::plain("process", "process"),
];

/// The cells of [`RANK`].
pub(super) fn rank_cells(model: &Model, id: ProcessId) -> [Cell; 3] {
    let process = model.process(id);
    [
        process.rank.into(),
        process.host.as_str().into(),
        process.pid.into(),
    ]
}

/// The median, the lower one of two; the numbers are in another order then.
pub(super) fn lower_median<T: Ord + Copy>(numbers: &mut [T]) -> Option<T> {
    let middle = numbers.len().checked_sub(1)? / 2;
    Some(*numbers.select_nth_unstable(middle).1)
}

/// What a rank is called in a sentence.
pub(super) fn rank_name(model: &Model, id: ProcessId) -> String {
    let process = model.process(id);
    match process.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", process.pid),
    }
}
