//! Writes a table.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::thrift::{Thrift, varint};
use super::{BYTE_ARRAY, Columns, DOUBLE, GZIP, INT64, MAGIC, OPTIONAL, PLAIN, RLE, UTF8, Values};

/// A Parquet file with a table. Columns that are shorter than the first one are filled up with nothing.
///
/// # Errors
/// When a column cannot be packed, which does not happen in memory.
pub fn write(table: &Columns) -> io::Result<Vec<u8>> {
    let rows = table.columns.first().map_or(0, |(_, values)| values.len());
    let mut out = MAGIC.to_vec();
    let (mut chunks, mut all_bytes) = (Vec::new(), 0);
    for (name, values) in &table.columns {
        let at = out.len() as i64;
        let body = page(values, rows);
        let mut packer = GzEncoder::new(Vec::new(), Compression::new(6));
        packer.write_all(&body)?;
        let packed = packer.finish()?;
        let of_page = Thrift::Struct(vec![
            (1, Thrift::Int(rows as i64)),
            (2, Thrift::Int(PLAIN)),
            (3, Thrift::Int(RLE)),
            (4, Thrift::Int(RLE)),
        ]);
        let mut head = Vec::new();
        Thrift::Struct(vec![
            (1, Thrift::Int(0)),
            (2, Thrift::Int(body.len() as i64)),
            (3, Thrift::Int(packed.len() as i64)),
            (5, of_page),
        ])
        .write(&mut head);
        let bytes = (head.len() + body.len()) as i64;
        all_bytes += bytes;
        let meta = Thrift::Struct(vec![
            (1, Thrift::Int(kind(values))),
            (2, Thrift::List(vec![Thrift::Int(PLAIN), Thrift::Int(RLE)])),
            (3, Thrift::List(vec![Thrift::text(name)])),
            (4, Thrift::Int(GZIP)),
            (5, Thrift::Long(rows as i64)),
            (6, Thrift::Long(bytes)),
            (7, Thrift::Long((head.len() + packed.len()) as i64)),
            (9, Thrift::Long(at)),
        ]);
        chunks.push(Thrift::Struct(vec![(2, Thrift::Long(at)), (3, meta)]));
        out.extend(head);
        out.extend(packed);
    }
    let group = Thrift::Struct(vec![
        (1, Thrift::List(chunks)),
        (2, Thrift::Long(all_bytes)),
        (3, Thrift::Long(rows as i64)),
    ]);
    let beside = table
        .beside
        .iter()
        .map(|(key, value)| Thrift::Struct(vec![(1, Thrift::text(key)), (2, Thrift::text(value))]));
    let mut footer = Vec::new();
    Thrift::Struct(vec![
        (1, Thrift::Int(1)),
        (2, Thrift::List(schema(table))),
        (3, Thrift::Long(rows as i64)),
        (4, Thrift::List(vec![group])),
        (5, Thrift::List(beside.collect())),
        (6, Thrift::text("rsys-report")),
    ])
    .write(&mut footer);
    out.extend(&footer);
    out.extend((footer.len() as u32).to_le_bytes());
    out.extend(MAGIC);
    Ok(out)
}

fn kind(values: &Values) -> i64 {
    match values {
        Values::Counts(_) => INT64,
        Values::Numbers(_) => DOUBLE,
        Values::Texts(_) => BYTE_ARRAY,
    }
}

/// The root, which names the number of columns, and the columns.
fn schema(table: &Columns) -> Vec<Thrift> {
    let root = Thrift::Struct(vec![
        (4, Thrift::text("schema")),
        (5, Thrift::Int(table.columns.len() as i64)),
    ]);
    let columns = table.columns.iter().map(|(name, values)| {
        let mut fields = vec![
            (1, Thrift::Int(kind(values))),
            (3, Thrift::Int(OPTIONAL)),
            (4, Thrift::text(name)),
        ];
        if matches!(values, Values::Texts(_)) {
            fields.push((6, Thrift::Int(UTF8)));
        }
        Thrift::Struct(fields)
    });
    std::iter::once(root).chain(columns).collect()
}

/// Which values there are, then the values.
fn page(values: &Values, rows: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let is_there: Vec<bool> = match values {
        Values::Counts(values) => values.iter().map(Option::is_some).collect(),
        Values::Numbers(values) => values.iter().map(Option::is_some).collect(),
        Values::Texts(values) => values.iter().map(Option::is_some).collect(),
    };
    let levels = levels(
        is_there
            .into_iter()
            .chain(std::iter::repeat(false))
            .take(rows),
    );
    body.extend((levels.len() as u32).to_le_bytes());
    body.extend(levels);
    match values {
        Values::Counts(values) => {
            let there = values.iter().take(rows).flatten();
            there.for_each(|value| body.extend(value.to_le_bytes()));
        }
        Values::Numbers(values) => {
            let there = values.iter().take(rows).flatten();
            there.for_each(|value| body.extend(value.to_le_bytes()));
        }
        Values::Texts(values) => {
            for text in values.iter().take(rows).flatten() {
                body.extend((text.len() as u32).to_le_bytes());
                body.extend(text.as_bytes());
            }
        }
    }
    body
}

/// Runs of values that are there, or are not.
fn levels(is_there: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut run: (u64, bool) = (0, false);
    let mut end = |(length, is_there): (u64, bool)| {
        if length > 0 {
            varint(&mut out, length << 1);
            out.push(u8::from(is_there));
        }
    };
    for one in is_there {
        if run.1 == one {
            run.0 += 1;
        } else {
            end(run);
            run = (1, one);
        }
    }
    end(run);
    out
}
