//! Whose each busy nanosecond of a GPU is.
//!
//! Where several operations run at once, the time is that of the one that began first. So the parts add up to the time in which any ran, to the nanosecond.

use crate::containers::packed_rows::PackedRows;

/// Goes through the operations of a GPU: begin, `u64::MAX` less the end, and kind of each. `charge` gets kinds with their times. Of operations that begin and end together
/// the time is that of the kind with the smallest `rank`, so that no order of reading shows.
pub(super) fn charge(
    rows: &mut PackedRows<3>,
    rank: impl Fn(u64) -> u64,
    mut charge: impl FnMut(u64, u64),
) {
    rows.sort();
    let mut until_ns = 0;
    let mut rows = rows.iter().peekable();
    while let Some([start_ns, from_above, mut kind]) = rows.next() {
        while let Some([_, _, other]) =
            rows.next_if(|[start, end, _]| (*start, *end) == (start_ns, from_above))
        {
            if rank(other) < rank(kind) {
                kind = other;
            }
        }
        let end_ns = u64::MAX - from_above;
        let own_ns = end_ns.saturating_sub(start_ns.max(until_ns));
        until_ns = until_ns.max(end_ns);
        charge(kind, own_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn parts_are_the_union() {
        let mut rows = PackedRows::default();
        // Kind 1 begins first; kind 2 begins within it and ends later; kinds 4 and 3 run together; kind 5 is within them.
        for (start_ns, end_ns, kind) in [
            (0, 10, 1),
            (5, 20, 2),
            (30, 40, 4),
            (30, 40, 3),
            (32, 35, 5),
            (50, 50, 6),
        ] {
            rows.push([start_ns, u64::MAX - end_ns, kind]);
        }
        let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
        charge(
            &mut rows,
            |kind| kind,
            |kind, own_ns| *parts.entry(kind).or_default() += own_ns,
        );
        let expected = BTreeMap::from([(1, 10), (2, 10), (3, 10), (5, 0), (6, 0)]);
        assert_eq!(parts, expected);
    }
}
