//! `rsys-report html`: one page that asks nobody for anything, shows the numbers of the answers, and does what mouse and keys ask for.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{
    Outcome, Run, Scratch, TestResult, judge_dir, missing_tool, python, report, skip_if_missing,
    target_dir, workload, workspace_dir,
};
use serde_json::Value;

const STACK: Stack = Stack::Debian13;

/// An ordinary run has a page no larger than this.
const BYTES_MAX: u64 = 2_000_000;

fn missing() -> Option<String> {
    missing_tool("chromium").or_else(|| missing_tool("node"))
}

fn html(inputs: &[PathBuf], options: &[&str]) -> Result<Output> {
    Ok(Command::new(report()?)
        .arg("html")
        .args(inputs)
        .args(options)
        .output()?)
}

/// Makes the page of a run, has it judged in a browser, and returns what was on it. Pictures are in `target/screenshots`.
fn judged(outcome: &Outcome, name: &str) -> Result<Value> {
    let files = outcome.files();
    let pictures = target_dir().join("screenshots");
    fs::create_dir_all(&pictures)?;
    let scratch = Scratch::new("html")?;
    let page = scratch.path().join("report.html");
    let made = html(&files, &["-o", &page.display().to_string()])?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success() && said.is_empty(), "{said}");
    let bytes = fs::metadata(&page)?.len();
    ensure!(bytes <= BYTES_MAX, "{bytes} bytes");
    let answer = Command::new(report()?)
        .arg("--json")
        .args(&files)
        .output()?;
    ensure!(answer.status.success(), "{answer:?}");
    let json = scratch.path().join("answer.json");
    fs::write(&json, answer.stdout)?;
    let seen = Command::new("node")
        .arg(workspace_dir().join("tests/judge/page.mjs"))
        .args([&page, &json, &pictures.join(name)])
        .env("RSYS_JUDGE_DIR", judge_dir())
        .output()?;
    let said = String::from_utf8_lossy(&seen.stderr);
    ensure!(seen.status.success(), "{said}\n{}", outcome.story());
    let seen: Value = serde_json::from_slice(&seen.stdout)?;
    let compared = seen["compared"].as_u64().context("compared")?;
    ensure!(compared >= 50, "{seen}");
    Ok(seen)
}

fn has(seen: &Value, what: &str, wanted: &[&str]) -> TestResult {
    let found = seen[what].as_array().context("a list")?;
    for one in wanted {
        ensure!(found.iter().any(|found| found == one), "no {one}: {seen}");
    }
    Ok(())
}

#[test]
fn a_program_on_processors() -> TestResult {
    skip_if_missing!(missing());
    let outcome = Run::new()
        .freq(500)
        .command(workload("imagery").args(["120"]))
        .run()?;
    outcome.expect_success();
    let seen = judged(&outcome, "html-cpu")?;
    has(&seen, "tables", &["functions", "threads", "processes"])?;
    has(&seen, "plots", &["processors", "flame"])?;
    ensure!(seen["flames"].get("CPU time").is_some(), "{seen}");
    Ok(())
}

#[test]
fn python_that_waits() -> TestResult {
    skip_if_missing!(missing());
    let outcome = Run::new()
        .freq(500)
        .options(["--realtime"])
        .command(python("waits.py"))
        .run()?;
    outcome.expect_success();
    let seen = judged(&outcome, "html-python")?;
    has(&seen, "tables", &["functions", "waits"])?;
    ensure!(seen["flames"].get("Waiting").is_some(), "{seen}");
    Ok(())
}

#[test]
fn a_program_on_gpus() -> TestResult {
    let missing_stack = [STACK, Stack::Debian12]
        .into_iter()
        .find_map(Stack::missing);
    skip_if_missing!(missing().or(missing_stack));
    let machine = Machine::new(STACK)?.gpus(2).config(
        "
[[kernel]]
name = 'spin'
microseconds = 300
[[kernel]]
name = 'touch'
microseconds = 20
",
    )?;
    let program = hip_program(STACK, "hip_ops")?.args(["work", "200", "20"]);
    let outcome = Run::new()
        .options(["-I", "rocm", "-f", "500"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let seen = judged(&outcome, "html-gpu")?;
    has(&seen, "tables", &["devices", "kernels", "copies", "calls"])?;
    has(
        &seen,
        "plots",
        &["busy", "timeline", "gaps", "durations", "flame"],
    )?;
    ensure!(seen["flames"].get("GPU time").is_some(), "{seen}");
    Ok(())
}

#[test]
fn what_cannot_be_written_is_said_in_a_line() -> TestResult {
    let outcome = Run::new()
        .freq(500)
        .command(workload("rate").args(["--seconds", "0.1"]))
        .run()?;
    let files = outcome.files();
    let scratch = Scratch::new("html")?;
    let page = scratch.path().join("report.html");
    let to = page.display().to_string();
    let refused = |inputs: &[PathBuf], options: &[&str], why: &str| -> TestResult {
        let output = html(inputs, options)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(1) && output.stdout.is_empty(),
            "{said}"
        );
        ensure!(said.lines().count() == 1 && said.contains(why), "{said}");
        Ok(())
    };
    let empty = [scratch.path().to_owned()];
    refused(&empty, &["-o", &to], "no traces")?;
    refused(&[scratch.path().join("none")], &["-o", &to], "cannot read")?;
    let noise = scratch.path().join("noise.proto");
    fs::write(&noise, "no trace")?;
    refused(&[noise], &["-o", &to], "neither a Perfetto trace")?;
    refused(
        &files,
        &["-o", &scratch.path().display().to_string()],
        "is a folder",
    )?;
    refused(&files, &["-o", "/dev/null/report.html"], "cannot write")?;
    ensure!(!page.exists(), "a page of nothing");

    ensure!(html(&files, &["-o", &to])?.status.success());
    let first = fs::read(&page)?;
    refused(&files, &["-o", &to], "--force replaces it")?;
    let input = files.first().context("no trace")?.display().to_string();
    let trace = fs::read(&input)?;
    refused(&files, &["-f", "-o", &input], "is one of the traces")?;
    ensure!(fs::read(&input)? == trace, "the trace is gone");
    let labelled = html(&files, &["--force", "--label", "another name", "-o", &to])?;
    ensure!(labelled.status.success(), "{labelled:?}");
    let second = fs::read_to_string(&page)?;
    ensure!(second.as_bytes() != first && second.contains("<title>another name"));
    Ok(())
}
