//! Lists of numbers and ranges: `0-3,7`.

use std::fmt;

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
    /// These, both ends included.
    Ranges(Vec<(u32, u32)>),
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
        let words = text
            .split(|character: char| character.is_whitespace() || matches!(character, ',' | ';'))
            .filter(|word| !word.is_empty());
        let mut ranges = Vec::new();
        for word in words {
            let (first, last) = match word.split_once('-') {
                Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
                None => {
                    let number: u32 = word.parse().ok()?;
                    (number, number)
                }
            };
            if first > last || ranges.len() == RANGES_MAX {
                return None;
            }
            ranges.push((first, last));
        }
        (!ranges.is_empty()).then_some(Self::Ranges(ranges))
    }

    /// Whether the list holds a number. Where nothing was said, it holds all.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        match self {
            Self::Unsaid | Self::All => true,
            Self::None => false,
            Self::Ranges(ranges) => ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&number)),
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
                for (index, (first, last)) in ranges.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    if first == last {
                        write!(f, "{comma}{first}")?;
                    } else {
                        write!(f, "{comma}{first}-{last}")?;
                    }
                }
                Ok(())
            }
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
            ("3-1", None, 0, None),
            ("1-", None, 0, None),
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
