//! `cargo xtask test`: everything that a change has to pass.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{ExitCode, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::steps::{build_release, cargo, say};
use crate::{judges, runtimes, system};

/// How often a test that failed beside others is run again alone.
const TIMES_ALONE: u32 = 2;
/// Everything but the model checker's: one profile only, the very build that users get.
const WORKSPACE: &[&str] = &["--workspace", "--no-fail-fast"];
/// Integration tests that mostly wait, for Slurm, for launchers of MPI, for a browser: they run beside the others.
const WAITING: [&str; 5] = ["jobs", "jobs_stragglers", "gpu_view", "mpi", "view"];
/// The ring under a model checker, which needs atomics of its own.
const MODEL: &[&str] = &["-p", "rsys-wire", "--features", "model", "--test", "model"];

/// Sums over all test binaries.
#[derive(Debug, Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// Test binaries that began, less those that told their result.
    unfinished: u64,
    names_of_failed: Vec<String>,
}

/// A test that failed beside others, and what cargo needs to be told to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    name: String,
    arguments: &'static [&'static str],
}

/// What became of the tests that failed beside others.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    failed: Vec<String>,
    /// The names, and how often each failed alone before it passed.
    unsteady: Vec<(String, u32)>,
}

/// Prepares, builds, runs, and closes with one line of counts.
pub fn run(filter: Option<&str>, install: bool) -> Result<ExitCode> {
    if install {
        system::install_missing()?;
    }
    let mut does_compile = true;
    // One waits for the network, the other for the compiler.
    thread::scope(|scope| {
        let fetching = install.then(|| scope.spawn(fetch));
        build_release()?;
        let mut compiler = cargo();
        compiler.args(["test", "--release", "--no-run"]);
        let compiled = compiler.args(WORKSPACE).status();
        does_compile = compiled.context("cannot start cargo")?.success();
        match fetching.map(thread::ScopedJoinHandle::join) {
            None => Ok(()),
            Some(Ok(fetched)) => fetched,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    })?;
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    let mut broken = 0;
    for (arguments, success, these) in run_all(filter)? {
        broken += these.broken(success);
        failures.extend(these.failures(arguments));
        counts.add(&these);
    }
    let mut out = std::io::stdout().lock();
    // An example, say: what is to be run was counted.
    if !does_compile && broken == 0 {
        broken = 1;
    }
    let verdict = judge_alone(failures, |failure| {
        say(&format!("once more, alone: {}", failure.name));
        let options = ["--exact", "--test-threads=1", "--show-output"];
        let mut alone = Counts::default();
        let arguments = failure.arguments.iter().copied();
        let success = cargo_test(
            arguments,
            Some(&failure.name),
            &options,
            &mut alone,
            &mut out,
        )?;
        Ok(success && alone.passed > 0)
    })?;
    for name in &verdict.failed {
        writeln!(out, "failed: {name}")?;
    }
    for (name, alone) in &verdict.unsteady {
        let before = match alone {
            0 => "failed once beside others",
            _ => "failed beside others and once alone",
        };
        writeln!(out, "unsteady: {name} ({before}, passed alone)")?;
    }
    let passed = (counts.passed + verdict.unsteady.len() as u64).saturating_sub(counts.skipped);
    let failed = verdict.failed.len() as u64 + broken;
    writeln!(
        out,
        "tests: {passed} passed, {failed} failed, {} skipped",
        counts.skipped
    )?;
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What the tests need that is not installed. A failure is told, and the tests say themselves what they lack.
fn fetch() -> Result<()> {
    judges::fetch()?;
    runtimes::fetch(None).map(|_| ())
}

/// Arguments of cargo that run tests again, whether all of them passed, and how many did.
type Ran = (&'static [&'static str], bool, Counts);

/// Runs all tests: those that mostly wait beside the others, and the model checker when all have ended. What those say that wait comes behind the others.
fn run_all(filter: Option<&str>) -> Result<Vec<Ran>> {
    // It brings out why a test was skipped.
    let options = ["--show-output"];
    let test = |name: &String| format!("--test={name}");
    let (waiting, others): (Vec<String>, Vec<String>) = integration_tests()?
        .into_iter()
        .partition(|name| WAITING.contains(&name.as_str()));
    ensure!(
        waiting.len() == WAITING.len(),
        "not all of {WAITING:?} are there"
    );
    let run = |further: &[String], out: &mut dyn Write| -> Result<Ran> {
        let arguments = WORKSPACE.iter().copied();
        let arguments = arguments.chain(further.iter().map(String::as_str));
        let mut counts = Counts::default();
        let success = cargo_test(arguments, filter, &options, &mut counts, out)?;
        Ok((WORKSPACE, success, counts))
    };
    let waiting: Vec<String> = waiting.iter().map(test).collect();
    let units = ["--lib", "--bins"].map(str::to_owned);
    let others: Vec<String> = units.into_iter().chain(others.iter().map(test)).collect();
    let mut out = std::io::stdout().lock();
    let mut ran = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut said = Vec::new();
            let ran = run(&waiting, &mut said);
            (ran, said)
        });
        let ran = run(&others, &mut out);
        let (beside, said) = match beside.join() {
            Ok(beside) => beside,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        out.write_all(&said)?;
        anyhow::Ok(vec![ran?, beside?])
    })?;
    ran.push(run(&["--doc".to_owned()], &mut out)?);
    let mut counts = Counts::default();
    let model = MODEL.iter().copied();
    let success = cargo_test(model, filter, &options, &mut counts, &mut out)?;
    ran.push((MODEL, success, counts));
    Ok(ran)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// The names of the workspace's integration tests, without the model checker's.
fn integration_tests() -> Result<BTreeSet<String>> {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata failed");
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let targets = metadata.packages.into_iter().flat_map(|one| one.targets);
    let tests = targets.filter(|target| target.kind.iter().any(|kind| kind == "test"));
    let names = tests.map(|target| target.name);
    Ok(names.filter(|name| name != "model").collect())
}

/// Runs each failure again, with nothing beside it, until it passes or has failed often enough.
fn judge_alone(
    failures: Vec<Failure>,
    mut passes: impl FnMut(&Failure) -> Result<bool>,
) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    'failures: for failure in failures {
        for failed_alone in 0..TIMES_ALONE {
            if passes(&failure)? {
                verdict.unsteady.push((failure.name, failed_alone));
                continue 'failures;
            }
        }
        verdict.failed.push(failure.name);
    }
    Ok(verdict)
}

/// Runs `cargo test` with these arguments, counts, and writes down what it says; returns whether all passed.
fn cargo_test<'a>(
    arguments: impl Iterator<Item = &'a str>,
    filter: Option<&str>,
    options: &[&str],
    counts: &mut Counts,
    out: &mut dyn Write,
) -> Result<bool> {
    let mut command = cargo();
    command
        .args(["test", "--release"])
        .args(arguments)
        .args(filter)
        .arg("--")
        .args(options)
        .env("RSYS_JUDGE_DIR", judges::folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
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
            self.unfinished = self.unfinished.saturating_sub(1);
        } else if line.starts_with("skipped: ") {
            self.skipped += 1;
        } else if is_beginning(line) {
            self.unfinished += 1;
        }
    }

    /// How many failures there are that no line names: binaries that crashed, or whatever else made cargo fail.
    fn broken(&self, success: bool) -> u64 {
        let unnamed = self
            .failed
            .saturating_sub(self.names_of_failed.len() as u64);
        let broken = self.unfinished + unnamed;
        if success || broken > 0 || self.failed > 0 {
            broken
        } else {
            1
        }
    }

    fn failures(&self, arguments: &'static [&'static str]) -> impl Iterator<Item = Failure> {
        self.names_of_failed.iter().map(move |name| Failure {
            name: name.clone(),
            arguments,
        })
    }

    fn add(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Whether this is a test binary's first line: `running 7 tests`.
fn is_beginning(line: &str) -> bool {
    line.strip_prefix("running ")
        .and_then(|rest| rest.strip_suffix(" tests").or(rest.strip_suffix(" test")))
        .is_some_and(|count| count.parse::<u64>().is_ok())
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

    fn failure(name: &str) -> Failure {
        Failure {
            name: name.to_owned(),
            arguments: MODEL,
        }
    }

    #[test]
    fn what_fails_beside_others_is_judged_alone() -> Result<()> {
        let mut runs = Vec::new();
        let failures = ["steady", "once", "twice"].map(failure).to_vec();
        let verdict = judge_alone(failures, |failure| {
            runs.push(failure.name.clone());
            let times = runs.iter().filter(|name| **name == failure.name).count();
            Ok(match failure.name.as_str() {
                "once" => true,
                "twice" => times == 2,
                _ => false,
            })
        })?;
        assert_eq!(runs, ["steady", "steady", "once", "twice", "twice"]);
        assert_eq!(verdict.failed, ["steady"]);
        let unsteady = [("once".to_owned(), 0), ("twice".to_owned(), 1)];
        assert_eq!(verdict.unsteady, unsteady);
        Ok(())
    }

    #[test]
    fn a_failure_without_a_name_is_one() {
        // A build that fails.
        assert_eq!(Counts::default().broken(false), 1);
        assert_eq!(Counts::default().broken(true), 0);
        // A binary that crashes beside one in which a test fails.
        let mut counts = Counts::default();
        let lines = [
            "running 2 tests",
            "test a ... ok",
            "running 1 test",
            "test b ... FAILED",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s",
        ];
        lines.iter().for_each(|line| counts.take(line));
        assert_eq!(counts.broken(false), 1);
        assert_eq!(counts.failures(MODEL).collect::<Vec<_>>(), [failure("b")]);
    }

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
