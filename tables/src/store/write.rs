//! Writing a store.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::block::{PART_ROWS, checksum, pack};
use super::read::{StoreError, column_of};
use super::{Block, Directory, MAGIC, TextPart};

/// Texts of so many bytes are one part, more or less.
const TEXT_PART_BYTES: usize = 1 << 20;

/// A store that is being written.
#[derive(Debug)]
pub struct StoreWriter {
    out: BufWriter<File>,
    at: u64,
    directory: Directory,
}

impl StoreWriter {
    /// Begins a store of what `identity` names, in an empty file that may be read as well.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(file: File, identity: &str) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        out.write_all(&MAGIC)?;
        Ok(Self {
            out,
            at: MAGIC.len() as u64,
            directory: Directory {
                identity: identity.to_owned(),
                ..Directory::default()
            },
        })
    }

    fn block(&mut self, bytes: &[u8]) -> io::Result<Block> {
        self.out.write_all(bytes)?;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let block = Block(self.at, length, checksum(bytes));
        self.at += u64::from(length);
        Ok(block)
    }

    /// Begins the next part of a table.
    pub fn part(&mut self, table: &str, rows: usize) {
        let table = self.directory.tables.entry(table.to_owned()).or_default();
        table.parts.push(rows as u32);
    }

    /// Writes a column of the part of a table that has none of that name yet. The parts of a column come in their order.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn column(
        &mut self,
        table: &str,
        column: &str,
        values: &[u64],
        in_order: bool,
    ) -> io::Result<()> {
        let block = self.block(&pack(values, in_order))?;
        let table = self.directory.tables.entry(table.to_owned()).or_default();
        let blocks = table.columns.entry(column.to_owned()).or_default();
        blocks.push(block);
        Ok(())
    }

    /// The rows of each part that a table has so far.
    #[must_use]
    pub fn parts(&self, table: &str) -> Vec<u32> {
        let table = self.directory.tables.get(table);
        table.map_or_else(Vec::new, |table| table.parts.clone())
    }

    /// Reads back what was written of a column.
    ///
    /// # Errors
    /// When that fails.
    pub fn read_back(&mut self, table: &str, column: &str, part: usize) -> io::Result<Vec<u64>> {
        self.out.flush()?;
        let values = column_of(self.out.get_ref(), &self.directory, table, column, part);
        values.map_err(|error| match error {
            StoreError::Io(error) => error,
            damaged => io::Error::other(damaged),
        })
    }

    /// Writes all texts, in the order of their numbers.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> io::Result<()> {
        let (mut lengths, mut content) = (Vec::new(), Vec::new());
        for text in texts {
            if content.len() >= TEXT_PART_BYTES || lengths.len() == PART_ROWS {
                self.text_part(&mut lengths, &mut content)?;
            }
            lengths.push(text.len() as u64);
            content.extend_from_slice(text.as_bytes());
        }
        self.text_part(&mut lengths, &mut content)
    }

    fn text_part(&mut self, lengths: &mut Vec<u64>, content: &mut Vec<u8>) -> io::Result<()> {
        let part = TextPart {
            count: lengths.len() as u32,
            bytes: u32::try_from(content.len()).map_err(io::Error::other)?,
            lengths: self.block(&pack(lengths, false))?,
            content: self.block(&lz4_flex::block::compress(content))?,
        };
        self.directory.texts.push(part);
        lengths.clear();
        content.clear();
        Ok(())
    }

    /// Writes the directory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        let directory = serde_json::to_vec(&self.directory)?;
        self.out.write_all(&directory)?;
        self.out.write_all(&self.at.to_le_bytes())?;
        self.out
            .write_all(&(directory.len() as u64).to_le_bytes())?;
        self.out.write_all(&checksum(&directory).to_le_bytes())?;
        self.out.write_all(&MAGIC)?;
        self.out.flush()
    }
}

/// Rows of a table that are put into parts.
#[derive(Debug)]
pub struct Rows<const N: usize> {
    table: &'static str,
    columns: [(&'static str, bool); N],
    values: [Vec<u64>; N],
}

impl<const N: usize> Rows<N> {
    /// Rows of a table with these columns, and whether the values of each are nearly in order.
    #[must_use]
    pub fn new(table: &'static str, columns: [(&'static str, bool); N]) -> Self {
        Self {
            table,
            columns,
            values: [const { Vec::new() }; N],
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When a part was full and cannot be written.
    #[inline]
    pub fn push(&mut self, row: [u64; N], to: &mut StoreWriter) -> io::Result<()> {
        for (column, value) in self.values.iter_mut().zip(row) {
            column.push(value);
        }
        if self.values[0].len() == PART_ROWS {
            self.flush(to)?;
        }
        Ok(())
    }

    /// Writes the rows that are no full part.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn flush(&mut self, to: &mut StoreWriter) -> io::Result<()> {
        let rows = self.values[0].len();
        if rows > 0 {
            to.part(self.table, rows);
            for ((column, in_order), values) in self.columns.iter().zip(&mut self.values) {
                to.column(self.table, column, values, *in_order)?;
                values.clear();
            }
        }
        Ok(())
    }
}
