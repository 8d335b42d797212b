//! Lists of numbers and ranges: `0-3,7`, `8-` without an end, every 64th of a range `0-1023:64`.

use std::fmt;

use crate::text::words;

/// The most ranges that a list may hold: what is longer is no list that somebody wrote.
const RANGES_MAX: usize = 4096;

/// A set of numbers as a user writes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Numbers {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// `all`.
    All,
    /// `none`.
    None,
    /// These.
    Ranges(Vec<Range>),
}

impl Numbers {
    /// Reads a list; `None` when it is none. Separators are commas, semicolons and blanks.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" => return Some(Self::Unsaid),
            "all" => return Some(Self::All),
            "none" => return Some(Self::None),
            _ => {}
        }
        let mut ranges = Vec::new();
        for word in words(text) {
            if ranges.len() == RANGES_MAX {
                return None;
            }
            ranges.push(Range::parse(word)?);
        }
        (!ranges.is_empty()).then_some(Self::Ranges(ranges))
    }

    /// Whether the list holds a number. Where nothing was said, it holds all.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        match self {
            Self::Unsaid | Self::All => true,
            Self::None => false,
            Self::Ranges(ranges) => ranges.iter().any(|range| range.contains(number)),
        }
    }

    /// Whether every number is in the list.
    #[must_use]
    pub fn is_all(&self) -> bool {
        matches!(self, Self::Unsaid | Self::All)
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsaid => Ok(()),
            Self::All => f.write_str("all"),
            Self::None => f.write_str("none"),
            Self::Ranges(ranges) => {
                for (index, range) in ranges.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{range}")?;
                }
                Ok(())
            }
        }
    }
}

/// Numbers from the first to the last, in steps of `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    first: u32,
    last: u32,
    step: u32,
}

impl Range {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let (range, step) = match word.split_once(':') {
            Some((range, step)) => (range, number(step).filter(|step| *step > 0)?),
            None => (word, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, "")) => (number(first)?, u32::MAX),
            Some((first, last)) => (number(first)?, number(last)?),
            // `0:64` is every 64th from 0 on.
            None if word.contains(':') => (number(range)?, u32::MAX),
            None => (number(range)?, number(range)?),
        };
        // A step out of a single number leads nowhere.
        let step = if first == last { 1 } else { step };
        (first <= last).then_some(Self { first, last, step })
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
            && (number - self.first).is_multiple_of(self.step)
    }
}

/// Digits alone: `+5` is no rank.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, step } = *self;
        write!(f, "{first}")?;
        match last {
            u32::MAX => write!(f, "-")?,
            last if last != first => write!(f, "-{last}")?,
            _ => {}
        }
        if step == 1 {
            Ok(())
        } else {
            write!(f, ":{step}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        // text, written again (or no list), in it, not in it
        let cases = [
            ("", Some(""), 5, None),
            ("ALL", Some("all"), 0, None),
            ("none", Some("none"), u32::MAX, Some(0)),
            ("0-3,7", Some("0-3,7"), 3, Some(4)),
            (" 1 2;5-5 ", Some("1,2,5"), 5, Some(3)),
            ("6-6:3", Some("6"), 6, Some(9)),
            ("3-1", None, 0, None),
            ("17-", Some("17-"), 4000, Some(16)),
            ("0-1023:64", Some("0-1023:64"), 128, Some(1)),
            ("1:6", Some("1-:6"), 13, Some(0)),
            ("3-4,4-5", Some("3-4,4-5"), 5, Some(6)),
            ("1-a", None, 0, None),
            ("1:0", None, 0, None),
            ("+1", None, 0, None),
            ("1:2:3", None, 0, None),
            ("-1", None, 0, None),
            ("a", None, 0, None),
            (",", None, 0, None),
            ("4294967296", None, 0, None),
        ];
        for (text, written, inside, outside) in cases {
            let numbers = Numbers::parse(text);
            let shown = numbers.as_ref().map(ToString::to_string);
            assert_eq!(shown.as_deref(), written, "{text}");
            if let Some(numbers) = numbers {
                assert_eq!(numbers.contains(inside), numbers != Numbers::None, "{text}");
                assert!(
                    outside.is_none_or(|number| !numbers.contains(number)),
                    "{text}"
                );
                assert_eq!(Numbers::parse(&numbers.to_string()), Some(numbers));
            }
        }
    }
}
