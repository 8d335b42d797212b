//! Points in time on a command line.

use anyhow::{Result, bail};

/// Units and their nanoseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("ms", 1e6),
    ("min", 60e9),
    ("s", 1e9),
    ("h", 3600e9),
    ("", 1e9),
];

/// Reads a time since the start of a trace, such as `12.5s`, `90ms` or `2min`; without a unit, seconds. Nanoseconds.
///
/// # Errors
/// When it is none.
pub fn parse_time(word: &str) -> Result<u64> {
    let end = word
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim());
    match (number.parse::<f64>(), factor) {
        (Ok(number), Some((_, factor))) if number * factor < 9e18 => {
            Ok((number * factor).round() as u64)
        }
        _ => bail!(
            "{word:?} is not a time since the start of the trace, such as 12.5s, 90ms or 2min"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_time;

    #[test]
    fn times_have_units() {
        for (word, ns) in [
            ("0", 0),
            ("12.5s", 12_500_000_000),
            ("90ms", 90_000_000),
            ("2min", 120_000_000_000),
            ("7us", 7_000),
            ("3 ns", 3),
            // These have no exact binary fraction.
            ("0.261062816s", 261_062_816),
            ("0.001001001ms", 1_001),
            ("266.474008ms", 266_474_008),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse_time(word).unwrap(), ns, "{word}");
        }
        for word in ["", "s", "-1s", "1x", "1.2.3", "99999999999h"] {
            assert!(parse_time(word).is_err(), "{word}");
        }
    }
}
