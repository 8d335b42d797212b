//! The values of one column in one part of a table, packed.
//!
//! Values are made small (each as the difference to the one before, where that helps), then laid out by bytes: first the lowest byte of all
//! values, then the next. Times and identifiers of neighbouring records differ in their lowest bytes only, so LZ4 has long runs to pack.

use flate2::Crc;

/// Rows of a part of a table.
pub const PART_ROWS: usize = 1 << 16;

/// Values are differences.
const DIFFERENCES: u8 = 1;

/// Packs values. Those `in_order` are expected to grow from row to row by little.
pub(super) fn pack(values: &[u64], in_order: bool) -> Vec<u8> {
    let mut last = 0_u64;
    let small = |&value: &u64| {
        let difference = value.wrapping_sub(last).cast_signed();
        last = value;
        // Small negative numbers become small positive ones.
        ((difference << 1) ^ (difference >> 63)).cast_unsigned()
    };
    let changed: Vec<u64>;
    let values = if in_order {
        changed = values.iter().map(small).collect();
        &changed
    } else {
        values
    };
    let most = values.iter().fold(0, |most, value| most | value);
    let width = 8 - most.leading_zeros() as usize / 8;
    let mut planes = Vec::with_capacity(width * values.len());
    for plane in 0..width {
        planes.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
    }
    let mut packed = vec![if in_order { DIFFERENCES } else { 0 }, width as u8];
    packed.extend(lz4_flex::block::compress(&planes));
    packed
}

/// The values of a block; `None` if it does not hold so many.
pub(super) fn unpack(packed: &[u8], rows: usize) -> Option<Vec<u64>> {
    let (&[flags, width], packed) = packed.split_first_chunk()?;
    let width = usize::from(width);
    if width > 8 || rows > PART_ROWS || flags > DIFFERENCES {
        return None;
    }
    let planes = lz4_flex::block::decompress(packed, width * rows).ok()?;
    if planes.len() != width * rows {
        return None;
    }
    let mut values = vec![0_u64; rows];
    if rows > 0 {
        for (plane, bytes) in planes.chunks_exact(rows).enumerate() {
            for (value, byte) in values.iter_mut().zip(bytes) {
                *value |= u64::from(*byte) << (8 * plane);
            }
        }
    }
    if flags & DIFFERENCES != 0 {
        let mut last = 0_u64;
        for value in &mut values {
            let difference = (*value >> 1) ^ (*value & 1).wrapping_neg();
            last = last.wrapping_add(difference);
            *value = last;
        }
    }
    Some(values)
}

/// The checksum of a block.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(values in proptest::collection::vec(any::<u64>(), 0..300), in_order: bool) {
            let packed = pack(&values, in_order);
            prop_assert_eq!(unpack(&packed, values.len()), Some(values));
        }

        #[test]
        fn any_bytes_are_values_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200), rows in 0_usize..100) {
            prop_assert!(unpack(&bytes, rows).is_none_or(|values| values.len() == rows));
        }
    }

    #[test]
    fn times_in_order_take_few_bytes() {
        let times: Vec<u64> = (0..60_000_u64)
            .map(|row| 5_000_000_000_000 + 4_000 * row + row % 7)
            .collect();
        let packed = pack(&times, true);
        assert!(packed.len() < 2 * times.len(), "{}", packed.len());
    }
}
