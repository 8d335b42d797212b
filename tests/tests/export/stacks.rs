//! Formats of call stacks.

use std::fs;

use anyhow::{Context, ensure};
use rsys_tests::{Scratch, TestResult, skip_if_missing};
use serde_json::Value;

use super::{STACK, export, job, judged, number, rows};

#[test]
fn call_stacks_add_up() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-stacks")?;
    let [first, second] = job()?;
    let both = [first.as_path(), second.as_path()];
    let profile = scratch.path().join("run.pb.gz");
    export(&both, "pprof", &profile, &[])?;
    let profile = judged("pprof.py", &profile)?;
    let labels: Vec<String> = serde_json::from_value(profile["labels"].clone())?;
    ensure!(
        labels == ["pid", "process", "rank", "thread", "tid"],
        "{labels:?}"
    );
    for (time, sql) in [
        (
            "cpu",
            "select sum(weight) as n from samples where basis = 'cpu'",
        ),
        (
            "wait",
            "select sum(weight) as n from samples where basis = 'wait'",
        ),
        (
            "gpu",
            "select sum(duration_ns) as n from operations where kind = 'kernel'",
        ),
    ] {
        let expected = number(&both, sql)?;
        ensure!(expected > 0, "{sql}");
        ensure!(
            profile["sums"][time] == expected,
            "{time} {expected}: {}",
            profile["sums"]
        );
        let file = scratch.path().join(format!("{time}.folded"));
        export(&both, "folded", &file, &["--of", time])?;
        let text = fs::read_to_string(&file)?;
        let sum: u64 = text
            .lines()
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum();
        ensure!(sum == expected, "{time}: {sum} {expected}");
        ensure!(text.lines().all(|line| line.starts_with("rank ")), "{text}");
        let file = scratch.path().join(format!("{time}.json"));
        export(&both, "speedscope", &file, &["--of", time])?;
        let document: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        let frames = document["shared"]["frames"]
            .as_array()
            .context("frames")?
            .len() as u64;
        let mut sum = 0;
        for thread in document["profiles"].as_array().context("profiles")? {
            let samples = thread["samples"].as_array().context("samples")?;
            let weights = thread["weights"].as_array().context("weights")?;
            ensure!(samples.len() == weights.len() && thread["unit"] == "nanoseconds");
            let of_thread: u64 = weights.iter().filter_map(Value::as_u64).sum();
            ensure!(thread["endValue"] == of_thread, "{thread}");
            let mut numbers = samples
                .iter()
                .flat_map(|stack| stack.as_array().into_iter().flatten());
            ensure!(numbers.all(|frame| frame.as_u64().is_some_and(|frame| frame < frames)));
            sum += of_thread;
        }
        ensure!(sum == expected, "{time}: {sum} {expected}");
    }
    // Each kernel is below the stack that launched it.
    for row in rows(
        &both,
        "select name, sum(duration_ns) as ns from operations where kind = 'kernel' group by name",
    )? {
        let name = row["name"].as_str().context("name")?;
        ensure!(profile["leaves"][name]["gpu"] == row["ns"], "{row}");
    }
    Ok(())
}

#[test]
fn a_profile_for_firefox_has_samples_and_markers() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-firefox")?;
    let [first, second] = job()?;
    let both = [first.as_path(), second.as_path()];
    for (time, key, sql) in [
        (
            "cpu",
            "samples",
            "select sum(weight) as n from samples where basis = 'cpu'",
        ),
        (
            "wait",
            "samples",
            "select sum(weight) as n from samples where basis = 'wait'",
        ),
        (
            "gpu",
            "samples",
            "select sum(duration_ns) as n from operations where kind = 'kernel'",
        ),
        (
            "cpu",
            "operation",
            "select sum(duration_ns) as n from operations",
        ),
        ("cpu", "call", "select sum(duration_ns) as n from calls"),
        ("cpu", "wait", "select sum(duration_ns) as n from waits"),
    ] {
        let file = scratch.path().join(format!("{time}.json"));
        export(&both, "firefox", &file, &["--of", time, "--force"])?;
        let found = judged("firefox.py", &file)?;
        let expected = number(&both, sql)?;
        ensure!(
            expected > 0 && found["sums"][key] == expected,
            "{time} {key} {expected}: {}",
            found["sums"]
        );
    }
    // The innermost functions of CPU time are those of the samples, with their libraries.
    let found = judged("firefox.py", &scratch.path().join("cpu.json"))?;
    for row in rows(
        &both,
        "select function, sum(weight) as ns from samples where basis = 'cpu' and function <> '' group by function",
    )? {
        let name = row["function"].as_str().context("function")?;
        ensure!(
            found["leaves"][name] == row["ns"],
            "{row}: {}",
            found["leaves"]
        );
    }
    let libraries = found["libraries"].as_array().context("libraries")?;
    ensure!(
        libraries.iter().any(|name| name == "hip_ops"),
        "{libraries:?}"
    );
    Ok(())
}
