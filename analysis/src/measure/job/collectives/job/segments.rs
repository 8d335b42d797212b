//! The time of a rank in front of each of its operations.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::records::Rows;
use crate::containers::packed_rows::PackedRows;
use crate::measure::job::collectives::read::operations::{BY_CALL, Member};

/// The operations of a process in order of their numbers, each with the time from the end of the one before it to its begin; `renamed` changes shapes and flags. Of a process
/// with collectives of which the order alone is known, those that are timed by their calls are not in front of others.
pub(crate) fn with_segments(
    members: impl Iterator<Item = (Member, PackedRows<4>)>,
    renamed: impl Fn(u64) -> u64,
    is_by_order: bool,
) -> Vec<(Member, Rows)> {
    let mut all: Vec<(u64, u64, usize, u64, u64)> = Vec::new();
    let mut names = Vec::new();
    for (place, (member, rows)) in members.enumerate() {
        all.extend(
            rows.iter()
                .map(|[sequence, start, duration, info]| (start, duration, place, sequence, info)),
        );
        names.push(member);
    }
    all.sort_unstable();
    let mut found: Vec<Rows> = names.iter().map(|_| Rows::default()).collect();
    let mut running: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut before: Option<u64> = None;
    for (start_ns, duration_ns, place, sequence, info) in all {
        while let Some(&Reverse(end_ns)) = running.peek()
            && end_ns <= start_ns
        {
            before = Some(end_ns);
            running.pop();
        }
        // Its kernel may be there as well, as one of which the order alone is known.
        if !is_by_order || info & BY_CALL == 0 {
            running.push(Reverse(start_ns + duration_ns));
        }
        let segment = before.map_or(0, |before| start_ns - before + 1);
        found[place].push([sequence, start_ns, duration_ns, segment, renamed(info)]);
    }
    found.iter_mut().for_each(Rows::sort);
    names.into_iter().zip(found).collect()
}
