//! Parquet files: one table each, as DuckDB, Polars, Spark and pandas read them.
//!
//! Written is a part of the format that all of them know (<https://parquet.apache.org/docs/file-format/>): one row group, one page for each column; whole numbers as
//! differences, texts as numbers in a dictionary, measured numbers one after the other; packed with gzip where that helps. A text by key may be put beside the
//! table. Read is what was written.
//!
//! [`Writer`] writes tables of any length, group by group of rows, packed with LZ4.

mod delta;
mod groups;
mod read;
mod thrift;
mod write;

use std::io;
use std::sync::Arc;

use thiserror::Error;

pub use groups::{Cells, Kind, Writer};
pub use read::read;
pub use write::write;

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Whole numbers.
    Counts(Vec<Option<i64>>),
    /// Measured numbers.
    Numbers(Vec<Option<f64>>),
    /// Texts.
    Texts(Vec<Option<Arc<str>>>),
}

impl Values {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Counts(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Columns {
    /// The columns by name; all have as many values.
    pub columns: Vec<(String, Values)>,
    /// Texts beside the table, by key.
    pub beside: Vec<(String, String)>,
}

impl Columns {
    /// The values of a column.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Values> {
        let found = self.columns.iter().find(|(known, _)| known == name);
        found.map(|(_, values)| values)
    }
}

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub enum ParquetError {
    /// It is no Parquet file, or not whole.
    #[error("it is no Parquet file, or not whole")]
    Damaged,
    /// It has something that is never written here.
    #[error("it has {0}, which is not understood")]
    Unknown(&'static str),
    /// A column cannot be unpacked.
    #[error("a column cannot be unpacked")]
    Packing(#[from] io::Error),
}

/// Why a table of an analysis cannot be used.
#[derive(Debug, Error)]
pub enum PartError {
    /// It cannot be read.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// It is of another version, another question, or of a file that has changed.
    #[error("it is of another question, version or file")]
    Outdated,
}

/// What stands at both ends of a file.
const MAGIC: &[u8; 4] = b"PAR1";
/// Numbers of types, encodings and packings in the format.
const INT64: i64 = 2;
const DOUBLE: i64 = 5;
const BYTE_ARRAY: i64 = 6;
const OPTIONAL: i64 = 1;
const UTF8: i64 = 0;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const DELTA_BINARY_PACKED: i64 = 5;
const RLE_DICTIONARY: i64 = 8;
const UNCOMPRESSED: i64 = 0;
const GZIP: i64 = 2;
const LZ4_RAW: i64 = 7;
/// Kinds of pages.
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: usize) -> Columns {
        let every = |place: usize, count: usize| !place.is_multiple_of(count);
        let counts = (0..rows).map(|at| every(at, 7).then_some(at as i64 * 1_000_003 - 5));
        let numbers = (0..rows).map(|at| every(at, 3).then_some(at as f64 / 3.0));
        let texts = (0..rows).map(|at| every(at, 5).then(|| Arc::from("\u{b5}".repeat(at % 4))));
        Columns {
            columns: vec![
                ("counts".to_owned(), Values::Counts(counts.collect())),
                ("numbers".to_owned(), Values::Numbers(numbers.collect())),
                ("texts".to_owned(), Values::Texts(texts.collect())),
                ("nothing".to_owned(), Values::Counts(vec![None; rows])),
            ],
            beside: vec![("key".to_owned(), "value".to_owned())],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for rows in [0, 1, 7, 8, 9, 1000] {
            let table = table(rows);
            assert_eq!(read(&write(&table).unwrap()).unwrap(), table, "{rows}");
        }
    }

    #[test]
    fn a_file_that_was_cut_off_is_none() {
        let whole = write(&table(20)).unwrap();
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        // Damaged bytes never end in more than an error.
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            drop(read(&damaged));
        }
    }
}
