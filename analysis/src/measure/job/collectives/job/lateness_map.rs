//! Ranks by collectives, for a picture: by how much each was late by itself, in groups of both where there are many.

use super::records::Matching;
use crate::measure::job::collectives::read::operations::Lane;

/// The most rows and columns that the picture has.
const RANKS: usize = 64;
const PLACES: u64 = 128;

/// Sums of arrivals that are one place of the picture.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) late_ns: u64,
    pub(crate) segment_ns: u64,
}

/// The collectives of the communicator that has most of them.
#[derive(Debug, Default)]
pub(crate) struct LatenessMap {
    pub(crate) group: usize,
    pub(crate) first: u64,
    pub(crate) width: u64,
    /// Ranks that are one row.
    pub(crate) ranks: usize,
    pub(crate) sums: Vec<Vec<Sums>>,
}

impl LatenessMap {
    /// An empty picture; without rows where there are no two ranks to be compared.
    pub(crate) fn new(matching: &Matching) -> Self {
        let groups = matching.groups.iter().enumerate();
        let groups = groups.filter(|(_, group)| group.lane == Lane::Everyone);
        let sized = groups.map(|(place, group)| {
            let rows = group.members.iter().map(|member| member.rows.len());
            (rows.sum::<usize>(), std::cmp::Reverse(place))
        });
        let Some((_, std::cmp::Reverse(place))) = sized.max() else {
            return Self::default();
        };
        let members = &matching.groups[place].members;
        let ends = members.iter().filter_map(|member| {
            let last = member.rows.len().checked_sub(1)?;
            Some((member.rows.get(0)?[0], member.rows.get(last)?[0]))
        });
        let first = ends.clone().map(|(first, _)| first).min().unwrap_or(0);
        let last = ends.map(|(_, last)| last).max().unwrap_or(0);
        let width = (last - first + 1).div_ceil(PLACES);
        let ranks = members.len().div_ceil(RANKS).max(1);
        let rows = match members.len() {
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
    pub(crate) fn add(&mut self, member: usize, sequence: u64, segment_ns: u64, late_ns: u64) {
        let place = (sequence.saturating_sub(self.first) / self.width.max(1)) as usize;
        let row = self.sums.get_mut(member / self.ranks.max(1));
        if let Some(sums) = row.and_then(|row| row.get_mut(place)) {
            sums.count += 1;
            sums.late_ns += late_ns;
            sums.segment_ns += segment_ns;
        }
    }
}
