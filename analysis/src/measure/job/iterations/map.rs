//! Ranks by iterations, for a picture: how much each had to do besides communication, in groups of both where there are many.

use super::job::own_ns;
use super::lane::{Lane, ranks_of};
use super::verdicts::median;
use crate::table::{Cell, Column, Row, Table};

/// The most rows and columns that the picture has.
const RANKS: usize = 64;
const PLACES: u64 = 128;

/// A row for each rank, or for ranks that follow each other, and below it a place for each iteration, or for some that do. Nothing of a single rank.
pub(super) fn map(lanes: &[Lane]) -> Table {
    let columns = [
        Column::plain("rank", ""),
        Column::plain("ranks", ""),
        Column::plain("iteration_ns", ""),
    ];
    let mut table = Table::new("iteration_map", "", &columns);
    let numbers = lanes
        .iter()
        .flat_map(|lane| lane.iterations.iter().map(|one| one.number));
    let (Some(first), Some(last)) = (numbers.clone().min(), numbers.max()) else {
        return table;
    };
    if ranks_of(lanes) < 2 {
        return table;
    }
    let width = (last - first + 1).div_ceil(PLACES);
    let places = (last - first + 1).div_ceil(width) as usize;
    for group in lanes.chunks(lanes.len().div_ceil(RANKS)) {
        let mut sums = vec![(0_u64, 0_u64); places];
        let mut durations = Vec::new();
        for one in group.iter().flat_map(|lane| &lane.iterations) {
            let (count, sum_ns) = &mut sums[((one.number - first) / width) as usize];
            *count += 1;
            *sum_ns += own_ns(one);
            durations.push(one.duration_ns);
        }
        let columns = [Column::plain("iteration", ""), Column::plain("own_ns", "")];
        let mut below = Table::new("places", "", &columns);
        below.is_detail = true;
        for (place, (count, sum_ns)) in (0..).zip(sums) {
            below.push(vec![
                Cell::Count(first + place * width),
                sum_ns.checked_div(count).into(),
            ]);
        }
        table.push(Row {
            cells: vec![
                group.first().and_then(|lane| lane.rank).into(),
                (group.len() as u64).into(),
                median(&mut durations).into(),
            ],
            below: vec![below],
        });
    }
    table
}
