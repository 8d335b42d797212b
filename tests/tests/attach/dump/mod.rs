//! Stacks of processes that run, printed once by `--dump`.

mod native;
mod others;
mod python;
mod undisturbed;

use std::process::{Command, Output};

use anyhow::{Context, Result};
use rsys_tests::{Invocation, Run, Running, TestResult, signal, workload};
use serde_json::Value;

/// Calls `rsys-sample --dump` with these words.
fn dump(words: &[&str]) -> Result<Output> {
    let mut command = Command::new(rsys_tests::sampler()?);
    Ok(command.arg("--dump").args(words).output()?)
}

/// The process of this number, as `--dump --json` tells it.
#[track_caller]
fn dumped(pid: u32) -> Result<Value> {
    let output = dump(&[&pid.to_string(), "--json"])?;
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(document["version"], 1);
    Ok(document["processes"][0].clone())
}

/// Its threads.
fn threads(process: &Value) -> &[Value] {
    process["threads"].as_array().map_or(&[], Vec::as_slice)
}

/// The thread of this name.
fn thread<'a>(process: &'a Value, name: &str) -> Result<&'a Value> {
    let mut found = threads(process)
        .iter()
        .filter(|thread| thread["name"] == name);
    found
        .next()
        .with_context(|| format!("no thread {name} in {process:#}"))
}

/// Functions of a stack with their lines, the innermost first.
fn frames(thread: &Value) -> Vec<(&str, u64)> {
    let frames = thread["frames"].as_array().map_or(&[][..], Vec::as_slice);
    frames
        .iter()
        .map(|frame| {
            let line = frame["line"].as_u64().unwrap_or(0);
            (frame["function"].as_str().unwrap_or_default(), line)
        })
        .collect()
}

/// A program whose threads stay where they are.
struct Still {
    run: Running,
    pid: u32,
}

impl Still {
    /// Threads of these kinds, of the workload `dumped`.
    fn start(kinds: &[&str]) -> Result<Self> {
        let program = workload("dumped").flags(["-O1", "-g", "-pthread"]);
        Self::of(program.args(kinds))
    }

    /// A program that says `ready PID`.
    fn of(program: impl Into<Invocation>) -> Result<Self> {
        let run = Run::bare().command(program).start()?;
        let pid = run.wait_for("ready")?.parse()?;
        Ok(Self { run, pid })
    }

    /// The number that it has printed as `NAME=number`.
    fn number(&self, name: &str) -> Result<u64> {
        let printed = self.run.printed();
        let mut lines = printed.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        Ok(value.with_context(|| printed.clone())?.parse()?)
    }

    /// Ends it as it wants to be ended.
    fn end(self) -> TestResult {
        signal(self.pid, libc::SIGTERM);
        self.run.wait()?.expect_success();
        Ok(())
    }
}
