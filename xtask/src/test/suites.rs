//! What `tests/suites.toml` says: which tests are run when, and what they may not be run beside.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::steps::workspace_dir;

/// The file, from the root of the repository.
const FILE: &str = "tests/suites.toml";

/// Everything that the file says. A word is the beginning of a test's name, up to a boundary.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suites {
    /// End-to-end tests of the quick set.
    pub quick: Vec<String>,
    /// Tests of crates that are not in it.
    pub slow: Vec<String>,
    /// Tests that share what is costly to make: each of these words is one process.
    pub together: Vec<String>,
    /// Tests that mostly wait.
    pub waiting: Vec<String>,
    /// Tests that nothing may run beside.
    pub alone: Vec<String>,
    /// Things of which there is one, and the tests that use them.
    pub one_at_a_time: BTreeMap<String, Vec<String>>,
    /// Longest times in seconds, where they are not the usual.
    pub limits: BTreeMap<String, u64>,
    /// Folders and files, and the tests that a change in them asks for.
    pub changed: BTreeMap<String, Vec<String>>,
}

impl Suites {
    /// Reads the file.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(workspace_dir().join(FILE)).context(FILE)?;
        toml::from_str(&text).context(FILE)
    }

    /// Whether a test is in the quick set: of crates all but the slow ones, of the end-to-end tests those that are named.
    pub fn is_quick(&self, name: &str) -> bool {
        if is_of_crate(name) {
            !fits_any(&self.slow, name)
        } else {
            fits_any(&self.quick, name)
        }
    }

    /// The word of those that this test shares a process with.
    pub fn together(&self, name: &str) -> Option<&str> {
        let mut words = self.together.iter();
        words.find(|word| fits(word, name)).map(String::as_str)
    }

    /// The things that a test uses of which there is one.
    pub fn used(&self, name: &str) -> Vec<&str> {
        let users = self.one_at_a_time.iter();
        let used = users.filter(|(_, words)| fits_any(words, name));
        used.map(|(thing, _)| thing.as_str()).collect()
    }

    /// How long a test may take, if that is not the usual.
    pub fn limit_seconds(&self, name: &str) -> Option<u64> {
        let limits = self.limits.iter();
        let own = limits.filter(|(word, _)| fits(word, name));
        own.map(|(_, seconds)| *seconds).max()
    }

    /// Fails if a word fits no test: a name that is no more would silently run nothing.
    pub fn check(&self, names: &[&str]) -> Result<()> {
        let lists = [
            &self.quick,
            &self.slow,
            &self.together,
            &self.waiting,
            &self.alone,
        ];
        let words = lists.into_iter().flatten();
        let words = words.chain(self.one_at_a_time.values().flatten());
        let words = words.chain(self.limits.keys());
        let words = words.chain(self.changed.values().flatten());
        let lost: Vec<&String> = words
            .filter(|word| ![ALL, MODEL].contains(&word.as_str()))
            .filter(|word| !names.iter().any(|name| fits(word, name)))
            .collect();
        ensure!(lost.is_empty(), "{FILE}: no test is called {lost:?}");
        Ok(())
    }
}

/// In `changed`: every test of the quick set.
pub const ALL: &str = "quick";
/// The model checker's tests, which are not built for the quick set.
pub const MODEL: &str = "wire/model";

/// Whether a test belongs to a crate rather than to the end-to-end tests: `analysis/lib a::b`, but `gpu hip::b`.
pub fn is_of_crate(name: &str) -> bool {
    let place = name.split(' ').next().unwrap_or(name);
    place.contains('/')
}

/// Whether one of these words is the beginning of a name.
pub fn fits_any(words: &[String], name: &str) -> bool {
    words.iter().any(|word| fits(word, name))
}

/// Whether a word is the beginning of a name, up to a boundary: `gpu hip` of `gpu hip::rocm7::graphs`, not of `gpu hippo`; `analysis/` of all tests of
/// that crate.
pub fn fits(word: &str, name: &str) -> bool {
    let is_boundary = |rest: &str| rest.is_empty() || rest.starts_with([' ', ':']);
    name.strip_prefix(word)
        .is_some_and(|rest| word.ends_with('/') || is_boundary(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_boundaries() {
        assert!(fits("gpu hip", "gpu hip::a"));
        assert!(fits("gpu", "gpu hip::a"));
        assert!(fits("gpu hip::a", "gpu hip::a"));
        assert!(fits("analysis/", "analysis/lib a"));
        assert!(!fits("export", "export/lib a"));
        assert!(!fits("gpu hip", "gpu hippo::a"));
        assert!(!fits("gpu hip::a", "gpu hip"));
    }

    #[test]
    fn the_file_can_be_read_and_lost_names_are_found() -> Result<()> {
        let mut suites = Suites::read()?;
        let names: Vec<String> = suites.quick.clone();
        suites.quick.push("no such::test".to_owned());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let told = suites.check(&names).expect_err("it is lost").to_string();
        assert!(told.contains("no such::test"), "{told}");
        Ok(())
    }
}
