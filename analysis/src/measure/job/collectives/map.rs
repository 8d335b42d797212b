//! Ranks by collectives, for a picture: by how much each was late by itself, in groups of both where there are many.

use super::joining::Lane;
use super::records::Study;
use crate::table::{Cell, Column, Row, Table};
use rsys_traces::model::Model;

/// The most rows and columns that the picture has.
const RANKS: usize = 64;
const PLACES: u64 = 128;

/// Sums of arrivals that are one place of the picture.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: u64,
    late_ns: u64,
    segment_ns: u64,
}

/// The collectives of the communicator that has most of them.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub(super) group: usize,
    first: u64,
    width: u64,
    /// Ranks that are one row.
    ranks: usize,
    sums: Vec<Vec<Sums>>,
}

impl Map {
    /// An empty picture; without rows where there are no two ranks to be compared.
    pub(super) fn new(study: &Study) -> Self {
        let groups = study.groups.iter().enumerate();
        let groups = groups.filter(|(_, group)| group.lane == Lane::Everyone);
        let sized = groups.map(|(place, group)| {
            let rows = group.parts.iter().map(|part| part.rows.len());
            (rows.sum::<usize>(), std::cmp::Reverse(place))
        });
        let Some((_, std::cmp::Reverse(place))) = sized.max() else {
            return Self::default();
        };
        let parts = &study.groups[place].parts;
        let ends = parts.iter().filter_map(|part| {
            let last = part.rows.len().checked_sub(1)?;
            Some((part.rows.get(0)?[0], part.rows.get(last)?[0]))
        });
        let first = ends.clone().map(|(first, _)| first).min().unwrap_or(0);
        let last = ends.map(|(_, last)| last).max().unwrap_or(0);
        let width = (last - first + 1).div_ceil(PLACES);
        let ranks = parts.len().div_ceil(RANKS).max(1);
        let rows = match parts.len() {
            0 | 1 => 0,
            count => count.div_ceil(ranks),
        };
        let places = (last - first + 1).div_ceil(width) as usize;
        Self {
            group: place,
            first,
            width,
            ranks,
            sums: vec![vec![Sums::default(); places]; rows],
        }
    }

    /// A rank of the communicator came to a collective: its segment, and by how much that was longer than the median of the ranks.
    pub(super) fn add(&mut self, part: usize, sequence: u64, segment_ns: u64, late_ns: u64) {
        let place = (sequence.saturating_sub(self.first) / self.width.max(1)) as usize;
        let row = self.sums.get_mut(part / self.ranks.max(1));
        if let Some(sums) = row.and_then(|row| row.get_mut(place)) {
            sums.count += 1;
            sums.late_ns += late_ns;
            sums.segment_ns += segment_ns;
        }
    }

    /// A row for each rank, or for ranks that follow each other, and below it a place for each collective, or for some that do.
    pub(super) fn table(&self, study: &Study, model: &Model) -> Table {
        let columns = [
            Column::plain("communicator", ""),
            Column::plain("rank", ""),
            Column::plain("ranks", ""),
            Column::plain("segment_ns", ""),
        ];
        let mut table = Table::new("collective_map", "", &columns);
        let Some(group) = study.groups.get(self.group) else {
            return table;
        };
        for (row, parts) in self.sums.iter().zip(group.parts.chunks(self.ranks.max(1))) {
            let columns = [
                Column::plain("collective", ""),
                Column::plain("late_ns", ""),
            ];
            let mut below = Table::new("places", "", &columns);
            below.is_detail = true;
            for (place, sums) in (0..).zip(row) {
                below.push(vec![
                    Cell::Count(self.first + place * self.width),
                    sums.late_ns.checked_div(sums.count).into(),
                ]);
            }
            let count: u64 = row.iter().map(|sums| sums.count).sum();
            let segment_ns: u64 = row.iter().map(|sums| sums.segment_ns).sum();
            let first = parts.first().map(|part| model.process(part.process));
            table.push(Row {
                cells: vec![
                    group.communicator.as_str().into(),
                    first.and_then(|process| process.rank).into(),
                    (parts.len() as u64).into(),
                    segment_ns.checked_div(count).into(),
                ],
                below: vec![below],
            });
        }
        table
    }
}
