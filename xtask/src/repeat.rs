//! `cargo xtask repeat`: the same tests many times, with exact counts. For what fails seldom.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::judges;
use crate::steps::{build_release, cargo, say};

/// What is repeated.
#[derive(Debug, clap::Args)]
pub struct RepeatOptions {
    /// How often
    times: u32,
    /// Files of end-to-end tests, without `.rs`
    #[arg(required = true)]
    files: Vec<String>,
    /// Only tests whose names contain this
    #[arg(long)]
    name: Option<String>,
    /// Those too that are only run by hand
    #[arg(long)]
    include_ignored: bool,
}

/// How often a test passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    passed: u32,
    failed: u32,
}

/// Builds once, runs the tests so often, and closes with a line for each test. Fails if any did.
pub fn run(options: &RepeatOptions) -> Result<ExitCode> {
    build_release()?;
    let mut counts = BTreeMap::new();
    let mut broken = 0;
    for time in 1..=options.times {
        for file in &options.files {
            let before = failures(&counts);
            let success = once(options, file, &mut counts)?;
            if !success && failures(&counts) == before {
                // It did not compile, or it crashed: no test says so.
                broken += 1;
            }
            say(&format!(
                "{file}: {time} of {}, {} failures so far",
                options.times,
                failures(&counts) + broken
            ));
        }
    }
    let mut out = std::io::stdout().lock();
    for (name, Count { passed, failed }) in &counts {
        writeln!(out, "{name}: {passed} passed, {failed} failed")?;
    }
    let none_failed = broken == 0 && !counts.is_empty() && failures(&counts) == 0;
    Ok(if none_failed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn failures(counts: &BTreeMap<String, Count>) -> u32 {
    counts.values().map(|count| count.failed).sum()
}

fn once(options: &RepeatOptions, file: &str, counts: &mut BTreeMap<String, Count>) -> Result<bool> {
    let mut command = cargo();
    command
        .args(["test", "--release", "-p", "rsys-tests", "--test", file])
        .args(&options.name)
        .arg("--")
        .args(options.include_ignored.then_some("--include-ignored"))
        .env("RSYS_JUDGE_DIR", judges::folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let mut out = std::io::stdout().lock();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        match result(&line) {
            Some((name, passed)) => {
                let count = counts.entry(format!("{file} {name}")).or_default();
                count.passed += u32::from(passed);
                count.failed += u32::from(!passed);
            }
            None => writeln!(out, "{line}")?,
        }
    }
    Ok(child.wait()?.success())
}

/// The test that a line is about, and whether it passed: `test a::b ... ok`.
fn result(line: &str) -> Option<(&str, bool)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    match result {
        "ok" => Some((name, true)),
        "FAILED" => Some((name, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_results_of_tests_count() {
        assert_eq!(result("test a::b ... ok"), Some(("a::b", true)));
        assert_eq!(result("test a::b ... FAILED"), Some(("a::b", false)));
        for other in [
            "test a ... ignored, takes minutes",
            "test a has been running for over 60 seconds",
            "test result: ok. 1 passed; 0 failed",
        ] {
            assert_eq!(result(other), None, "{other}");
        }
    }
}
