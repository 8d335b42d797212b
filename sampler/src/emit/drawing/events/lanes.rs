//! Slices that overlap, on as many rows as it takes.
//!
//! On one track slices must nest. Operations of a GPU may overlap, and are recorded late and out of
//! order; each goes to the first row where it overlaps nothing that was drawn.

use std::collections::VecDeque;

/// At most this many slices of a row are remembered; nothing is drawn before the oldest of them.
const REMEMBERED: usize = 4096;

/// The slices of one row, as far as they are remembered.
#[derive(Debug, Default)]
struct Row {
    /// Starts and ends, in order: most come at the end.
    busy: VecDeque<(u64, u64)>,
    /// Nothing before this time is known.
    floor: u64,
}

impl Row {
    /// Takes the stretch if nothing that was drawn overlaps it.
    ///
    /// A slice may begin when an earlier drawn one ends. It must not end when an earlier drawn one
    /// begins: of equal times, viewers take what was written first.
    fn take(&mut self, start: u64, end: u64) -> bool {
        if start < self.floor {
            return false;
        }
        let is_last = self.busy.back().is_none_or(|&(last, _)| last < start);
        let at = if is_last {
            self.busy.len()
        } else {
            self.busy.partition_point(|&(other, _)| other < start)
        };
        let before = at.checked_sub(1).and_then(|before| self.busy.get(before));
        let is_free = before.is_none_or(|&(_, before)| before <= start)
            && self.busy.get(at).is_none_or(|&(after, _)| end < after);
        if !is_free {
            return false;
        }
        self.busy.insert(at, (start, end));
        if self.busy.len() > REMEMBERED
            && let Some((_, oldest)) = self.busy.pop_front()
        {
            self.floor = self.floor.max(oldest);
        }
        true
    }
}

/// The rows of one track.
#[derive(Debug, Default)]
pub struct Lanes {
    rows: Vec<Row>,
}

impl Lanes {
    /// The row for a slice; rows are numbered from 0, and the next higher number is a new row.
    pub fn place(&mut self, start: u64, end: u64) -> usize {
        if let Some(row) = self.rows.iter_mut().position(|row| row.take(start, end)) {
            return row;
        }
        let mut row = Row::default();
        row.take(start, end);
        self.rows.push(row);
        self.rows.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_stays_on_its_row_and_what_overlaps_gets_another() {
        let mut lanes = Lanes::default();
        for start in (0..100_000).step_by(10) {
            assert_eq!(lanes.place(start, start + 10), 0);
        }
        assert_eq!(lanes.place(99_995, 100_005), 1);
        assert_eq!(lanes.place(99_996, 100_000), 2);
        assert_eq!(lanes.place(100_000, 100_001), 0);
    }

    #[test]
    fn the_past_is_filled_where_it_is_free() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.place(100, 200), 0);
        assert_eq!(lanes.place(10, 50), 0);
        assert_eq!(lanes.place(60, 99), 0);
        // Its end would be written after the beginning at the same time.
        assert_eq!(lanes.place(99, 100), 1);
        assert_eq!(lanes.place(40, 55), 1);
    }

    #[test]
    fn what_is_forgotten_is_not_drawn_over() {
        let mut lanes = Lanes::default();
        for start in 0..10_000 {
            lanes.place(start * 10, start * 10 + 5);
        }
        assert_eq!(lanes.place(7, 8), 1);
    }
}
