//! Which nodes of a job are meant: `0-3`, `node1`.

use crate::numbers::Range;
use crate::text::words;

/// A list of nodes, by their numbers in the job and by their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nodes {
    numbers: Vec<Range>,
    names: Vec<String>,
}

impl Nodes {
    /// Reads a list. What is no number or range is a name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut nodes = Self::default();
        for word in words(text) {
            match Range::parse(word) {
                Some(range) => nodes.numbers.push(range),
                None => nodes.names.push(word.to_owned()),
            }
        }
        nodes
    }

    /// Whether the list is empty, and so chooses nothing in particular.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.names.is_empty()
    }

    /// Whether the list has the node with this number, if it has one, and these names; an empty list has all. Names are compared
    /// without their domain where one of the two has none.
    #[must_use]
    pub fn has<'a>(&self, number: Option<u32>, names: impl IntoIterator<Item = &'a str>) -> bool {
        let by_number = |number| self.numbers.iter().any(|range| range.contains(number));
        self.is_empty()
            || number.is_some_and(by_number)
            || names
                .into_iter()
                .any(|name| self.names.iter().any(|wanted| same_host(wanted, name)))
    }
}

fn same_host(one: &str, other: &str) -> bool {
    let short = |name: &'_ str| name.split('.').next().unwrap_or_default().to_owned();
    let domains = [one, other]
        .iter()
        .filter(|name| name.contains('.'))
        .count();
    if domains == 1 {
        short(one).eq_ignore_ascii_case(&short(other))
    } else {
        one.eq_ignore_ascii_case(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes() {
        for (list, number, name, expected) in [
            ("", None, "a", true),
            ("0,2-3", Some(2), "a", true),
            ("0,2-3", Some(1), "a", false),
            ("0", None, "a", false),
            ("nid-01,b", None, "nid-01", true),
            ("nid-01", Some(1), "nid-02", false),
            ("a", None, "a.cluster.org", true),
            ("a.x", None, "a.y", false),
            ("A", None, "a", true),
        ] {
            let nodes = Nodes::parse(list);
            assert_eq!(
                nodes.has(number, [name]),
                expected,
                "{list} {number:?} {name}"
            );
        }
    }
}
