//! Microseconds in decimal text as whole nanoseconds, without floating point.

/// Nanoseconds of a number of microseconds as JSON writes it, with or without decimals and
/// exponent. What is below a nanosecond is rounded, halves away from zero. `None` if the text is no
/// number, or beyond what 64 bits hold.
pub(super) fn nanoseconds(text: &[u8]) -> Option<i64> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => {
            let exponent = std::str::from_utf8(&text[at + 1..]).ok()?;
            (&text[..at], exponent.parse::<i32>().ok()?)
        }
        None => (text, 0),
    };
    let point = mantissa.iter().position(|&byte| byte == b'.');
    let whole = point.unwrap_or(mantissa.len());
    if mantissa.len() == usize::from(point.is_some()) {
        return None;
    }
    // So many digits count; the one behind them rounds.
    let counted = i64::try_from(whole).ok()? + 3 + i64::from(exponent);
    let mut value: u64 = 0;
    let mut digits: i64 = 0;
    for (at, &byte) in mantissa.iter().enumerate() {
        if Some(at) == point {
            continue;
        }
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if digits < counted {
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        } else if digits == counted && digit >= 5 {
            value = value.checked_add(1)?;
        }
        digits += 1;
    }
    // Zero may have any exponent.
    while digits < counted && value > 0 {
        value = value.checked_mul(10)?;
        digits += 1;
    }
    let value = i64::try_from(value).ok()?;
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn each_digit_counts() {
        for (text, expected) in [
            ("0", Some(0)),
            ("12", Some(12_000)),
            ("12.", Some(12_000)),
            (".5", Some(500)),
            ("1716543210123456.789", Some(1_716_543_210_123_456_789)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("-7.25", Some(-7_250)),
            ("0.0004", Some(0)),
            ("0.0005", Some(1)),
            ("12.345999999999", Some(12_346)),
            ("999.9996", Some(1_000_000)),
            ("1.7165432101234567e15", Some(1_716_543_210_123_456_700)),
            ("1716543210123456789e-3", Some(1_716_543_210_123_456_789)),
            ("1E+3", Some(1_000_000)),
            ("5e-4", Some(1)),
            ("5e-9", Some(0)),
            ("0e999999999", Some(0)),
            ("1e999999999", None),
            ("1e30", None),
        ] {
            assert_eq!(nanoseconds(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_has_no_time() {
        for text in [
            "", ".", "-", "NaN", "Infinity", "-inf", "null", "1.2.3", "1e", "1 2", "0x10",
        ] {
            assert_eq!(nanoseconds(text.as_bytes()), None, "{text}");
        }
    }
}
