//! Writes a table.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::delta::{put_differences, put_numbers};
use super::thrift::{Thrift, varint};
use super::{
    BYTE_ARRAY, Columns, DATA_PAGE, DELTA_BINARY_PACKED, DICTIONARY_PAGE, DOUBLE, GZIP, INT64,
    MAGIC, OPTIONAL, PLAIN, RLE, RLE_DICTIONARY, UNCOMPRESSED, UTF8, Values,
};

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
        let Column {
            pages,
            encoding,
            packing,
        } = column(values, rows)?;
        let (mut bytes, mut data_at) = (0, at);
        for page in pages {
            let mut head = Vec::new();
            let about =
                |number| Thrift::Struct(vec![(1, Thrift::Int(number)), (2, Thrift::Int(PLAIN))]);
            let (kind, about) = match page.kind {
                DICTIONARY_PAGE => (7, about(page.values as i64)),
                _ => {
                    data_at = out.len() as i64;
                    let numbers = [page.values as i64, encoding, RLE, RLE];
                    let fields = (1..).zip(numbers.map(Thrift::Int));
                    (5, Thrift::Struct(fields.collect()))
                }
            };
            Thrift::Struct(vec![
                (1, Thrift::Int(page.kind)),
                (2, Thrift::Int(page.plain_bytes as i64)),
                (3, Thrift::Int(page.packed.len() as i64)),
                (kind, about),
            ])
            .write(&mut head);
            bytes += (head.len() + page.plain_bytes) as i64;
            out.extend(head);
            out.extend(page.packed);
        }
        all_bytes += bytes;
        let encodings = [PLAIN, RLE, encoding].map(Thrift::Int).to_vec();
        let mut meta = vec![
            (1, Thrift::Int(kind(values))),
            (2, Thrift::List(encodings)),
            (3, Thrift::List(vec![Thrift::text(name)])),
            (4, Thrift::Int(packing)),
            (5, Thrift::Long(rows as i64)),
            (6, Thrift::Long(bytes)),
            (7, Thrift::Long(out.len() as i64 - at)),
            (9, Thrift::Long(data_at)),
        ];
        if data_at != at {
            meta.push((11, Thrift::Long(at)));
        }
        let meta = Thrift::Struct(meta);
        chunks.push(Thrift::Struct(vec![(2, Thrift::Long(at)), (3, meta)]));
    }
    let groups = vec![group(chunks, all_bytes, rows)];
    let columns = table.columns.iter();
    let columns = columns.map(|(name, values)| (name.as_str(), kind(values)));
    footer(&mut out, columns, groups, rows, &table.beside);
    Ok(out)
}

/// A group of rows: its columns, and their bytes without packing.
pub(super) fn group(chunks: Vec<Thrift>, plain_bytes: i64, rows: usize) -> Thrift {
    Thrift::Struct(vec![
        (1, Thrift::List(chunks)),
        (2, Thrift::Long(plain_bytes)),
        (3, Thrift::Long(rows as i64)),
    ])
}

/// What stands at the end of a file.
pub(super) fn footer<'n>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = (&'n str, i64)>,
    groups: Vec<Thrift>,
    rows: usize,
    beside: &[(String, String)],
) {
    let beside = beside
        .iter()
        .map(|(key, value)| Thrift::Struct(vec![(1, Thrift::text(key)), (2, Thrift::text(value))]));
    let mut footer = Vec::new();
    Thrift::Struct(vec![
        (1, Thrift::Int(1)),
        (2, Thrift::List(schema(columns))),
        (3, Thrift::Long(rows as i64)),
        (4, Thrift::List(groups)),
        (5, Thrift::List(beside.collect())),
        (6, Thrift::text("rsys-report")),
    ])
    .write(&mut footer);
    out.extend(&footer);
    out.extend((footer.len() as u32).to_le_bytes());
    out.extend(MAGIC);
}

fn kind(values: &Values) -> i64 {
    match values {
        Values::Counts(_) => INT64,
        Values::Numbers(_) => DOUBLE,
        Values::Texts(_) => BYTE_ARRAY,
    }
}

/// The root, which names the number of columns, and the columns.
fn schema<'n>(columns: impl Iterator<Item = (&'n str, i64)>) -> Vec<Thrift> {
    let mut all: Vec<Thrift> = columns
        .map(|(name, kind)| {
            let mut fields = vec![
                (1, Thrift::Int(kind)),
                (3, Thrift::Int(OPTIONAL)),
                (4, Thrift::text(name)),
            ];
            if kind == BYTE_ARRAY {
                fields.push((6, Thrift::Int(UTF8)));
            }
            Thrift::Struct(fields)
        })
        .collect();
    let root = Thrift::Struct(vec![
        (4, Thrift::text("schema")),
        (5, Thrift::Int(all.len() as i64)),
    ]);
    all.insert(0, root);
    all
}

/// A column that is packed.
struct Column {
    pages: Vec<Page>,
    encoding: i64,
    packing: i64,
}

struct Page {
    kind: i64,
    values: usize,
    plain_bytes: usize,
    packed: Vec<u8>,
}

/// The values of a column: a dictionary, if they are texts, and which values there are, then the values.
fn column(values: &Values, rows: usize) -> io::Result<Column> {
    let is_there: Vec<bool> = match values {
        Values::Counts(values) => values.iter().map(Option::is_some).collect(),
        Values::Numbers(values) => values.iter().map(Option::is_some).collect(),
        Values::Texts(values) => values.iter().map(Option::is_some).collect(),
    };
    let is_none = !is_there.contains(&true);
    let levels = levels(
        is_there
            .into_iter()
            .chain(std::iter::repeat(false))
            .take(rows),
    );
    let mut body = (levels.len() as u32).to_le_bytes().to_vec();
    body.extend(levels);
    let mut pages = Vec::new();
    let encoding = match values {
        _ if is_none => PLAIN,
        Values::Counts(values) => {
            let there: Vec<i64> = values.iter().take(rows).flatten().copied().collect();
            put_differences(&mut body, &there);
            DELTA_BINARY_PACKED
        }
        Values::Numbers(values) => {
            let there = values.iter().take(rows).flatten();
            there.for_each(|value| body.extend(value.to_le_bytes()));
            PLAIN
        }
        Values::Texts(values) => {
            let (mut words, mut dictionary) = (HashMap::new(), Vec::new());
            let mut numbers = Vec::new();
            for text in values.iter().take(rows).flatten() {
                let next = words.len() as u32;
                numbers.push(*words.entry(text).or_insert_with(|| {
                    dictionary.extend((text.len() as u32).to_le_bytes());
                    dictionary.extend(text.as_bytes());
                    next
                }));
            }
            put_numbers(&mut body, &numbers, words.len());
            pages.push((DICTIONARY_PAGE, words.len(), dictionary));
            RLE_DICTIONARY
        }
    };
    pages.push((DATA_PAGE, rows, body));
    let packed = pages.iter().map(|(.., body)| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::new(6));
        packer.write_all(body)?;
        packer.finish()
    });
    let packed: Vec<Vec<u8>> = packed.collect::<io::Result<_>>()?;
    let size = packed.iter().map(Vec::len).sum::<usize>();
    // Who reads it need not unpack what hardly became smaller.
    let is_worth_it = size * 10 < pages.iter().map(|page| page.2.len()).sum::<usize>() * 9;
    let pages = pages.into_iter().zip(packed);
    let pages = pages.map(|((kind, values, body), packed)| Page {
        kind,
        values,
        plain_bytes: body.len(),
        packed: if is_worth_it { packed } else { body },
    });
    Ok(Column {
        pages: pages.collect(),
        encoding,
        packing: if is_worth_it { GZIP } else { UNCOMPRESSED },
    })
}

/// Runs of values that are there, or are not.
pub(super) fn levels(is_there: impl Iterator<Item = bool>) -> Vec<u8> {
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
