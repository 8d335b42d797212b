//! What a program of the benchmark says about itself at its end.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// The `key=value` words that a program printed in its last line.
#[derive(Debug, Clone)]
pub struct TargetReport(BTreeMap<String, f64>);

impl TargetReport {
    /// Finds the line in what was printed.
    pub fn parse(stdout: &str) -> Result<Self> {
        let line = stdout
            .lines()
            .rev()
            .find(|line| line.starts_with("cpu="))
            .context("the program did not report its CPU time")?;
        Ok(Self(
            line.split_whitespace()
                .filter_map(|word| word.split_once('='))
                .filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)))
                .collect(),
        ))
    }

    /// One value.
    pub fn get(&self, key: &str) -> Result<f64> {
        self.0
            .get(key)
            .copied()
            .with_context(|| format!("the program did not report `{key}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_report_counts() {
        let report = TargetReport::parse("hello\ncpu=1 wall=2\ncpu=3.5 wall=4\nbye\n").unwrap();
        assert_eq!(report.get("cpu").unwrap(), 3.5);
        assert!(report.get("rss_kb").is_err());
        assert!(TargetReport::parse("nothing").is_err());
    }
}
