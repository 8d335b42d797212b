//! Where our descriptors stand in the program's table: out of the way of the numbers that it gets for its own files, and none that a
//! program or a test would guess to be free.

use std::ffi::c_int;

use crate::sys;

/// What a higher limit would allow is not used: a fork copies the table up to the highest number.
const MOST: u64 = 1 << 16;
/// Below stand the program's own.
const LEAST: u64 = 64;
/// How often another number is tried where one is taken.
const TRIES: u64 = 16;

/// Moves a new descriptor to a number in the third quarter of what the limit on descriptors allows; three quarters remain the program's
/// in any case. `noise` makes it another each time.
///
/// # Errors
/// The kernel's error number; `EMFILE` when we have taken our quarter. The descriptor is closed in any case.
pub fn move_away(low: c_int, noise: u64) -> Result<c_int, i32> {
    let limit = sys::descriptor_limit().min(MOST);
    let moved = duplicate(low, (limit / 2).max(LEAST), limit - limit / 4, noise);
    sys::close(low);
    moved
}

fn duplicate(low: c_int, first: u64, end: u64, noise: u64) -> Result<c_int, i32> {
    let mut noise = noise | 1;
    for _ in 0..TRIES {
        noise = noise.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let count = end.checked_sub(first).filter(|count| *count > 0);
        let Some(offset) = count.and_then(|count| (noise >> 32).checked_rem(count)) else {
            break;
        };
        // Only a number that is taken costs a try.
        let Some(wanted) = (first + offset..end).find(|number| !is_guessed(*number)) else {
            continue;
        };
        let high = sys::duplicate_from(low, wanted)?;
        if (high as u64) < end && !is_guessed(high as u64) {
            return Ok(high);
        }
        sys::close(high);
    }
    // Nearly all are taken, or there are few: any will do.
    let high = sys::duplicate_from(low, first)?;
    if high as u64 >= end {
        sys::close(high);
        return Err(libc::EMFILE);
    }
    Ok(high)
}

/// Whether a programmer might write this number for a descriptor that is not open: 10000, 999, 1023, 4096, 0x1234.
fn is_guessed(number: u64) -> bool {
    let near_power = [number, number + 1, number - 1]
        .iter()
        .any(|near| near.is_power_of_two());
    number.is_multiple_of(2)
        || number.is_multiple_of(5)
        || number % 100 == 99
        || number % 16 == 15
        || near_power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_people_write_are_left_free() {
        for number in [
            64, 99, 100, 999, 1000, 1023, 1024, 4096, 8191, 10_000, 0x1234,
        ] {
            assert!(is_guessed(number), "{number}");
        }
        assert!(
            (40_000..50_000)
                .filter(|number| !is_guessed(*number))
                .count()
                > 3000
        );
    }
}
