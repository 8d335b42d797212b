//! Several runs become one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::{Piece, Row, RowFile, Run};

/// Makes one run of those that were merged equally often, where there are most of these: so each row is packed again as often as the logarithm of the
/// number of runs says.
pub(super) fn merge_level<const N: usize>(runs: &mut Vec<Run<N>>, file: Option<&Arc<RowFile>>) {
    let levels = runs.iter().map(|run| run.level);
    let count = |level: usize| runs.iter().filter(|run| run.level == level).count();
    // Of levels with as many runs the lowest.
    let Some(level) = levels.max_by_key(|&level| (count(level), Reverse(level))) else {
        return;
    };
    let merged = runs.extract_if(.., |run| run.level == level).collect();
    let mut whole = Run::new(file.is_some());
    whole.level = level + 1;
    merge(merged, |row| whole.push(row, file));
    runs.push(whole);
}

/// Takes all rows out of runs, in order.
pub(super) fn merge<const N: usize>(runs: Vec<Run<N>>, mut take: impl FnMut(Row<N>)) {
    let mut readers: Vec<_> = runs.into_iter().map(RunReader::new).collect();
    if let [reader] = readers.as_mut_slice() {
        while let Some(row) = reader.next() {
            take(row);
        }
        return;
    }
    let mut heads: BinaryHeap<_> = (0..readers.len())
        .filter_map(|place| Some(Reverse((readers[place].next()?, place))))
        .collect();
    while let Some(Reverse((row, place))) = heads.pop() {
        take(row);
        if let Some(next) = readers[place].next() {
            heads.push(Reverse((next, place)));
        }
    }
}

/// Reads a run to its end and gives back its memory on the way.
struct RunReader<const N: usize> {
    run: Run<N>,
    number: usize,
    rows: Vec<Row<N>>,
    place: usize,
}

impl<const N: usize> RunReader<N> {
    fn new(run: Run<N>) -> Self {
        Self {
            run,
            number: 0,
            rows: Vec::new(),
            place: 0,
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Row<N>> {
        if self.place == self.rows.len() {
            let (_, piece, _) = *self.run.chunks.get(self.number)?;
            if let Some(before) = (piece as usize).checked_sub(1)
                && let Some(before) = self.run.pieces.get_mut(before)
            {
                *before = Piece::Kept(Vec::new());
            }
            self.run.unpack(self.number, &mut self.rows);
            self.number += 1;
            self.place = 0;
        }
        self.place += 1;
        Some(self.rows[self.place - 1])
    }
}
