//! Rows by their first numbers, where those that are asked for one after the other are near each other most of the time.

use super::{Chunk, PackedRows, Row};

/// Chunks that are kept unpacked: queues that take turns are in different ones.
const CHUNKS: usize = 8;
/// Rows behind the last one that are examined before all others.
const NEAR: usize = 8;

/// Finds rows of a list that is settled.
#[derive(Debug)]
pub struct Finder<'r, const N: usize> {
    rows: &'r PackedRows<N>,
    /// Each where the remainder of its number says.
    chunks: [Chunk<N>; CHUNKS],
    /// Where the last search ended: a chunk, and a place in it.
    last: (usize, usize),
}

impl<'r, const N: usize> Finder<'r, N> {
    /// Of a list that was sorted and has no more rows since.
    #[must_use]
    pub fn new(rows: &'r PackedRows<N>) -> Self {
        Self {
            rows,
            chunks: [const {
                Chunk {
                    number: usize::MAX,
                    rows: Vec::new(),
                }
            }; CHUNKS],
            last: (0, 0),
        }
    }

    /// The last row for which `is_before` holds, and the first for which it does not; it holds for all in front of that, and for none behind.
    pub fn around(
        &mut self,
        is_before: impl Fn(&Row<N>) -> bool,
    ) -> (Option<Row<N>>, Option<Row<N>>) {
        let Some(run) = self.rows.runs.first() else {
            return (None, None);
        };
        let first_of = |number: usize| run.chunks.get(number).map(|chunk| chunk.0);
        let (number, place) = match self.near(&is_before) {
            Some(place) => (self.last.0, place),
            None => {
                let begins_before =
                    |number: usize| first_of(number).is_some_and(|row| is_before(&row));
                let last = self.last.0;
                let near = [last, last + 1];
                let near = near
                    .into_iter()
                    .find(|&one| begins_before(one) && !begins_before(one + 1));
                let behind = || run.chunks.partition_point(|(first, ..)| is_before(first));
                let Some(number) = near.or_else(|| behind().checked_sub(1)) else {
                    return (None, first_of(0));
                };
                let chunk = &mut self.chunks[number % CHUNKS];
                if chunk.number != number {
                    chunk.number = number;
                    run.unpack(number, &mut chunk.rows);
                }
                (number, chunk.rows.partition_point(&is_before))
            }
        };
        self.last = (number, place);
        let rows = &self.chunks[number % CHUNKS].rows;
        let before = place.checked_sub(1).and_then(|before| rows.get(before));
        let behind = rows.get(place).copied();
        (before.copied(), behind.or_else(|| first_of(number + 1)))
    }

    /// The place in the chunk of the last search, if it is there and near.
    fn near(&self, is_before: impl Fn(&Row<N>) -> bool) -> Option<usize> {
        let (number, last) = self.last;
        let chunk = &self.chunks[number % CHUNKS];
        let begin = last.saturating_sub(1);
        let rows = chunk.rows.get(begin..).filter(|_| chunk.number == number)?;
        if !rows.first().is_some_and(&is_before) {
            return None;
        }
        let near = rows.iter().take(NEAR);
        let place = near.into_iter().position(|row| !is_before(row))?;
        Some(begin + place)
    }

    /// The first row that does not stand before this in the order of rows, if its first numbers are these.
    pub fn first<const K: usize>(&mut self, key: [u64; K]) -> Option<Row<N>> {
        let (_, row) = self.around(|row| row[..K] < key[..]);
        row.filter(|row| row[..K] == key[..])
    }

    /// The last row whose first numbers are these.
    pub fn last<const K: usize>(&mut self, key: [u64; K]) -> Option<Row<N>> {
        let (row, _) = self.around(|row| row[..K] <= key[..]);
        row.filter(|row| row[..K] == key[..])
    }

    /// All rows whose first numbers are these.
    pub fn all<const K: usize>(&mut self, key: [u64; K]) -> impl Iterator<Item = Row<N>> {
        let mut next = self.first(key);
        std::iter::from_fn(move || {
            let found = next?;
            let (_, behind) = self.around(|row| *row <= found);
            next = behind.filter(|row| row[..K] == key[..]);
            Some(found)
        })
    }
}
