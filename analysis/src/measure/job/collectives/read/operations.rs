//! What tells the operations of a rank apart, and their rows.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::containers::packed_rows::PackedRows;
use crate::measure::job::operation::Operation;
use rsys_traces::model::{Model, TextId};

/// What tells the operations of a communicator apart that count separately: collectives, and messages by direction and partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lane<T = TextId> {
    /// Collectives of all ranks.
    Everyone,
    /// Messages to or from a rank, as the name of the function says.
    With(u64, T),
}

/// One rank of a communicator, in one process, or its messages to or from another. `T` are names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Member<T = TextId> {
    pub(crate) communicator: T,
    /// The rank in the communicator.
    pub(crate) rank: Option<u64>,
    pub(crate) lane: Lane<T>,
}

impl<T> Member<T> {
    /// The same with other names.
    pub(crate) fn with_names<U>(&self, mut name: impl FnMut(&T) -> U) -> Member<U> {
        Member {
            communicator: name(&self.communicator),
            rank: self.rank,
            lane: match &self.lane {
                Lane::Everyone => Lane::Everyone,
                Lane::With(peer, function) => Lane::With(*peer, name(function)),
            },
        }
    }
}

/// What all ranks must agree on: operation, type of the elements, bytes, and number of ranks. `T` are names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Shape<T = TextId> {
    pub(crate) name: T,
    pub(crate) data_type: T,
    pub(crate) bytes: u64,
    pub(crate) ranks: Option<u64>,
}

impl<T> Shape<T> {
    /// The same with other names.
    pub(crate) fn with_names<U>(&self, mut name: impl FnMut(&T) -> U) -> Shape<U> {
        Shape {
            name: name(&self.name),
            data_type: name(&self.data_type),
            bytes: self.bytes,
            ranks: self.ranks,
        }
    }
}

impl Shape {
    /// The bytes, unless they are not known: no collective that moves data moves none.
    pub(crate) fn known_bytes(&self) -> Option<u64> {
        (self.bytes > 0).then_some(self.bytes)
    }

    /// Of operations of which the function's name is known alone.
    pub(crate) fn of_name(name: TextId) -> Self {
        Self {
            name,
            data_type: TextId::EMPTY,
            bytes: 0,
            ranks: None,
        }
    }

    /// Its place among the shapes.
    pub(crate) fn id(self, shapes: &mut Vec<Self>, ids: &mut HashMap<Self, u64>) -> u64 {
        *ids.entry(self).or_insert_with(|| {
            shapes.push(self);
            shapes.len() as u64 - 1
        })
    }
}

/// How an operation was timed, beside its shape: `shape << 2 | flags`.
pub(crate) const BY_CALL: u64 = 1;
/// The kernel is that of an operation before it in the same group.
pub(crate) const FUSED: u64 = 2;

/// So many rows of a rank are put in order at once, and a quarter of all: what was not yet takes several times the memory.
const AT_ONCE: usize = 512;

/// The operations of a member. Rows have number, begin, duration, shape and flags.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    pub(crate) rows: PackedRows<4>,
    count: usize,
    in_order: usize,
}

impl Operations {
    pub(super) fn push(&mut self, row: [u64; 4]) {
        self.rows.push(row);
        self.count += 1;
        if self.count - self.in_order >= AT_ONCE.max(self.in_order / 4) {
            self.rows.sort();
            self.in_order = self.count;
        }
    }
}

impl Lane {
    fn order(self, model: &Model) -> Option<(u64, &str)> {
        match self {
            Self::Everyone => None,
            Self::With(peer, name) => Some((peer, model.text(name))),
        }
    }
}

impl Member {
    /// Where it stands among the members of a process.
    pub(crate) fn order<'a>(
        &self,
        model: &'a Model,
    ) -> (&'a str, Option<u64>, Option<(u64, &'a str)>) {
        let communicator = model.text(self.communicator);
        (communicator, self.rank, self.lane.order(model))
    }

    /// For messages: who sends, who receives, and nothing that the two sides tell differently.
    pub(crate) fn pair(&self, model: &Model) -> Option<Pair> {
        let Lane::With(peer, name) = self.lane else {
            return None;
        };
        let own = self.rank.unwrap_or(u64::MAX);
        Some(match Operation::of(model.text(name)) {
            Operation::Receive => (peer, own, String::new()),
            Operation::Send => (own, peer, String::new()),
            // Not understood: never matched with anything.
            _ => (own, peer, model.text(name).to_owned()),
        })
    }
}

/// Who sends, who receives, and what is not understood.
pub(crate) type Pair = (u64, u64, String);
