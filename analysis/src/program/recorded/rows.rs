//! The recorded slices of a thread, kept small.

use crate::containers::packed_rows::{PackedRows, Row};
use rsys_traces::model::{HostKind, HostSlice, TextId};

/// What was open: an operator or a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Scope {
    /// Its name as the file has it.
    pub(crate) name: TextId,
    /// See [`HostSlice::shapes`].
    pub(crate) shapes: TextId,
    /// Whether it is an operator of a framework, no function.
    pub(crate) is_operator: bool,
}

/// A scope and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) scope: Scope,
}

/// Recorded slices of one thread, in any order.
#[derive(Debug, Default)]
pub(crate) struct RecordedRows {
    rows: PackedRows<4>,
    arrived: u64,
}

/// Set in the third number of rows of operators: of what begins and ends together, functions are outside.
const OPERATOR: u64 = 1 << 62;

impl RecordedRows {
    /// Takes in a slice, if it is an operator or a function of a thread.
    #[inline]
    pub(crate) fn is_one(slice: &HostSlice) -> bool {
        matches!(slice.kind, HostKind::Operator | HostKind::Function)
            && slice.thread.index() != HostSlice::NO_THREAD
    }

    /// Adds a slice.
    pub(crate) fn push(&mut self, slice: &HostSlice) {
        self.arrived += 1;
        let kind = match slice.kind {
            HostKind::Operator => OPERATOR,
            _ => 0,
        };
        self.rows.push([
            slice.start_ns,
            // What begins together is as wide outside as inside, or wider; the files have callers first.
            u64::MAX - slice.end_ns,
            // Numbers of files do not meet the order of arrival: a reader gives them to all slices of a thread or to none.
            kind | if slice.number == 0 {
                self.arrived
            } else {
                slice.number & (OPERATOR - 1)
            },
            slice.name.index() as u64 | (slice.shapes.index() as u64) << 32,
        ]);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Brings them into the order of time, the outer ones first.
    pub(crate) fn sort(&mut self) {
        self.rows.sort();
    }

    /// Once sorted: all of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Open> {
        self.rows.iter().map(open)
    }
}

fn open([start_ns, width, order, names]: Row<4>) -> Open {
    Open {
        start_ns,
        end_ns: u64::MAX - width,
        scope: Scope {
            name: TextId::at((names & u64::from(u32::MAX)) as usize),
            shapes: TextId::at((names >> 32) as usize),
            is_operator: order & OPERATOR != 0,
        },
    }
}
