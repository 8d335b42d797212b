//! The file that tables are in: columns in parts of [`PART_ROWS`] rows, each packed for itself and with a checksum, and a directory behind them.
//!
//! Only the columns that are asked for are read. A file is whole or no file: the directory is the last thing that is written, and what was
//! damaged since is noticed where it is read.

mod block;
mod read;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use block::PART_ROWS;
pub use read::{Store, StoreError};
pub use write::{Rows, StoreWriter};

/// The first and the last bytes of a file.
const MAGIC: [u8; 8] = *b"rsystab2";
/// Behind the directory: its place, its length, its checksum, [`MAGIC`].
const TRAILER_BYTES: usize = 8 + 8 + 4 + 8;

/// What is in a file.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Directory {
    /// What the file was made of.
    identity: String,
    tables: BTreeMap<String, StoredTable>,
    /// Texts, in parts.
    texts: Vec<TextPart>,
}

/// A table.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct StoredTable {
    /// The rows of each part.
    parts: Vec<u32>,
    /// The blocks of each column, one for each part.
    columns: BTreeMap<String, Vec<Block>>,
}

/// A place in the file: its first byte, its length, its checksum.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Block(u64, u32, u32);

/// Texts: their lengths, and their bytes, one behind the other.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct TextPart {
    count: u32,
    bytes: u32,
    lengths: Block,
    content: Block,
}
