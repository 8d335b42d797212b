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
    let (mut before, mut after): (BTreeSet<&str>, BTreeSet<&str>) =
        (before.collect(), after.collect());
    let mut pairs: Vec<Pair<'a>> = before
        .intersection(&after)
        .map(|name| Pair {
            before: Some(name),
            after: Some(name),
        })
        .collect();
    if let Some((old, new)) = renamed_file(&before, &after) {
        for gone in before.clone() {
            let renamed = in_file(gone).filter(|(_, file)| *file == old);
            let renamed = renamed.map(|(function, _)| format!("{function} ({new})"));
            let name = renamed.and_then(|name| after.get(name.as_str()).copied());
            if let Some(name) = name {
                before.remove(gone);
                after.remove(name);
                pairs.push(Pair {
                    before: Some(gone),
                    after: Some(name),
                });
            }
        }
    }
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

/// A function of Python and its file: `step (train.py)`.
pub(super) fn in_file(name: &str) -> Option<(&str, &str)> {
    let (function, file) = name.rsplit_once(" (")?;
    let file = file.strip_suffix(')')?;
    file.ends_with(".py").then_some((function, file))
}

/// The fewest functions that two files have in common of which one is the other, renamed.
const COMMON: usize = 2;

/// Functions that any two scripts have.
const OF_ALL: [&str; 2] = ["<module>", "main"];

/// A file of the reference that the candidate lacks, and the one that it has in its place: of the functions of either, half are in both.
fn renamed_file<'a>(
    before: &BTreeSet<&'a str>,
    after: &BTreeSet<&'a str>,
) -> Option<(&'a str, &'a str)> {
    let files = |names: &BTreeSet<&'a str>| {
        let mut files: BTreeMap<&'a str, BTreeSet<&'a str>> = BTreeMap::new();
        let functions = names.iter().filter_map(|name| in_file(name));
        for (function, file) in functions.filter(|(function, _)| !OF_ALL.contains(function)) {
            files.entry(file).or_default().insert(function);
        }
        files
    };
    let (before, after) = (files(before), files(after));
    let gone = before.iter().filter(|(file, _)| !after.contains_key(*file));
    let new = || after.iter().filter(|(file, _)| !before.contains_key(*file));
    let alike = gone.flat_map(|(old, functions)| {
        new().map(move |(name, others)| {
            let common = functions.intersection(others).count();
            let most = functions.len().max(others.len());
            (common, 2 * common >= most, *old, *name)
        })
    });
    let alike = alike.filter(|(common, is_half, ..)| *common >= COMMON && *is_half);
    let (.., old, new) = alike.max_by_key(|(common, ..)| *common)?;
    Some((old, new))
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
    fn functions_of_a_script_that_was_renamed_are_the_same() {
        let before = [
            "<module> (train.py)",
            "main (train.py)",
            "step (train.py)",
            "log (train.py)",
            "load (data.py)",
        ];
        let after = [
            "<module> (train_new.py)",
            "main (train_new.py)",
            "step (train_new.py)",
            "log (train_new.py)",
            "load (data.py)",
        ];
        let found = pairs(before.into_iter(), after.into_iter());
        let renamed = found.iter().filter(|pair| pair.before != pair.after);
        assert_eq!(renamed.count(), 4);
        assert!(
            found
                .iter()
                .all(|pair| pair.before.is_some() && pair.after.is_some())
        );
        // Another program has functions called main as well.
        let before = ["<module> (a.py)", "main (a.py)", "step (a.py)"];
        let other = ["<module> (serve.py)", "main (serve.py)", "reply (serve.py)"];
        assert_eq!(pairs(before.into_iter(), other.into_iter()).len(), 6);
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
