//! How long tests took when they last passed here: a file in the folder that cargo builds into.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::suites::is_of_crate;
use crate::steps::target_dir;

/// Seconds by the names of tests.
#[derive(Debug, Default)]
pub struct History {
    seconds: BTreeMap<String, f64>,
}

impl History {
    /// What is kept here; nothing where no test has run yet.
    pub fn read() -> Self {
        let text = fs::read_to_string(file()).unwrap_or_default();
        let seconds = serde_json::from_str(&text).unwrap_or_default();
        Self { seconds }
    }

    /// How long a test will take, as far as one knows: unknown tests by what they are.
    pub fn expected(&self, name: &str) -> f64 {
        let unknown = || match name {
            _ if is_of_crate(name) && name.contains("/lib ") => 0.02,
            _ if is_of_crate(name) => 1.0,
            _ => 8.0,
        };
        self.known(name).unwrap_or_else(unknown)
    }

    /// How long it took, if it has ever passed here.
    pub fn known(&self, name: &str) -> Option<f64> {
        self.seconds.get(name).copied()
    }

    /// Takes note of a test that passed.
    pub fn learn(&mut self, name: &str, seconds: f64) {
        let rounded = (seconds * 1000.0).round() / 1000.0;
        self.seconds.insert(name.to_owned(), rounded);
    }

    /// Keeps it for the next time.
    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.seconds)?;
        fs::write(file(), text).context("cannot keep the times of tests")
    }

    /// All of it, longest first.
    pub fn longest(&self) -> Vec<(&str, f64)> {
        let mut all: Vec<_> = self.seconds.iter().map(|(name, &s)| (&**name, s)).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        all
    }
}

fn file() -> PathBuf {
    target_dir().join("test-times.json")
}
