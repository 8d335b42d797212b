//! The time of each recorded operator and function.
//!
//! A moment of a thread belongs to the innermost slice that is open then, the one that began last: that is its own time, and own times add up to the
//! time in which any slice was open. The whole time of an operator or function is that of its slices which stand in no other of the same.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::names::CodeName;
use super::rows::{Open, RecordedRows, Scope};
use crate::containers::id_map::IdMap;
use crate::table::{Cell, Column, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{HostSlice, Model, ThreadId};

/// The slices of each thread.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    threads: BTreeMap<ThreadId, RecordedRows>,
}

/// How often something was open, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Time {
    count: u64,
    own_ns: u64,
    total_ns: u64,
    /// Up to when `total_ns` has its slices while a thread's are gone through.
    until_ns: u64,
}

/// What rows are told apart by, beside kind and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Apart {
    pub(crate) line: bool,
    pub(crate) shapes: bool,
}

impl Recorded {
    /// Takes in a slice, if it is an operator or a function of a thread.
    #[inline]
    pub(crate) fn take(&mut self, slice: &HostSlice) {
        if RecordedRows::is_one(slice) {
            self.threads.entry(slice.thread).or_default().push(slice);
        }
    }

    /// Whether nothing was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The table. `owner` says whose time a thread's is, and has a cell for each of `columns`.
    pub(crate) fn table(
        &mut self,
        model: &Model,
        apart: Apart,
        columns: &[Column],
        owner: impl Fn(ThreadId) -> Vec<Cell>,
    ) -> Table {
        let mut rows: BTreeMap<RowKey<'_>, Time> = BTreeMap::new();
        let mut owners: Vec<Vec<Cell>> = Vec::new();
        for (&thread, slices) in &mut self.threads {
            slices.sort();
            let own = owner(thread);
            let number = owners.iter().position(|one| *one == own);
            let number = number.unwrap_or_else(|| {
                owners.push(own);
                owners.len() - 1
            });
            // Scopes that one row has, as functions of one name and file are where lines do not count, are one: time in two of them counts once.
            let mut keys: Vec<RowKey<'_>> = Vec::new();
            let mut numbers: BTreeMap<RowKey<'_>, usize> = BTreeMap::new();
            let mut known: IdMap<Scope, usize> = IdMap::default();
            let row_of = |scope: Scope| {
                *known.entry(scope).or_insert_with(|| {
                    let key = RowKey::new(scope, number, apart, model);
                    *numbers.entry(key).or_insert_with(|| {
                        keys.push(key);
                        keys.len() - 1
                    })
                })
            };
            for (place, time) in times(slices.iter(), row_of).into_iter().enumerate() {
                let row = rows.entry(keys[place]).or_default();
                row.count += time.count;
                row.own_ns += time.own_ns;
                row.total_ns += time.total_ns;
            }
        }
        let whole_ns: u64 = rows.values().map(|time| time.own_ns).sum();
        let mut rows: Vec<(RowKey<'_>, Time)> = rows.into_iter().collect();
        rows.sort_by_cached_key(|(key, time)| {
            let times = Reverse((time.own_ns, time.total_ns));
            (times, *key, format!("{:?}", owners[key.owner]))
        });
        let mut table = Table::new("recorded", TITLE, &table_columns(apart, columns));
        table.rows_in_text = 30;
        for (key, time) in rows {
            let mut cells = key.cells(apart);
            cells.extend(owners[key.owner].iter().cloned());
            cells.extend::<[Cell; 5]>([
                time.count.into(),
                time.own_ns.into(),
                share(time.own_ns, whole_ns),
                time.total_ns.into(),
                share(time.total_ns, whole_ns),
            ]);
            table.push(cells);
        }
        table
    }
}

const TITLE: &str =
    "Operators and functions that were recorded: time from begin to end, no CPU time";

fn table_columns(apart: Apart, owner: &[Column]) -> Vec<Column> {
    let mut columns = vec![
        Column::plain("kind", "kind"),
        Column::plain("function", "function"),
        Column::plain("language", ""),
        Column::plain("source", "source"),
    ];
    if apart.line {
        columns.push(Column::plain("line", "line"));
    }
    if apart.shapes {
        columns.push(Column::plain("shapes", "shapes"));
    }
    columns.extend(owner);
    columns.extend([
        Column::plain("count", "count"),
        Column::ns("self_ns", "self"),
        Column::share("self_share", "self"),
        Column::ns("total_ns", "total"),
        Column::share("total_share", "total"),
    ]);
    columns
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey<'m> {
    is_operator: bool,
    name: CodeName<'m>,
    shapes: &'m str,
    owner: usize,
}

impl<'m> RowKey<'m> {
    fn new(scope: Scope, owner: usize, apart: Apart, model: &'m Model) -> Self {
        let name = model.text(scope.name);
        let name = match scope.is_operator {
            true => CodeName {
                function: name,
                source: "",
                line: 0,
            },
            false => CodeName::of(name),
        };
        Self {
            is_operator: scope.is_operator,
            name: CodeName {
                line: if apart.line { name.line } else { 0 },
                ..name
            },
            shapes: if apart.shapes {
                model.text(scope.shapes)
            } else {
                ""
            },
            owner,
        }
    }

    fn cells(&self, apart: Apart) -> Vec<Cell> {
        let text = |text: &str| Cell::from((!text.is_empty()).then_some(text));
        let language = (!self.is_operator && self.name.is_python()).then_some("Python");
        let kind = match self.is_operator {
            true => "operator",
            false => "function",
        };
        let mut cells = vec![
            kind.into(),
            self.name.function.into(),
            language.into(),
            text(self.name.source),
        ];
        if apart.line {
            cells.push((self.name.line > 0).then_some(self.name.line).into());
        }
        if apart.shapes {
            cells.push(text(self.shapes));
        }
        cells
    }
}

/// The time of each row of a thread, whose slices come in order of time; `row_of` numbers the rows of scopes, from 0 on.
fn times(slices: impl Iterator<Item = Open>, mut row_of: impl FnMut(Scope) -> usize) -> Vec<Time> {
    let mut times: Vec<Time> = Vec::new();
    let mut open = OpenSlices::default();
    for slice in slices {
        open.pass(slice.start_ns, &mut times);
        let row = row_of(slice.scope);
        let time = entry(&mut times, row);
        time.count += 1;
        let start_ns = slice.start_ns.max(time.until_ns);
        time.total_ns += slice.end_ns.saturating_sub(start_ns);
        time.until_ns = time.until_ns.max(slice.end_ns);
        open.push(OpenSlice {
            row,
            end_ns: slice.end_ns,
        });
    }
    open.pass(u64::MAX, &mut times);
    times
}

/// What is open of a thread: its row, and when it ends.
#[derive(Debug, Clone, Copy)]
struct OpenSlice {
    row: usize,
    end_ns: u64,
}

/// What is open of a thread.
#[derive(Debug)]
struct OpenSlices {
    /// The outermost first.
    list: Vec<OpenSlice>,
    /// Up to when all time has been given to a slice.
    at_ns: u64,
    /// No slice ends before it that has one above which lasts longer. Where slices nest there is none.
    crossed_ns: u64,
}

impl Default for OpenSlices {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            at_ns: 0,
            crossed_ns: u64::MAX,
        }
    }
}

impl OpenSlices {
    /// Gives the time up to `to_ns` to what was open, and forgets what has ended.
    fn pass(&mut self, to_ns: u64, times: &mut [Time]) {
        while let Some(&top) = self.list.last() {
            let until_ns = top.end_ns.min(to_ns);
            times[top.row].own_ns += until_ns.saturating_sub(self.at_ns);
            self.at_ns = self.at_ns.max(until_ns);
            if top.end_ns > to_ns {
                break;
            }
            self.list.pop();
        }
        self.at_ns = self.at_ns.max(to_ns);
        if self.crossed_ns <= to_ns {
            self.list.retain(|one| one.end_ns > to_ns);
            self.crossed_ns = u64::MAX;
            let mut above_ns = 0;
            for one in self.list.iter().rev() {
                if one.end_ns < above_ns {
                    self.crossed_ns = self.crossed_ns.min(one.end_ns);
                }
                above_ns = above_ns.max(one.end_ns);
            }
        }
    }

    /// A slice begins.
    fn push(&mut self, slice: OpenSlice) {
        if let Some(top) = self.list.last()
            && top.end_ns < slice.end_ns
        {
            self.crossed_ns = self.crossed_ns.min(top.end_ns);
        }
        self.list.push(slice);
    }
}

fn share(part: u64, whole: u64) -> Cell {
    (whole > 0).then(|| part as f64 / whole as f64).into()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::containers::sets::IntervalSet;
    use rsys_traces::model::{HostKind, TextId};

    fn slice(name: usize, start_ns: u64, end_ns: u64) -> HostSlice {
        HostSlice {
            start_ns,
            end_ns,
            name: TextId::at(name),
            kind: HostKind::Function,
            ..HostSlice::default()
        }
    }

    fn measured(slices: &[HostSlice]) -> BTreeMap<usize, Time> {
        let mut rows = RecordedRows::default();
        slices.iter().for_each(|slice| rows.push(slice));
        rows.sort();
        let mut names: Vec<usize> = Vec::new();
        let row_of = |scope: Scope| {
            let name = scope.name.index();
            let known = names.iter().position(|one| *one == name);
            known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
        };
        let times = times(rows.iter(), row_of);
        names.into_iter().zip(times).collect()
    }

    #[test]
    fn own_time_is_without_what_is_inside() {
        let [outer, inner, late] = [1, 2, 3];
        let found = measured(&[
            slice(inner, 10, 30),
            slice(inner, 15, 20),
            slice(outer, 0, 100),
            // It goes on when what it stands in has ended.
            slice(late, 90, 120),
        ]);
        let time = |name: usize| {
            let time = found[&name];
            (time.count, time.own_ns, time.total_ns)
        };
        assert_eq!(time(outer), (1, 70, 100));
        assert_eq!(time(inner), (2, 20, 20));
        assert_eq!(time(late), (1, 30, 30));
    }

    #[test]
    fn what_has_ended_below_another_is_forgotten() {
        let [often, between] = [1, 2];
        let found = measured(&[
            slice(often, 0, 100),
            slice(between, 90, 120),
            slice(often, 110, 130),
        ]);
        assert_eq!(found[&often].total_ns, 120);
        // However long a chain of slices is that cross, few are open.
        let (mut open, mut times) = (OpenSlices::default(), [Time::default()]);
        for number in 0..1_000 {
            let start_ns = 10 * number;
            open.pass(start_ns, &mut times);
            open.push(OpenSlice {
                row: 0,
                end_ns: start_ns + 15,
            });
            assert!(open.list.len() <= 2, "{open:?}");
        }
    }

    proptest! {
        #[test]
        fn times_are_those_that_were_covered(
            drawn in vec((0..4_usize, 0..200_u64, 0..80_u64), 0..60),
        ) {
            let slices: Vec<HostSlice> = drawn
                .iter()
                .map(|&(name, start_ns, duration_ns)| slice(name, start_ns, start_ns + duration_ns))
                .collect();
            let mut covered = IntervalSet::default();
            slices.iter().for_each(|slice| covered.add(slice.start_ns, slice.end_ns));
            let found = measured(&slices);
            let own_ns: u64 = found.values().map(|time| time.own_ns).sum();
            let covered = covered.intervals().map(|(start_ns, end_ns)| end_ns - start_ns);
            prop_assert_eq!(own_ns, covered.sum::<u64>());
            for (&name, time) in &found {
                let mut covered = IntervalSet::default();
                let of_name = slices.iter().filter(|slice| slice.name.index() == name);
                of_name.for_each(|slice| covered.add(slice.start_ns, slice.end_ns));
                let covered = covered.intervals().map(|(start_ns, end_ns)| end_ns - start_ns);
                prop_assert_eq!(time.total_ns, covered.sum::<u64>());
            }
            let count: u64 = found.values().map(|time| time.count).sum();
            prop_assert_eq!(count, slices.len() as u64);
        }
    }
}
