//! Reads a table that was written here.

use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;

use super::delta::{take_differences, take_numbers};
use super::thrift::{Input, Thrift};
use super::{
    BYTE_ARRAY, Columns, DATA_PAGE, DELTA_BINARY_PACKED, DICTIONARY_PAGE, DOUBLE, GZIP, INT64,
    MAGIC, PLAIN, ParquetError, RLE_DICTIONARY, UNCOMPRESSED, Values,
};

/// A file with more rows is none of ours, but damaged.
const ROWS_MAX: usize = 1 << 28;

/// The table of a file.
///
/// # Errors
/// When it is damaged, or of another writer.
pub fn read(file: &[u8]) -> Result<Columns, ParquetError> {
    let body = file
        .strip_prefix(MAGIC)
        .and_then(|rest| rest.strip_suffix(MAGIC));
    let body = body.ok_or(ParquetError::Damaged)?;
    let (_, length) = body.split_last_chunk::<4>().ok_or(ParquetError::Damaged)?;
    let length = u32::from_le_bytes(*length) as usize + 8;
    let from = file
        .len()
        .checked_sub(length)
        .ok_or(ParquetError::Damaged)?;
    let footer = Input(&file[from..]).structure()?;
    let rows = footer.count(3).and_then(|rows| usize::try_from(rows).ok());
    let rows = rows.filter(|rows| *rows <= ROWS_MAX);
    let rows = rows.ok_or(ParquetError::Damaged)?;
    let [group] = footer.list(4) else {
        return Err(ParquetError::Unknown("several groups of rows"));
    };
    let mut table = Columns::default();
    for chunk in group.list(1) {
        let meta = chunk.field(3).ok_or(ParquetError::Damaged)?;
        let name = meta.list(3).first();
        let Some(Thrift::Bytes(name)) = name else {
            return Err(ParquetError::Damaged);
        };
        let name = String::from_utf8_lossy(name).into_owned();
        // A dictionary, if there is one, stands in front of the values.
        let at = meta.count(11).or(meta.count(9));
        let at = at.and_then(|at| usize::try_from(at).ok());
        let pages = at
            .and_then(|at| file.get(at..))
            .ok_or(ParquetError::Damaged)?;
        let about = [1, 4].map(|number| meta.count(number).ok_or(ParquetError::Damaged));
        let [kind, packing] = about;
        table
            .columns
            .push((name, column(pages, (kind?, packing?), rows)?));
    }
    for pair in footer.list(5) {
        let (key, value) = (pair.string(1), pair.string(2));
        table.beside.extend(key.zip(value));
    }
    Ok(table)
}

/// The head and the content of the page that is next.
fn page(input: &mut Input<'_>, packing: i64) -> Result<(Thrift, Vec<u8>), ParquetError> {
    let head = input.structure()?;
    let [plain, packed] = [2, 3].map(|number| {
        head.count(number)
            .and_then(|size| usize::try_from(size).ok())
    });
    let (plain, packed) = plain.zip(packed).ok_or(ParquetError::Damaged)?;
    let packed = input.take(packed)?;
    let body = match packing {
        UNCOMPRESSED => packed.to_vec(),
        GZIP => {
            let mut body = Vec::new();
            GzDecoder::new(packed)
                .take(plain as u64 + 1)
                .read_to_end(&mut body)?;
            body
        }
        _ => return Err(ParquetError::Unknown("another packing")),
    };
    match body.len() == plain {
        true => Ok((head, body)),
        false => Err(ParquetError::Damaged),
    }
}

/// The values of a column.
fn column(pages: &[u8], (kind, packing): (i64, i64), rows: usize) -> Result<Values, ParquetError> {
    let mut input = Input(pages);
    let (mut head, mut body) = page(&mut input, packing)?;
    let mut words: Vec<Arc<str>> = Vec::new();
    if head.count(1) == Some(DICTIONARY_PAGE) {
        let mut input_words = Input(&body);
        while !input_words.0.is_empty() {
            words.push(text(&mut input_words)?);
        }
        (head, body) = page(&mut input, packing)?;
    }
    if head.count(1) != Some(DATA_PAGE) {
        return Err(ParquetError::Unknown("another kind of page"));
    }
    let about = head.field(5).ok_or(ParquetError::Damaged)?;
    let encoding = about.count(2).ok_or(ParquetError::Damaged)?;
    let mut input = Input(&body);
    let length = u32::from_le_bytes(chunk(&mut input)?) as usize;
    let is_there = levels(input.take(length)?, rows)?;
    let count = is_there.iter().filter(|is_there| **is_there).count();
    Ok(match (kind, encoding) {
        (INT64, DELTA_BINARY_PACKED) => {
            let mut found = take_differences(&mut input, count)?.into_iter();
            Values::Counts(values(&is_there, || {
                found.next().ok_or(ParquetError::Damaged)
            })?)
        }
        (INT64, PLAIN) => Values::Counts(values(&is_there, || {
            Ok(i64::from_le_bytes(chunk(&mut input)?))
        })?),
        (DOUBLE, PLAIN) => Values::Numbers(values(&is_there, || {
            Ok(f64::from_le_bytes(chunk(&mut input)?))
        })?),
        (BYTE_ARRAY, RLE_DICTIONARY) => {
            let mut found = take_numbers(&mut input, count)?.into_iter();
            Values::Texts(values(&is_there, || {
                let number = found.next().ok_or(ParquetError::Damaged)?;
                let word = words.get(number as usize);
                word.cloned().ok_or(ParquetError::Damaged)
            })?)
        }
        (BYTE_ARRAY, PLAIN) => Values::Texts(values(&is_there, || text(&mut input))?),
        _ => return Err(ParquetError::Unknown("another type or encoding")),
    })
}

fn text(input: &mut Input<'_>) -> Result<Arc<str>, ParquetError> {
    let length = u32::from_le_bytes(chunk(input)?) as usize;
    Ok(Arc::from(String::from_utf8_lossy(input.take(length)?)))
}

fn chunk<const N: usize>(input: &mut Input<'_>) -> Result<[u8; N], ParquetError> {
    input.take(N)?.try_into().map_err(|_| ParquetError::Damaged)
}

fn values<T>(
    is_there: &[bool],
    mut next: impl FnMut() -> Result<T, ParquetError>,
) -> Result<Vec<Option<T>>, ParquetError> {
    let values = is_there.iter();
    values
        .map(|is_there| is_there.then(&mut next).transpose())
        .collect()
}

/// Which of the rows have a value.
fn levels(bytes: &[u8], rows: usize) -> Result<Vec<bool>, ParquetError> {
    let mut input = Input(bytes);
    let mut found = Vec::new();
    while !input.0.is_empty() {
        let head = input.varint()?;
        if head & 1 != 0 {
            return Err(ParquetError::Unknown("packed levels"));
        }
        let length = usize::try_from(head >> 1).map_err(|_| ParquetError::Damaged)?;
        if length > rows - found.len() {
            return Err(ParquetError::Damaged);
        }
        let value = input.take(1)?[0];
        found.resize(found.len() + length, value != 0);
    }
    match found.len() == rows {
        true => Ok(found),
        false => Err(ParquetError::Damaged),
    }
}
