//! Numbers in the texts of the kernel, without turning them into strings first.

/// The numbers in a line, one after the other; everything else separates them.
pub fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let words = bytes.split(|byte| !byte.is_ascii_digit());
    words.filter(|word| !word.is_empty()).map(number)
}

/// The value of digits.
fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| {
        value
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

/// The lines of a text.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n')
}

/// The first number of the line that starts with `key`.
pub fn field(bytes: &[u8], key: &str) -> Option<u64> {
    let line = lines(bytes).find_map(|line| line.strip_prefix(key.as_bytes()))?;
    numbers(line).next()
}

/// The words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ' || *byte == b'\t')
        .filter(|word| !word.is_empty())
}

/// Numbers and ranges: `0,4-7`; `None` when it is something else.
pub fn ranges(text: &str) -> Option<Vec<usize>> {
    let mut list = Vec::new();
    for part in text.split([',', ' ', ';']).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last > 1 << 16 {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found() {
        let text = b"MemTotal:       16384 kB\nMemFree: 12 kB\n";
        assert_eq!(field(text, "MemTotal:"), Some(16384));
        assert_eq!(field(text, "MemAvailable:"), None);
        assert_eq!(numbers(b"a1 22,x 333").collect::<Vec<_>>(), [1, 22, 333]);
        assert_eq!(ranges("0,4-6"), Some(vec![0, 4, 5, 6]));
        for wrong in ["a", "3-1", "1-", "0-9999999"] {
            assert_eq!(ranges(wrong), None, "{wrong}");
        }
    }
}
