//! Writes a table of any length, group by group.

use std::io::{self, Write};

use super::delta::{put_differences, put_numbers};
use super::thrift::Thrift;
use super::write::{footer, group, levels};
use super::{
    BYTE_ARRAY, DATA_PAGE, DELTA_BINARY_PACKED, DICTIONARY_PAGE, DOUBLE, INT64, LZ4_RAW, MAGIC,
    PLAIN, RLE, RLE_DICTIONARY,
};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers of 64 bits.
    Count,
    /// Measured numbers.
    Number,
    /// Texts.
    Text,
}

/// The values of a column in a group of rows; `None` where there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells<'t> {
    /// Whole numbers.
    Counts(Vec<Option<i64>>),
    /// Measured numbers.
    Numbers(Vec<Option<f64>>),
    /// Texts by their numbers, and the texts, each of which is a value at least once.
    Texts(Vec<Option<u32>>, Vec<&'t str>),
}

/// A file while it is written. What was not finished by [`Writer::finish`] is no Parquet file.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// Bytes that are written.
    at: i64,
    columns: Vec<(String, Kind)>,
    groups: Vec<Thrift>,
    rows: usize,
}

impl<W: Write> Writer<W> {
    /// Begins a file with these columns.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(mut out: W, columns: Vec<(String, Kind)>) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self {
            out,
            at: MAGIC.len() as i64,
            columns,
            groups: Vec::new(),
            rows: 0,
        })
    }

    /// Writes a group of rows: the values of each column, in the order of the columns.
    ///
    /// # Errors
    /// When `out` fails, or the columns are not those of the file or differ in length.
    pub fn group(&mut self, cells: &[Cells<'_>]) -> io::Result<()> {
        let rows = cells.first().map_or(0, Cells::len);
        let fits = |((_, kind), cells): (&(String, Kind), &Cells<'_>)| {
            *kind == cells.kind() && cells.len() == rows
        };
        if cells.len() != self.columns.len() || !self.columns.iter().zip(cells).all(fits) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "columns that are not those of the file",
            ));
        }
        if rows == 0 {
            return Ok(());
        }
        let (mut chunks, mut plain_bytes) = (Vec::new(), 0);
        for (column, cells) in cells.iter().enumerate() {
            let start = self.at;
            let (mut plain, mut dictionary) = (0, None);
            let mut body = present(cells);
            let encoding = match cells {
                Cells::Texts(ids, words) => {
                    let mut texts = Vec::new();
                    for word in words {
                        texts.extend((word.len() as u32).to_le_bytes());
                        texts.extend(word.as_bytes());
                    }
                    dictionary = Some(start);
                    let about = [words.len() as i64, PLAIN];
                    plain += self.page(DICTIONARY_PAGE, 7, &about, &texts)?;
                    let there: Vec<u32> = ids.iter().flatten().copied().collect();
                    put_numbers(&mut body, &there, words.len());
                    RLE_DICTIONARY
                }
                Cells::Counts(values) => {
                    let there: Vec<i64> = values.iter().flatten().copied().collect();
                    put_differences(&mut body, &there);
                    DELTA_BINARY_PACKED
                }
                Cells::Numbers(values) => {
                    let there = values.iter().flatten();
                    there.for_each(|value| body.extend(value.to_le_bytes()));
                    PLAIN
                }
            };
            let data = self.at;
            plain += self.page(DATA_PAGE, 5, &[rows as i64, encoding, RLE, RLE], &body)?;
            let (name, kind) = &self.columns[column];
            let encodings = [PLAIN, RLE, encoding].map(Thrift::Int).to_vec();
            let mut meta = vec![
                (1, Thrift::Int(kind.number())),
                (2, Thrift::List(encodings)),
                (3, Thrift::List(vec![Thrift::text(name)])),
                (4, Thrift::Int(LZ4_RAW)),
                (5, Thrift::Long(rows as i64)),
                (6, Thrift::Long(plain)),
                (7, Thrift::Long(self.at - start)),
                (9, Thrift::Long(data)),
            ];
            meta.extend(dictionary.map(|at| (11, Thrift::Long(at))));
            let meta = Thrift::Struct(meta);
            chunks.push(Thrift::Struct(vec![(2, Thrift::Long(start)), (3, meta)]));
            plain_bytes += plain;
        }
        self.groups.push(group(chunks, plain_bytes, rows));
        self.rows += rows;
        Ok(())
    }

    /// Packs and writes a page behind its head, in which a field says the rest about it; its bytes if it were not packed.
    fn page(&mut self, kind: i64, field: i16, about: &[i64], body: &[u8]) -> io::Result<i64> {
        let packed = lz4_flex::block::compress(body);
        let about = (1..).zip(about.iter().map(|&number| Thrift::Int(number)));
        let mut head = Vec::new();
        Thrift::Struct(vec![
            (1, Thrift::Int(kind)),
            (2, Thrift::Int(body.len() as i64)),
            (3, Thrift::Int(packed.len() as i64)),
            (field, Thrift::Struct(about.collect())),
        ])
        .write(&mut head);
        self.out.write_all(&head)?;
        self.out.write_all(&packed)?;
        self.at += (head.len() + packed.len()) as i64;
        Ok((head.len() + body.len()) as i64)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(mut self) -> io::Result<W> {
        let mut end = Vec::new();
        let columns = self.columns.iter();
        let columns = columns.map(|(name, kind)| (name.as_str(), kind.number()));
        footer(&mut end, columns, self.groups, self.rows, &[]);
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl Cells<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Counts(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Texts(values, _) => values.len(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Counts(_) => Kind::Count,
            Self::Numbers(_) => Kind::Number,
            Self::Texts(..) => Kind::Text,
        }
    }
}

impl Kind {
    fn number(self) -> i64 {
        match self {
            Self::Count => INT64,
            Self::Number => DOUBLE,
            Self::Text => BYTE_ARRAY,
        }
    }
}

/// Which values there are.
fn present(cells: &Cells<'_>) -> Vec<u8> {
    let levels = match cells {
        Cells::Counts(values) => levels(values.iter().map(Option::is_some)),
        Cells::Numbers(values) => levels(values.iter().map(Option::is_some)),
        Cells::Texts(values, _) => levels(values.iter().map(Option::is_some)),
    };
    let mut body = (levels.len() as u32).to_le_bytes().to_vec();
    body.extend(levels);
    body
}
