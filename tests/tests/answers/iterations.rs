//! A job's ranks and iterations on the command line: what a summary and advice say of them, and critical paths.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rsys_synthetic::{Cause, Fault, Job};
use rsys_tests::{Scratch, TestResult, answer, report};
use serde_json::Value;

/// Asks `rsys-report`.
fn asked(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(report()?).args(arguments).output()?)
}

/// Asks `rsys-report`, successfully; what it prints.
fn ask(arguments: &[&str]) -> Result<String> {
    let output = asked(arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// A job of which one rank sleeps in every seventh iteration.
fn written(scratch: &Scratch) -> Result<String> {
    let folder = scratch.path().join("job");
    let job = Job {
        ranks: 4,
        iterations: 12,
        faults: vec![Fault {
            rank: 1,
            cause: Cause::Sleep,
            amount_ns: 9_000_000,
            every: 7,
        }],
        ..Job::default()
    };
    rsys_synthetic::write(&job, &folder)?;
    path(&folder)
}

/// What advice says of a job.
fn advice(job: &Job) -> Result<Value> {
    let scratch = Scratch::new("advice-on-ranks")?;
    let folder = scratch.path().join("job");
    rsys_synthetic::write(job, &folder)?;
    answer("advice", &[folder])
}

/// When the last collective of a job ends.
fn end_ns(job: &Job) -> u64 {
    let last = (job.iterations - 1, job.buckets - 1);
    rsys_synthetic::simulate(job).end_ns(job, 0, last)
}

#[test]
fn advice_names_the_rank_that_the_others_wait_for_whatever_it_does() -> TestResult {
    // Eight ranks on two hosts.
    let healthy = Job::default();
    for cause in Cause::ALL {
        let fault = Fault {
            rank: 5,
            cause,
            amount_ns: 5_000_000,
            every: 1,
        };
        let job = Job {
            faults: vec![fault],
            ..Job::default()
        };
        let advised = advice(&job)?;
        let findings = advised["findings"].as_array().context("findings")?;
        let of_rule = |rule: &str| {
            let found = findings.iter().filter(|one| one["rule"] == rule);
            found.collect::<Vec<_>>()
        };
        let [found] = of_rule("straggler")[..] else {
            anyhow::bail!("{cause:?}: {advised:#}");
        };
        let place = found["place"].as_str().context("a place")?;
        let known = cause
            .place()
            .is_none_or(|(function, _)| place.contains(function));
        ensure!(
            place.starts_with("rank 5 on node01") && known,
            "{cause:?}: {place}"
        );
        let saves_ns = found["saves_ns"].as_u64().context("a time")?;
        let lost_ns = end_ns(&job) - end_ns(&healthy);
        ensure!(
            (lost_ns * 9 / 10..=lost_ns * 11 / 10).contains(&saves_ns),
            "{cause:?}: {saves_ns} of {lost_ns}"
        );
        let look = found["look"].as_str().context("where to look")?;
        let (after_s, _) = look.split_once(" s after").context("a time")?;
        ensure!(
            look.contains("first process on node01") && after_s.parse::<f64>()? < 5.0,
            "{cause:?}: {look}"
        );
        // Who waits in collectives for that rank has not begun them too late, and what computes longer is told once.
        for rule in ["exposed_comm", "rank_imbalance"] {
            ensure!(of_rule(rule).is_empty(), "{cause:?}: {advised:#}");
        }
    }
    let advised = advice(&healthy)?;
    ensure!(advised["findings"] == serde_json::json!([]), "{advised:#}");
    Ok(())
}

fn path(path: &Path) -> Result<String> {
    Ok(path.to_str().context("a path")?.to_owned())
}

#[test]
fn a_summary_says_where_iterations_are_told_of() -> TestResult {
    let scratch = Scratch::new("iterations")?;
    let folder = written(&scratch)?;
    let note = format!("rsys-report overlap {folder} says what each iteration consisted of");
    let text = ask(&[&folder])?;
    ensure!(text.contains(&note), "{text}");
    // Nothing is called so in a trace of which nobody has marked iterations.
    let strange = scratch.path().join("strange.json");
    let event = r#"{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":5,"pid":0,"tid":7,"args":{"device":0,"stream":7,"correlation":1}}"#;
    std::fs::write(&strange, format!(r#"{{"traceEvents":[{event}]}}"#))?;
    let text = ask(&[&path(&strange)?])?;
    ensure!(!text.contains("says what each iteration"), "{text}");
    Ok(())
}

#[test]
fn a_critical_path_names_the_late_rank_and_its_line() -> TestResult {
    let scratch = Scratch::new("critical")?;
    let folder = written(&scratch)?;
    let question = ["overlap", &folder, "--critical-path"];
    let text = ask(&question)?;
    ensure!(
        text.contains("clock_nanosleep in augment (train.py:57)"),
        "{text}"
    );
    let json = ask(&[&question[..], &["--iteration", "7", "--json"]].concat())?;
    let answer: Value = serde_json::from_str(&json)?;
    let steps = answer["critical_path"].as_array().context("steps")?;
    let sleep = steps.iter().find(|step| step["kind"] == "host_wait");
    let sleep = sleep.context("no wait is on the path")?;
    ensure!(
        sleep["rank"] == 1 && sleep["duration_ns"] == 9_000_000,
        "{sleep}"
    );
    let csv = ask(&[&question[..], &["--iteration", "7", "--csv"]].concat())?;
    ensure!(csv.starts_with("iteration,step,rank,"), "{csv}");
    ensure!(csv.lines().count() == steps.len() + 1, "{csv}");
    Ok(())
}

#[test]
fn a_critical_path_of_parts_is_that_of_the_traces() -> TestResult {
    let scratch = Scratch::new("critical-parts")?;
    let folder = written(&scratch)?;
    let parts = path(&scratch.path().join("parts"))?;
    let question = ["overlap", &folder, "--critical-path", "--json"];
    let whole = ask(&question)?;
    let with_parts = [&question[..], &["--parts", &parts]].concat();
    for share in ["0/2", "1/2"] {
        let made = ask(&[&with_parts[..], &["--share", share]].concat())?;
        ensure!(made.contains("4 parts"), "{made}");
    }
    ensure!(ask(&with_parts)? == whole);
    // Both questions take what was made.
    let overlap = ["overlap", &folder, "--json"];
    ensure!(ask(&[&overlap[..], &["--parts", &parts]].concat())? == ask(&overlap)?);
    Ok(())
}

#[test]
fn what_cannot_be_answered_is_said() -> TestResult {
    let scratch = Scratch::new("critical-wrong")?;
    let folder = written(&scratch)?;
    let lost = asked(&["overlap", &folder, "--critical-path", "--iteration", "99"])?;
    ensure!(lost.status.code() == Some(1));
    let said = String::from_utf8(lost.stdout)?;
    ensure!(said.contains("no rank has an iteration 99"), "{said}");
    let alone = asked(&["overlap", &folder, "--iteration", "7"])?;
    ensure!(alone.status.code() == Some(2));
    Ok(())
}
