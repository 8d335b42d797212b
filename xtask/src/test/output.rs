//! What a test binary says, taken apart by test.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A line, and when it came.
pub type Line = (Duration, String);

/// The reason of a failure is cut to so many characters.
const REASON: usize = 400;

/// What became of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// Whether it passed.
    pub passed: bool,
    /// What it said.
    pub said: String,
    /// Its time, where its process ran one test after the other.
    pub took: Option<Duration>,
}

impl Told {
    /// Why it was skipped, if it was.
    pub fn skipped(&self) -> Option<&str> {
        let mut lines = self.said.lines();
        lines.find_map(|line| line.strip_prefix("skipped: "))
    }

    /// Why it failed, in a line: the error or the panic, without the stack that follows.
    pub fn reason(&self) -> String {
        let lines: Vec<&str> = self.said.lines().collect();
        let is_error = |line: &&str| line.starts_with("Error: ") || line.starts_with("Error(");
        let is_panic = |line: &&str| line.contains("panicked at");
        let error = lines.iter().position(is_error);
        let panic = lines.iter().position(is_panic).map(|at| at + 1);
        let last = lines.iter().rposition(|line| !line.is_empty());
        let from = error.or(panic).or(last).unwrap_or(lines.len());
        let is_stack = |line: &&&str| line.trim().eq_ignore_ascii_case("stack backtrace:");
        let words = lines[from.min(lines.len())..].iter();
        let words = words.take_while(|line| !is_stack(line));
        let words: Vec<&str> = words.flat_map(|line| line.split_whitespace()).collect();
        words.join(" ").chars().take(REASON).collect()
    }
}

/// Takes apart what a binary said whose tests ran one after the other, uncaptured: each test's own text follows its name. A test that the process
/// did not survive has failed, and so have those behind it.
pub fn one_by_one(lines: &[Line], tests: &[&str], end: Duration) -> BTreeMap<String, Told> {
    let known: BTreeSet<&str> = tests.iter().copied().collect();
    // A line comes when it is whole, so the end of a test's last line is its end, and the next one's beginning.
    let mut found: Vec<(String, Duration, Vec<String>)> = Vec::new();
    for (at, line) in lines {
        let header = header(line).filter(|(name, _)| known.contains(name));
        match (header, found.last_mut()) {
            (Some((name, rest)), _) => found.push((name.to_owned(), *at, vec![rest.to_owned()])),
            (None, Some((_, end, said))) => {
                *end = *at;
                said.push(line.clone());
            }
            (None, None) => {}
        }
    }
    if let Some((_, last, _)) = found.last_mut() {
        *last = end;
    }
    let failed = names_of_failed(lines);
    let is_complete = lines.iter().any(|(_, line)| is_sum(line));
    let count = found.len();
    let mut begin = Duration::ZERO;
    let mut told = BTreeMap::new();
    for (index, (name, end, said)) in found.into_iter().enumerate() {
        let survived = is_complete || index + 1 < count;
        let passed = survived && !failed.contains(name.as_str());
        let passed = passed && (is_complete || ended_well(&said));
        let said = own(&said).join("\n");
        let took = Some(end.saturating_sub(begin));
        begin = end;
        told.insert(name, Told { passed, said, took });
    }
    for test in tests {
        told.entry((*test).to_owned()).or_insert_with(not_run);
    }
    told
}

/// Takes apart what a binary said that captured what its tests said, as several ran at once.
pub fn captured(lines: &[Line], tests: &[&str]) -> BTreeMap<String, Told> {
    let results: BTreeMap<&str, bool> = lines
        .iter()
        .filter_map(|(_, line)| header(line))
        .map(|(name, rest)| (name, rest == "ok"))
        .collect();
    let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut section = None;
    for (_, line) in lines {
        let head = line.strip_prefix("---- ");
        if let Some(name) = head.and_then(|rest| rest.strip_suffix(" stdout ----")) {
            section = Some(name);
        } else if is_sum(line) || line == "failures:" || line == "successes:" {
            section = None;
        } else if let Some(name) = section {
            sections.entry(name).or_default().push(line);
        }
    }
    let is_complete = lines.iter().any(|(_, line)| is_sum(line));
    let of = |test: &&str| match results.get(test) {
        Some(&passed) => Told {
            passed,
            said: sections
                .get(test)
                .map(|all| all.join("\n"))
                .unwrap_or_default(),
            took: None,
        },
        None if is_complete => not_run(),
        None => Told {
            said: whole(lines),
            ..not_run()
        },
    };
    let tests = tests.iter();
    tests.map(|test| ((*test).to_owned(), of(test))).collect()
}

fn whole(lines: &[Line]) -> String {
    let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    lines.join("\n")
}

fn not_run() -> Told {
    Told {
        passed: false,
        said: "it has no result: its process ended before".to_owned(),
        took: None,
    }
}

/// The name and what follows in `test a::b ... ok`.
fn header(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some((name, rest))
}

/// Whether this is a binary's last line: `test result: ok. 7 passed; …`.
fn is_sum(line: &str) -> bool {
    line.starts_with("test result: ")
}

/// A test's lines without those that the binary says behind it, and without its result.
fn own(said: &[String]) -> &[String] {
    let is_behind = |line: &String| is_sum(line) || line == "failures:" || line == "ok";
    let end = said.iter().position(is_behind).unwrap_or(said.len());
    &said[..end]
}

fn ended_well(said: &[String]) -> bool {
    let last = said.iter().rev().find(|line| !line.is_empty());
    last.is_some_and(|line| line.ends_with("ok"))
}

/// The names below the last `failures:`.
fn names_of_failed(lines: &[Line]) -> BTreeSet<&str> {
    let last = lines.iter().rposition(|(_, line)| line == "failures:");
    let behind = lines[last.map_or(lines.len(), |at| at + 1)..].iter();
    let names = behind.filter_map(|(_, line)| line.strip_prefix("    "));
    names.collect()
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
