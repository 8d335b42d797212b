//! Which ranks and nodes of a job are meant: `0,8-15`, `0-1023:64`, `node1`.

/// A list of numbers: single ones, ranges `8-15`, ranges without an end `8-`, and every so many of a range `0-1023:64`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Numbers(Vec<Range>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    step: u32,
}

impl Range {
    fn parse(word: &str) -> Option<Self> {
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
        (first <= last).then_some(Self { first, last, step })
    }

    fn contains(&self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
            && (number - self.first).is_multiple_of(self.step)
    }
}

/// Digits alone: `+5` is no rank.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\t']).filter(|word| !word.is_empty())
}

impl Numbers {
    /// Reads a list; `None` when something in it is no number or range.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        words(text)
            .map(Range::parse)
            .collect::<Option<Vec<_>>>()
            .map(Self)
    }

    /// Whether the list is empty, and so chooses nothing in particular.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list has this number; an empty list has all.
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        self.is_empty() || self.0.iter().any(|range| range.contains(number))
    }
}

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
    fn lists_of_numbers() {
        // list => members of 0..20
        for (list, expected) in [
            ("", (0..20).collect::<Vec<u32>>()),
            ("0", vec![0]),
            ("0,8-11", vec![0, 8, 9, 10, 11]),
            ("0 3 , 5", vec![0, 3, 5]),
            ("17-", vec![17, 18, 19]),
            ("0-1023:8", vec![0, 8, 16]),
            ("1:6", vec![1, 7, 13, 19]),
            ("3-4,4-5", vec![3, 4, 5]),
        ] {
            let numbers = Numbers::parse(list).unwrap();
            let members: Vec<u32> = (0..20).filter(|number| numbers.has(*number)).collect();
            assert_eq!(members, expected, "{list}");
        }
        for wrong in [
            "a",
            "1-a",
            "5-3",
            "1:0",
            "-3",
            "+1",
            "1--2",
            "1:2:3",
            "4294967296",
        ] {
            assert_eq!(Numbers::parse(wrong), None, "{wrong}");
        }
    }

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
