//! Whole numbers as differences (`DELTA_BINARY_PACKED`) and numbers of texts (`RLE_DICTIONARY`), both in as many bits as they need
//! (<https://parquet.apache.org/docs/file-format/data-pages/encodings/>).

use super::ParquetError;
use super::thrift::{Input, varint, zigzag};

/// Values of a block and of each of its parts, which have a width of their own; the sizes that other writers use.
const BLOCK: usize = 128;
const PARTS: usize = 4;
const PART: usize = BLOCK / PARTS;

/// Differences to the value before, less the smallest of the block.
pub(super) fn put_differences(out: &mut Vec<u8>, values: &[i64]) {
    varint(out, BLOCK as u64);
    varint(out, PARTS as u64);
    varint(out, values.len() as u64);
    varint(out, zigzag(values.first().copied().unwrap_or(0)));
    let differences: Vec<i64> = values
        .windows(2)
        .map(|pair| pair[1].wrapping_sub(pair[0]))
        .collect();
    for block in differences.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        varint(out, zigzag(least));
        let above: Vec<u64> = block
            .iter()
            .map(|value| value.wrapping_sub(least).cast_unsigned())
            .collect();
        let widths = above.chunks(PART).map(|part| width(part.iter().copied()));
        let widths: Vec<u32> = widths.collect();
        out.extend((0..PARTS).map(|part| widths.get(part).copied().unwrap_or(0) as u8));
        for (part, width) in above.chunks(PART).zip(widths) {
            let full = part.iter().copied().chain(std::iter::repeat(0)).take(PART);
            put_bits(out, full, width);
        }
    }
}

/// Values that [`put_differences`] wrote, of which there have to be `count`.
pub(super) fn take_differences(
    input: &mut Input<'_>,
    count: usize,
) -> Result<Vec<i64>, ParquetError> {
    let size = |number: u64| usize::try_from(number).map_err(|_| ParquetError::Damaged);
    let (block, parts, all) = (input.varint()?, input.varint()?, input.varint()?);
    if (size(block)?, size(parts)?) != (BLOCK, PARTS) {
        return Err(ParquetError::Unknown("blocks of another size"));
    }
    if size(all)? != count {
        return Err(ParquetError::Damaged);
    }
    let mut last = input.zigzag()?;
    let mut values = Vec::with_capacity(count.min(1 << 16));
    if count > 0 {
        values.push(last);
    }
    while values.len() < count {
        let least = input.zigzag()?;
        let widths = input.take(PARTS)?;
        for &width in widths {
            let left = count - values.len();
            if left == 0 {
                break;
            }
            take_bits(input, PART, u32::from(width), |place, above| {
                if place < left {
                    last = last.wrapping_add(least).wrapping_add(above.cast_signed());
                    values.push(last);
                }
            })?;
        }
    }
    Ok(values)
}

/// Numbers below `limit`: long runs of one as such where that is shorter than all of them packed.
pub(super) fn put_numbers(out: &mut Vec<u8>, numbers: &[u32], limit: usize) {
    let width = width(std::iter::once(limit.saturating_sub(1) as u64)).max(1);
    out.push(width as u8);
    let bytes = width.div_ceil(8) as usize;
    let runs = numbers.chunk_by(|one, other| one == other);
    if runs.clone().count() * (bytes + 3) <= numbers.len() * width as usize / 8 + 2 {
        for run in runs {
            varint(out, (run.len() as u64) << 1);
            out.extend(&run[0].to_le_bytes()[..bytes]);
        }
    } else {
        let groups = numbers.len().div_ceil(8);
        varint(out, (groups as u64) << 1 | 1);
        let numbers = numbers.iter().map(|number| u64::from(*number));
        let full = numbers.chain(std::iter::repeat(0)).take(8 * groups);
        put_bits(out, full, width);
    }
}

/// Numbers that [`put_numbers`] wrote, of which there have to be `count`.
pub(super) fn take_numbers(input: &mut Input<'_>, count: usize) -> Result<Vec<u32>, ParquetError> {
    let width = u32::from(input.take(1)?[0]);
    let bytes = width.div_ceil(8) as usize;
    if width > 32 {
        return Err(ParquetError::Damaged);
    }
    let mut numbers = Vec::with_capacity(count.min(1 << 16));
    while numbers.len() < count {
        let head = input.varint()?;
        let length = usize::try_from(head >> 1).map_err(|_| ParquetError::Damaged)?;
        let left = count - numbers.len();
        if head & 1 == 0 {
            let mut number = [0; 4];
            number[..bytes].copy_from_slice(input.take(bytes)?);
            if length == 0 || length > left {
                return Err(ParquetError::Damaged);
            }
            numbers.resize(numbers.len() + length, u32::from_le_bytes(number));
        } else {
            let length = length.checked_mul(8).ok_or(ParquetError::Damaged)?;
            if length == 0 || length >= left + 8 {
                return Err(ParquetError::Damaged);
            }
            take_bits(input, length, width, |place, number| {
                if place < left {
                    numbers.push(number as u32);
                }
            })?;
        }
    }
    Ok(numbers)
}

/// How many bits the largest of some numbers needs.
fn width(numbers: impl Iterator<Item = u64>) -> u32 {
    u64::BITS - numbers.fold(0, |all, one| all | one).leading_zeros()
}

/// Appends numbers of `width` bits, the lowest bit first; they fill whole bytes.
fn put_bits(out: &mut Vec<u8>, numbers: impl Iterator<Item = u64>, width: u32) {
    let (mut waiting, mut count) = (0_u128, 0);
    for number in numbers {
        waiting |= u128::from(number) << count;
        count += width;
        while count >= 8 {
            out.push(waiting as u8);
            waiting >>= 8;
            count -= 8;
        }
    }
}

/// Shows `count` numbers of `width` bits with their places.
fn take_bits(
    input: &mut Input<'_>,
    count: usize,
    width: u32,
    mut take: impl FnMut(usize, u64),
) -> Result<(), ParquetError> {
    if width > u64::BITS {
        return Err(ParquetError::Damaged);
    }
    let bits = count.checked_mul(width as usize);
    let bytes = input.take(bits.ok_or(ParquetError::Damaged)?.div_ceil(8))?;
    let mut bytes = bytes.iter();
    let mask = (1_u128 << width) - 1;
    let (mut waiting, mut there) = (0_u128, 0);
    for place in 0..count {
        while there < width {
            waiting |= u128::from(bytes.next().copied().unwrap_or(0)) << there;
            there += 8;
        }
        take(place, (waiting & mask) as u64);
        waiting >>= width;
        there -= width;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_read_as_they_were_written() {
        let scrambled = |place: u64| place.wrapping_mul(0x9E37_79B9_7F4A_7C15).cast_signed();
        for count in [0, 1, 2, 32, 33, 128, 129, 130, 1000] {
            for shift in [0, 20, 40, 63] {
                let values: Vec<i64> = (0..count).map(|at| scrambled(at) >> shift).collect();
                let mut out = Vec::new();
                put_differences(&mut out, &values);
                let read = take_differences(&mut Input(&out), values.len());
                assert_eq!(read.unwrap(), values, "{count} >> {shift}");
            }
        }
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for count in [0, 1, 7, 8, 9, 1000] {
            for every in [1, 3, 100] {
                let numbers: Vec<u32> = (0..count).map(|at| at / every % 5).collect();
                let mut out = Vec::new();
                put_numbers(&mut out, &numbers, 5);
                let read = take_numbers(&mut Input(&out), numbers.len());
                assert_eq!(read.unwrap(), numbers, "{count} / {every}");
            }
        }
        let mut out = Vec::new();
        put_numbers(&mut out, &[0; 20_000], 1);
        assert!(out.len() <= 5, "{} bytes", out.len());
    }
}
