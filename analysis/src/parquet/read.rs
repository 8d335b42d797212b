//! Reads a table that was written here.

use std::io::Read;

use flate2::read::GzDecoder;

use super::thrift::{Input, Thrift};
use super::{BYTE_ARRAY, Columns, DOUBLE, GZIP, INT64, MAGIC, ParquetError, Values};

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
        let at = meta.count(9).and_then(|at| usize::try_from(at).ok());
        let page = at
            .and_then(|at| file.get(at..))
            .ok_or(ParquetError::Damaged)?;
        if meta.count(4) != Some(GZIP) {
            return Err(ParquetError::Unknown("another packing"));
        }
        let kind = meta.count(1).ok_or(ParquetError::Damaged)?;
        table.columns.push((name, column(page, kind, rows)?));
    }
    for pair in footer.list(5) {
        let (key, value) = (pair.string(1), pair.string(2));
        table.beside.extend(key.zip(value));
    }
    Ok(table)
}

/// The values of a page and its head.
fn column(page: &[u8], kind: i64, rows: usize) -> Result<Values, ParquetError> {
    let mut input = Input(page);
    let head = input.structure()?;
    let [plain, packed] = [2, 3].map(|number| {
        head.count(number)
            .and_then(|size| usize::try_from(size).ok())
    });
    let (plain, packed) = plain.zip(packed).ok_or(ParquetError::Damaged)?;
    let packed = input.take(packed)?;
    let mut body = Vec::new();
    GzDecoder::new(packed)
        .take(plain as u64 + 1)
        .read_to_end(&mut body)?;
    if body.len() != plain {
        return Err(ParquetError::Damaged);
    }
    let mut input = Input(&body);
    let length = u32::from_le_bytes(chunk(&mut input)?) as usize;
    let is_there = levels(input.take(length)?, rows)?;
    Ok(match kind {
        INT64 => Values::Counts(values(&is_there, || {
            Ok(i64::from_le_bytes(chunk(&mut input)?))
        })?),
        DOUBLE => Values::Numbers(values(&is_there, || {
            Ok(f64::from_le_bytes(chunk(&mut input)?))
        })?),
        BYTE_ARRAY => Values::Texts(values(&is_there, || {
            let length = u32::from_le_bytes(chunk(&mut input)?) as usize;
            Ok(String::from_utf8_lossy(input.take(length)?).into_owned())
        })?),
        _ => return Err(ParquetError::Unknown("another type")),
    })
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
