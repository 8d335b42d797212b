//! What copy and fill kernels do with memory.

use crate::memory::{Unmapped, View};
use crate::packet::Dispatch;

/// Finds in a dispatch's arguments (at this address) what it moves.
pub type Recipe = fn(&mut View, u64, &Dispatch) -> Result<Move, Unmapped>;

/// Bytes that are moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Copied, row by row.
    Copy {
        /// Where the first row is read.
        from: u64,
        /// Where it is written.
        to: u64,
        /// Bytes of a row.
        bytes: u64,
        /// The other rows.
        rows: Rows,
    },
    /// Filled, row by row.
    Fill {
        /// Where the first row is written.
        to: u64,
        /// What is repeated.
        pattern: Vec<u8>,
        /// Bytes of a row.
        bytes: u64,
        /// The other rows.
        rows: Rows,
    },
}

/// Rows and slices of a box: how many, and how far they are from each other, read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Rows of a slice.
    pub count: u64,
    /// Bytes from row to row: read, written.
    pub pitch: (u64, u64),
    /// Slices.
    pub slices: u64,
    /// Bytes from slice to slice: read, written.
    pub slice_pitch: (u64, u64),
}

impl Rows {
    /// A single row.
    pub const ONE: Self = Self {
        count: 1,
        pitch: (0, 0),
        slices: 1,
        slice_pitch: (0, 0),
    };

    fn all(self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.slices).flat_map(move |slice| {
            (0..self.count).map(move |row| {
                (
                    slice * self.slice_pitch.0 + row * self.pitch.0,
                    slice * self.slice_pitch.1 + row * self.pitch.1,
                )
            })
        })
    }
}

impl Move {
    /// Moves the bytes.
    ///
    /// # Errors
    /// When they are not in memory.
    pub fn carry_out(&self, view: &mut View) -> Result<(), Unmapped> {
        match self {
            Self::Copy {
                from,
                to,
                bytes,
                rows,
            } => rows
                .all()
                .try_for_each(|(read, written)| view.copy(to + written, from + read, *bytes)),
            Self::Fill {
                to,
                pattern,
                bytes,
                rows,
            } => rows
                .all()
                .try_for_each(|(_, written)| view.fill(to + written, pattern, *bytes)),
        }
    }

    /// Where it begins to read and to write, and how many bytes it moves.
    pub fn extent(&self) -> (u64, u64, u64) {
        match self {
            Self::Copy {
                from,
                to,
                bytes,
                rows,
            } => (*from, *to, bytes * rows.count * rows.slices),
            Self::Fill {
                to, bytes, rows, ..
            } => (*to, *to, bytes * rows.count * rows.slices),
        }
    }
}

/// Arguments of a kernel, as 64-bit words.
///
/// # Errors
/// When they are not in memory.
pub fn words<const COUNT: usize>(
    view: &mut View,
    arguments: u64,
) -> Result<[u64; COUNT], Unmapped> {
    let mut words = [0; COUNT];
    for (index, word) in words.iter_mut().enumerate() {
        *word = view.read_u64(arguments + 8 * index as u64)?;
    }
    Ok(words)
}
