//! The picture of ranks by collectives, as a table.

use crate::measure::job::collectives::job::lateness_map::LatenessMap;
use crate::measure::job::collectives::job::records::Matching;
use crate::table::{Cell, Column, Row, Table};
use rsys_traces::model::Model;

impl LatenessMap {
    /// A row for each rank, or for ranks that follow each other, and below it a place for each collective, or for some that do.
    pub(super) fn table(&self, matching: &Matching, model: &Model) -> Table {
        let columns = [
            Column::plain("communicator", ""),
            Column::plain("rank", ""),
            Column::plain("ranks", ""),
            Column::plain("segment_ns", ""),
        ];
        let mut table = Table::new("collective_map", "", &columns);
        let Some(group) = matching.groups.get(self.group) else {
            return table;
        };
        for (row, members) in self
            .sums
            .iter()
            .zip(group.members.chunks(self.ranks.max(1)))
        {
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
            let first = members.first().map(|member| model.process(member.process));
            table.push(Row {
                cells: vec![
                    group.communicator.as_str().into(),
                    first.and_then(|process| process.rank).into(),
                    (members.len() as u64).into(),
                    segment_ns.checked_div(count).into(),
                ],
                below: vec![below],
            });
        }
        table
    }
}
