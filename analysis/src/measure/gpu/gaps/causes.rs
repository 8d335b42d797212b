//! The causes of idleness, and the time of each by place.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::measure::idle_cause::IdleCause;
use crate::table::{Cell, Column, Row, Table};

/// The most examples of a cause at a place that are shown.
const EXAMPLES: usize = 3;

/// A time that is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Example {
    pub(super) duration_ns: u64,
    /// What begins first comes first.
    pub(super) start_ns: Reverse<u64>,
}

impl Example {
    pub(super) fn new(start_ns: u64, duration_ns: u64) -> Self {
        Self {
            duration_ns,
            start_ns: Reverse(start_ns),
        }
    }
}

/// Adds to examples, of which the longest stay.
pub(super) fn keep_longest(examples: &mut Vec<Example>, more: impl IntoIterator<Item = Example>) {
    examples.extend(more);
    examples.sort_unstable_by(|one, other| other.cmp(one));
    examples.truncate(EXAMPLES);
}

/// The time of one cause at one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Time {
    ns: u64,
    count: u64,
    /// The longest first.
    examples: Vec<Example>,
}

/// Times of a GPU, by cause and place.
#[derive(Debug, Default)]
pub(super) struct Causes {
    of: BTreeMap<(IdleCause, String), Time>,
}

impl Causes {
    /// Adds one stretch of time.
    pub(super) fn add(&mut self, cause: IdleCause, place: String, start_ns: u64, ns: u64) {
        self.add_parts(cause, place, ns, 1, [Example::new(start_ns, ns)]);
    }

    /// Adds the time of `count` stretches, the longest of which are among the examples.
    pub(super) fn add_parts(
        &mut self,
        cause: IdleCause,
        place: String,
        ns: u64,
        count: u64,
        examples: impl IntoIterator<Item = Example>,
    ) {
        if ns == 0 {
            return;
        }
        let time = self.of.entry((cause, place)).or_default();
        time.ns += ns;
        time.count += count;
        keep_longest(&mut time.examples, examples);
    }

    /// Adds all times of another at one place.
    pub(super) fn absorb(&mut self, other: Self, place: &str) {
        for ((cause, _), time) in other.of {
            self.add_parts(cause, place.to_owned(), time.ns, time.count, time.examples);
        }
    }

    /// All causes, with places and times.
    pub(super) fn times(self) -> impl Iterator<Item = (IdleCause, String, u64)> {
        let times = self.of.into_iter();
        times.map(|((cause, place), time)| (cause, place, time.ns))
    }

    /// All of them, the longest first.
    fn in_order(&self) -> Vec<(&(IdleCause, String), &Time)> {
        let mut list: Vec<_> = self.of.iter().collect();
        list.sort_by(|one, other| other.1.ns.cmp(&one.1.ns).then(one.0.cmp(other.0)));
        list
    }

    /// The causes of `idle_ns`.
    pub(super) fn table(&self, idle_ns: u64) -> Table {
        let columns = [
            &NAMES[..],
            &[
                Column::ns("idle_ns", "idle"),
                Column::share("share", "share"),
            ],
            &NUMBERS,
        ];
        let mut table = Table::new("causes", "", &columns.concat());
        table.rows_in_text = 20;
        for ((cause, place), time) in self.in_order() {
            let share = time.ns as f64 / idle_ns.max(1) as f64;
            let mut cells = names(*cause, place);
            cells.extend([time.ns.into(), share.into()]);
            table.push(time.row(cells));
        }
        table
    }
}

/// Times in front of the first operation and behind the last, which are no part of the idle time.
#[derive(Debug, Default)]
pub(super) struct Outside {
    pub(super) before: Causes,
    pub(super) after: Causes,
}

impl Outside {
    pub(super) fn table(&self) -> Table {
        let columns = [
            &[Column::plain("when", "when")],
            &NAMES[..],
            &[Column::ns("time_ns", "time")],
            &NUMBERS,
        ];
        let title = "Before the first operation and after the last one (not part of the idle time)";
        let mut table = Table::new("outside", title, &columns.concat());
        table.rows_in_text = 10;
        for (when, causes) in [("before", &self.before), ("after", &self.after)] {
            for ((cause, place), time) in causes.in_order() {
                let mut cells = vec![Cell::from(when)];
                cells.extend(names(*cause, place));
                cells.push(time.ns.into());
                table.push(time.row(cells));
            }
        }
        table
    }
}

const NAMES: [Column; 3] = [
    Column::plain("cause", ""),
    Column::plain("text", "cause"),
    Column::plain("where", "where"),
];

const NUMBERS: [Column; 3] = [
    Column::plain("count", "times"),
    Column::ns("longest_ns", "longest"),
    Column::plain("longest_at_ns", "at ns"),
];

fn names(cause: IdleCause, place: &str) -> Vec<Cell> {
    vec![cause.key().into(), cause.text().into(), place.into()]
}

impl Time {
    /// The row of which the first cells are given.
    fn row(&self, mut cells: Vec<Cell>) -> Row {
        let longest = self.examples.first();
        cells.extend([
            self.count.into(),
            longest.map(|one| one.duration_ns).into(),
            longest.map(|one| one.start_ns.0).into(),
        ]);
        let columns = [Column::ns("start_ns", ""), Column::ns("duration_ns", "")];
        let mut examples = Table::new("examples", "", &columns);
        examples.is_detail = true;
        for one in &self.examples {
            examples.push(vec![one.start_ns.0.into(), one.duration_ns.into()]);
        }
        Row {
            cells,
            below: vec![examples],
        }
    }
}
