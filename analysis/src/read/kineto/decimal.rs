//! Microseconds in decimal text as whole nanoseconds, without floating point.

/// Nanoseconds of a number of microseconds, as JSON writes it; what is below a nanosecond is rounded. `None` if it is no number, negative
/// or too large.
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    let text = text.trim_matches('"');
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Where the decimal point stands among the digits once they count nanoseconds.
    let point = whole.len() as i32 + exponent.checked_add(3)?;
    let mut value: u64 = 0;
    for (place, digit) in (0_i32..).zip(whole.bytes().chain(fraction.bytes())) {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        if place < point {
            value = value.checked_mul(10)?.checked_add(digit)?;
        } else if place == point && digit >= 5 {
            value = value.checked_add(1)?;
        }
    }
    let digits = (whole.len() + fraction.len()) as i32;
    for _ in digits..point {
        // A zero may have any exponent.
        value = match value {
            0 => return Some(0),
            value => value.checked_mul(10)?,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn each_digit_counts() {
        for (text, expected) in [
            ("0", Some(0)),
            ("12", Some(12_000)),
            ("1716543210123456.789", Some(1_716_543_210_123_456_789)),
            ("\"7.25\"", Some(7_250)),
            ("0.0004", Some(0)),
            ("0.0005", Some(1)),
            ("3.9999", Some(4_000)),
            (".5", Some(500)),
            ("1.5e3", Some(1_500_000)),
            ("1716543210123456789e-3", Some(1_716_543_210_123_456_789)),
            ("0e999", Some(0)),
            ("5e-9", Some(0)),
            ("5e-4", Some(1)),
            ("1e30", None),
            ("-1", None),
            ("", None),
            ("null", None),
            ("1.2.3", None),
        ] {
            assert_eq!(nanoseconds(text), expected, "{text}");
        }
    }
}
