//! Main threads that wait for their loader: who that is, and what it does.

use anyhow::{Context, Result, ensure};
use rsys_tests::{Run, TestResult, answer, python};
use serde_json::Value;

/// The rules that found something in a run of `loader_loop.py`, and what is told of the loader and of where it is waited for.
fn findings(how: &str) -> Result<(Vec<String>, [String; 2], Value)> {
    let outcome = Run::new()
        .options(["--realtime"])
        .command(python("loader_loop.py").args([how, "4"]))
        .run()?;
    outcome.expect_success();
    let advice = answer("advice", &outcome.files())?;
    let found = advice["findings"].as_array().context("findings")?;
    let rules = found.iter().filter_map(|one| one["rule"].as_str());
    let rules = rules.map(str::to_owned).collect();
    let of_loader = found.iter().find(|one| one["rule"] == "loader_wait");
    let told = |text: Option<&Value>| {
        let text = text.and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let told = [
        told(of_loader.map(|one| &one["evidence"]["loader"])),
        told(of_loader.map(|one| &one["place"])),
    ];
    Ok((rules, told, advice))
}

#[test]
fn they_are_named_with_what_they_do() -> TestResult {
    for (how, kind, function) in [
        ("naps", "thread ", "prepare_asleep (loader_loop.py:"),
        ("computes", "thread ", "spin (loader_loop.py:"),
        ("workers", "process ", "prepare_asleep (loader_loop.py:"),
    ] {
        let (_, [told, place], advice) = findings(how)?;
        ensure!(told.starts_with(kind), "{how}: {advice:#}");
        ensure!(told.contains(function), "{how}: {advice:#}");
        ensure!(
            place.starts_with("train (loader_loop.py:"),
            "{how}: {advice:#}"
        );
    }
    Ok(())
}

#[test]
fn one_that_is_fast_enough_is_no_finding() -> TestResult {
    let (rules, _, advice) = findings("fast")?;
    ensure!(
        !rules.iter().any(|rule| rule.ends_with("_wait")),
        "{advice:#}"
    );
    Ok(())
}
