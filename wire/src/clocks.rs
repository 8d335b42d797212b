//! Whose CLOCK_BOOTTIME it is.
//!
//! A process in a time namespace sees the clock with an offset (time_namespaces(7)). All times of a run are on the
//! sampler's clock: the agent takes away by how much more its own is ahead of the machine's.

/// The namespace that a process is in, and the one that its children will be in: two different ones only after `unshare`, until it
/// forks or (since Linux 6.1) executes.
pub const NAMESPACES: [&std::ffi::CStr; 2] =
    [c"/proc/self/ns/time", c"/proc/self/ns/time_for_children"];

/// Where a process finds the offsets of its children's clocks: its own, where both [`NAMESPACES`] are one.
pub const OFFSETS_FILE: &std::ffi::CStr = c"/proc/self/timens_offsets";

/// By how many nanoseconds CLOCK_BOOTTIME is ahead of the machine's, from the text of [`OFFSETS_FILE`]; 0 where it says nothing.
///
/// Its lines are a clock, seconds and nanoseconds; the nanoseconds are never negative.
///
/// # Signal safety
/// Reads the text only.
#[must_use]
pub fn boot_offset_ns(text: &[u8]) -> i64 {
    let mut lines = text.split(|byte| *byte == b'\n');
    let Some(line) = lines.find(|line| line.starts_with(b"boottime")) else {
        return 0;
    };
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    // The clock's name.
    words.next();
    let seconds = words.next().map_or(0, number);
    let nanoseconds = words.next().map_or(0, number);
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(nanoseconds)
}

fn number(word: &[u8]) -> i64 {
    let (sign, digits) = match word.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, word),
    };
    digits
        .iter()
        .take_while(|digit| digit.is_ascii_digit())
        .fold(0_i64, |number, digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(i64::from(*digit - b'0'))
        })
        .wrapping_mul(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read() {
        for (text, expected) in [
            ("", 0),
            (
                "monotonic           0         0\nboottime            0         0\n",
                0,
            ),
            (
                "monotonic        5000         0\nboottime       100000        25\n",
                100_000_000_000_025,
            ),
            (
                "monotonic           0         0\nboottime         -3 500000000\n",
                -2_500_000_000,
            ),
            ("boottime", 0),
            ("boottime x y", 0),
        ] {
            assert_eq!(boot_offset_ns(text.as_bytes()), expected, "{text:?}");
        }
    }
}
