//! Reading a store.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use thiserror::Error;

use super::block::{checksum, unpack};
use super::{Block, Directory, MAGIC, StoredTable, TRAILER_BYTES};

/// A directory that is larger is none of ours.
const DIRECTORY_BYTES_MAX: u64 = 1 << 30;

/// Why a store cannot be read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It cannot be read.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// It is not a store, or damaged.
    #[error("is damaged, or no file of tables")]
    Damaged,
}

type Outcome<T> = Result<T, StoreError>;

/// A store, open for reading. Threads may read at once.
#[derive(Debug)]
pub struct Store {
    file: File,
    directory: Directory,
}

impl Store {
    /// Opens a store.
    ///
    /// # Errors
    /// When it cannot be read, is none, or its directory is damaged.
    pub fn open(file: File) -> Outcome<Self> {
        let length = file.metadata()?.len();
        let trailer_at = length
            .checked_sub(TRAILER_BYTES as u64)
            .ok_or(StoreError::Damaged)?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, trailer_at)?;
        let number = |at: usize| {
            let bytes = trailer[at..].first_chunk();
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (at, bytes) = (number(0), number(8));
        let is_whole = trailer[20..] == MAGIC && at.checked_add(bytes) == Some(trailer_at);
        if !is_whole || bytes > DIRECTORY_BYTES_MAX {
            return Err(StoreError::Damaged);
        }
        let mut directory = vec![0; bytes as usize];
        file.read_exact_at(&mut directory, at)?;
        if checksum(&directory).to_le_bytes() != trailer[16..20] {
            return Err(StoreError::Damaged);
        }
        let directory = serde_json::from_slice(&directory).map_err(|_| StoreError::Damaged)?;
        Ok(Self { file, directory })
    }

    /// What it was made of.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.directory.identity
    }

    fn table(&self, table: &str) -> Option<&StoredTable> {
        self.directory.tables.get(table)
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged anywhere.
    pub fn verify(&self) -> Outcome<()> {
        let tables = self.directory.tables.values();
        let columns = tables.flat_map(|table| table.columns.values().flatten());
        let texts = self.directory.texts.iter();
        let texts = texts.flat_map(|part| [&part.lengths, &part.content]);
        for block in columns.chain(texts) {
            block_of(&self.file, *block)?;
        }
        Ok(())
    }

    /// The rows of each part of a table.
    #[must_use]
    pub fn parts(&self, table: &str) -> &[u32] {
        self.table(table).map_or(&[], |table| &table.parts)
    }

    /// The rows of a table.
    #[must_use]
    pub fn rows(&self, table: &str) -> u64 {
        self.parts(table).iter().map(|&rows| u64::from(rows)).sum()
    }

    /// A column of one part of a table.
    ///
    /// # Errors
    /// When it is not there, damaged, or cannot be read.
    pub fn column(&self, table: &str, column: &str, part: usize) -> Outcome<Vec<u64>> {
        column_of(&self.file, &self.directory, table, column, part)
    }

    /// All texts, in the order of their numbers: `take` gets each.
    ///
    /// # Errors
    /// When they are damaged or cannot be read.
    pub fn texts(&self, mut take: impl FnMut(&str)) -> Outcome<()> {
        for part in &self.directory.texts {
            let lengths = unpack(&block_of(&self.file, part.lengths)?, part.count as usize);
            let content = block_of(&self.file, part.content)?;
            let content = lz4_flex::block::decompress(&content, part.bytes as usize);
            let (Some(lengths), Ok(content)) = (lengths, content) else {
                return Err(StoreError::Damaged);
            };
            let mut content = str::from_utf8(&content).map_err(|_| StoreError::Damaged)?;
            for length in lengths {
                let split = content.split_at_checked(length as usize);
                let (text, rest) = split.ok_or(StoreError::Damaged)?;
                take(text);
                content = rest;
            }
        }
        Ok(())
    }
}

fn block_of(file: &File, block: Block) -> Outcome<Vec<u8>> {
    let Block(at, length, sum) = block;
    let mut bytes = vec![0; length as usize];
    match file.read_exact_at(&mut bytes, at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(StoreError::Damaged);
        }
        result => result?,
    }
    match checksum(&bytes) == sum {
        true => Ok(bytes),
        false => Err(StoreError::Damaged),
    }
}

/// A column of one part of a table.
pub(super) fn column_of(
    file: &File,
    directory: &Directory,
    table: &str,
    column: &str,
    part: usize,
) -> Outcome<Vec<u64>> {
    let table = directory.tables.get(table).ok_or(StoreError::Damaged)?;
    let blocks = table.columns.get(column);
    let block = blocks.and_then(|blocks| blocks.get(part));
    let (Some(&block), Some(&rows)) = (block, table.parts.get(part)) else {
        return Err(StoreError::Damaged);
    };
    unpack(&block_of(file, block)?, rows as usize).ok_or(StoreError::Damaged)
}
