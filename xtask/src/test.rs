//! `cargo xtask test`: everything that a change has to pass.

use std::io::{BufRead, BufReader, Write};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::steps::{build_release, cargo, say};
use crate::{judges, runtimes, system};

/// Sums over all test binaries.
#[derive(Debug, Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
    names_of_failed: Vec<String>,
}

/// Prepares, builds, runs, and closes with one line of counts.
pub fn run(filter: Option<&str>, install: bool) -> Result<ExitCode> {
    if install {
        system::install_missing()?;
        judges::fetch()?;
        // A failure was told; the tests say themselves what they lack.
        runtimes::fetch(None)?;
    }
    build_release()?;
    let mut counts = Counts::default();
    // One profile only: the tests use the very build that users get. `--show-output` brings out why a test was skipped.
    let mut success = cargo_test(&["--workspace", "--no-fail-fast"], filter, &mut counts)?;
    // The ring under a model checker, which needs atomics of its own.
    let model = ["-p", "rsys-wire", "--features", "model", "--test", "model"];
    success &= cargo_test(&model, filter, &mut counts)?;
    let mut out = std::io::stdout().lock();
    for name in &counts.names_of_failed {
        writeln!(out, "failed: {name}")?;
    }
    let passed = counts.passed.saturating_sub(counts.skipped);
    // A test binary that does not compile, or crashes, counts as one failure.
    let failed = if success {
        counts.failed
    } else {
        counts.failed.max(1)
    };
    writeln!(
        out,
        "tests: {passed} passed, {failed} failed, {} skipped",
        counts.skipped
    )?;
    Ok(if success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs `cargo test` with these arguments and counts; returns whether all passed.
fn cargo_test(arguments: &[&str], filter: Option<&str>, counts: &mut Counts) -> Result<bool> {
    let mut command = cargo();
    command
        .args(["test", "--release"])
        .args(arguments)
        .args(filter)
        .args(["--", "--show-output"])
        .env("RSYS_JUDGE_DIR", judges::folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    say(&format!("cargo test --release {}", arguments.join(" ")));
    let mut child = command.spawn().context("cannot start cargo")?;
    let mut out = std::io::stdout().lock();
    for line in BufReader::new(child.stdout.take().context("no output")?).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        writeln!(out, "{line}")?;
        counts.take(&line);
    }
    Ok(child.wait()?.success())
}

impl Counts {
    /// Learns from one line of a test binary's output.
    fn take(&mut self, line: &str) {
        if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.names_of_failed.push(name.to_owned());
        } else if let Some(result) = line.strip_prefix("test result: ") {
            // For example: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
            self.skipped += number_before(result, " ignored");
            self.passed += number_before(result, " ignored");
        } else if line.starts_with("skipped: ") {
            self.skipped += 1;
        }
    }
}

fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    before
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_over_several_binaries() {
        let mut counts = Counts::default();
        let lines = [
            "test a ... ok",
            "test b::c ... FAILED",
            "skipped: no browser",
            "test result: FAILED. 5 passed; 1 failed; 2 ignored; 0 measured; 9 filtered out; finished in 0.10s",
            "test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ];
        lines.iter().for_each(|line| counts.take(line));
        assert_eq!(
            (
                counts.passed - counts.skipped,
                counts.failed,
                counts.skipped
            ),
            (14, 1, 3)
        );
        assert_eq!(counts.names_of_failed, ["b::c"]);
    }
}
