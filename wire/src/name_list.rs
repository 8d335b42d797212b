//! A list of names of functions, or of patterns, as it travels in the agent's settings.

use std::fmt;

/// How long all names together may be, with the commas between them.
pub const NAMES_BYTES: usize = 1024;

/// Names with commas between them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NameList {
    text: [u8; NAMES_BYTES],
    used: usize,
}

impl Default for NameList {
    #[inline]
    fn default() -> Self {
        NameList {
            text: [0; NAMES_BYTES],
            used: 0,
        }
    }
}

impl NameList {
    /// The list of these names, which stand between commas or blanks; as many as there is room for.
    #[must_use]
    pub fn parse(text: &str) -> NameList {
        let mut list = NameList::default();
        let names = text
            .split(|letter: char| letter == ',' || letter.is_whitespace())
            .filter(|name| !name.is_empty());
        for name in names {
            let comma = usize::from(list.used > 0);
            let end = list.used + comma + name.len();
            let Some(room) = list.text.get_mut(list.used..end) else {
                break;
            };
            room[..comma].fill(b',');
            room[comma..].copy_from_slice(name.as_bytes());
            list.used = end;
        }
        list
    }

    /// The names.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.text
            .get(..self.used)
            .unwrap_or(&[])
            .split(|byte| *byte == b',')
            .filter(|word| !word.is_empty())
    }
}

impl fmt::Display for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.get(..self.used).unwrap_or(&[]);
        f.write_str(std::str::from_utf8(text).unwrap_or(""))
    }
}

impl fmt::Debug for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_travel_and_come_back() {
        let list = NameList::parse(" MPI_Send, -Wtime\tI*,, ");
        assert_eq!(list.to_string(), "MPI_Send,-Wtime,I*");
        assert_eq!(NameList::parse(&list.to_string()), list);
        assert_eq!(list.words().count(), 3);
        assert_eq!(NameList::parse(&"name ".repeat(1000)).words().count(), 205);
        assert_eq!(NameList::default().words().count(), 0);
    }
}
