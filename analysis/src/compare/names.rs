//! Names of two sides that mean the same: equal ones, and such as differ in numbers alone.

use std::collections::{BTreeMap, BTreeSet};

/// A name of the reference, of the candidate, or of both. Both are there and differ where a kernel was renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The name of the reference.
    pub before: Option<&'a str>,
    /// The name of the candidate.
    pub after: Option<&'a str>,
}

/// Pairs names. Of those that one side alone has, two are one where they differ in numbers only and no other name does (compilers count the kernels
/// that they generate: `triton_poi_fused_add_3`).
pub fn pairs<'a>(
    before: impl Iterator<Item = &'a str>,
    after: impl Iterator<Item = &'a str>,
) -> Vec<Pair<'a>> {
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) = (before.collect(), after.collect());
    let mut pairs: Vec<Pair<'a>> = before
        .intersection(&after)
        .map(|name| Pair {
            before: Some(name),
            after: Some(name),
        })
        .collect();
    let mut alike: BTreeMap<String, [Vec<&str>; 2]> = BTreeMap::new();
    for (side, names) in [before.difference(&after), after.difference(&before)]
        .into_iter()
        .enumerate()
    {
        for name in names {
            alike.entry(without_numbers(name)).or_default()[side].push(name);
        }
    }
    for [gone, new] in alike.into_values() {
        if let ([gone], [new]) = (gone.as_slice(), new.as_slice()) {
            pairs.push(Pair {
                before: Some(gone),
                after: Some(new),
            });
            continue;
        }
        pairs.extend(gone.into_iter().map(|name| Pair {
            before: Some(name),
            after: None,
        }));
        pairs.extend(new.into_iter().map(|name| Pair {
            before: None,
            after: Some(name),
        }));
    }
    pairs
}

/// A place without the numbers of threads, which no two runs have in common: `held by thread 4711 in grow` is `held by thread in grow`.
pub(super) fn without_threads(place: &str) -> String {
    const THREAD: &str = "thread ";
    let mut parts = place.split(THREAD);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let is_number = rest.len() < part.len();
        let rest = if is_number { rest.trim_start() } else { rest };
        let has_name = !rest.is_empty() && !rest.starts_with([',', ')']);
        text.push_str(if has_name { THREAD } else { THREAD.trim_end() });
        text.push_str(rest);
    }
    text.trim_end().to_owned()
}

/// The name with `#` for each number and each hash.
fn without_numbers(name: &str) -> String {
    /// Shorter words of these letters may be words.
    const HASH_MIN: usize = 8;
    let mut short = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let end = |is: fn(char) -> bool| rest.find(|letter| !is(letter)).unwrap_or(rest.len());
        let hex = end(|letter| letter.is_ascii_hexdigit());
        let digits = end(|letter| letter.is_ascii_digit());
        let is_hash =
            hex >= HASH_MIN && rest[..hex].contains(|letter: char| letter.is_ascii_digit());
        let taken = match (is_hash, digits) {
            (true, _) => hex,
            (_, 0) => {
                short.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            _ => digits,
        };
        short.push('#');
        rest = &rest[taken..];
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_are_no_part_of_a_place() {
        for (place, expected) in [
            (
                "thread 4711 python3, before hipFree",
                "thread python3, before hipFree",
            ),
            ("thread 4711, before hipFree", "thread, before hipFree"),
            (
                "a (b.py:7), held by thread 12 in c",
                "a (b.py:7), held by thread in c",
            ),
            ("held by thread 12", "held by thread"),
            (
                "thread pool of main (a.cc:12)",
                "thread pool of main (a.cc:12)",
            ),
        ] {
            assert_eq!(without_threads(place), expected);
        }
    }

    #[test]
    fn names_that_differ_in_numbers_are_one_if_that_is_certain() {
        let before = [
            "same",
            "triton_add_3",
            "gemm_a1b2c3d4e5f6_32",
            "x_1",
            "x_2",
            "gone",
        ];
        let after = ["same", "triton_add_5", "gemm_00ff00ff00ff_32", "x_3", "new"];
        let found = pairs(before.into_iter(), after.into_iter());
        let mut found: Vec<_> = found.iter().map(|pair| (pair.before, pair.after)).collect();
        found.sort();
        assert_eq!(
            found,
            [
                (None, Some("new")),
                (None, Some("x_3")),
                (Some("gemm_a1b2c3d4e5f6_32"), Some("gemm_00ff00ff00ff_32")),
                (Some("gone"), None),
                (Some("same"), Some("same")),
                (Some("triton_add_3"), Some("triton_add_5")),
                (Some("x_1"), None),
                (Some("x_2"), None),
            ]
        );
    }
}
