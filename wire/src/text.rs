//! Taking short texts apart, and reading numbers, where every started program does so.
//!
//! Compiled into the caller, unlike the standard library's searches: those lie elsewhere in the agent's file, and each further page of code
//! that the start of a process needs costs it some microseconds.

/// The parts of a text between separators, which are ASCII; none that is empty.
#[inline]
pub(crate) fn parts(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (part, after) = split_at(rest, separator).unwrap_or((rest, ""));
            rest = after;
            if !part.is_empty() {
                return Some(part);
            }
        }
        None
    })
}

/// What stands before and after the first separator, which is ASCII. `None` without one.
#[inline]
pub(crate) fn split_at(text: &str, separator: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == separator)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// A number in decimal digits, if it fits.
#[inline]
pub(crate) fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let mut digits = text.bytes().map(|byte| byte.wrapping_sub(b'0'));
    let value = digits.try_fold(0_u64, |value, digit| {
        let value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        (digit < 10).then_some(value)
    })?;
    T::try_from(value).ok().filter(|_| !text.is_empty())
}

/// The same, which may be below zero.
#[inline]
pub(crate) fn signed(text: &str) -> Option<i64> {
    match text.as_bytes().split_first() {
        Some((b'-', _)) => number(text.get(1..)?).map(|value: i64| -value),
        _ => number(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_that_the_standard_library_finds() {
        for text in ["", " ", "a", "a b", "  a  b ", "a=1 ä=ö", " ü "] {
            let expected: Vec<&str> = text.split(' ').filter(|part| !part.is_empty()).collect();
            assert_eq!(parts(text, b' ').collect::<Vec<_>>(), expected, "{text:?}");
        }
        for text in ["", "=", "a", "a=", "=b", "a=b=c", "ä=ö"] {
            assert_eq!(split_at(text, b'='), text.split_once('='), "{text:?}");
        }
    }

    #[test]
    fn numbers_are_those_that_the_standard_library_reads() {
        let most = u64::MAX.to_string();
        for text in [
            "",
            "0",
            "007",
            "4711",
            "4294967296",
            &most,
            "18446744073709551616",
            "1a",
            "ä",
            "1.5",
        ] {
            assert_eq!(number::<u64>(text), text.parse().ok(), "{text:?}");
            assert_eq!(number::<u32>(text), text.parse().ok(), "{text:?}");
            assert_eq!(signed(text), text.parse().ok(), "{text:?}");
        }
        assert_eq!(
            (signed("-15"), signed("-"), signed("--1")),
            (Some(-15), None, None)
        );
    }
}
