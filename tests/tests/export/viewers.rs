//! Viewers of profiles and traces read our exports with their own code, and add up what we add up: pprof, speedscope, Perfetto.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Judge, Scratch, TestResult, judge_dir, missing_tool, skip_if_missing, workspace_dir,
};
use serde_json::Value;

use super::training::{RANKS, missing_speedscope, training};
use super::{export, number, rows};

/// What each kind of values adds up to, as `go tool pprof -raw` lists them.
fn raw_sums(profile: &Path, options: &[&str]) -> Result<BTreeMap<String, u64>> {
    let text = pprof(profile, &[&["-raw"], options].concat())?;
    let mut lines = text.lines().skip_while(|line| *line != "Samples:").skip(1);
    let kinds = lines.next().context("kinds of values")?.split_whitespace();
    // Such as `cpu/nanoseconds[dflt]`.
    let kinds: Vec<&str> = kinds
        .map(|kind| kind.split('/').next().unwrap_or(kind))
        .collect();
    let mut sums = BTreeMap::new();
    for line in lines.take_while(|line| *line != "Locations") {
        // Values and a colon, the numbers of locations; or labels.
        let Some((values, _)) = line.split_once(": ") else {
            continue;
        };
        let values: Result<Vec<u64>, _> = values.split_whitespace().map(str::parse).collect();
        for (kind, value) in kinds.iter().zip(values.unwrap_or_default()) {
            *sums.entry((*kind).to_owned()).or_default() += value;
        }
    }
    Ok(sums)
}

fn pprof(profile: &Path, options: &[&str]) -> Result<String> {
    let mut command = Command::new("go");
    command.args(["tool", "pprof"]).args(options).arg(profile);
    // It makes a folder in the home of the user otherwise.
    let folder = profile.parent().context("a folder")?;
    let done = command.env("PPROF_TMPDIR", folder).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{options:?}: {said}");
    Ok(String::from_utf8(done.stdout)?)
}

#[test]
fn pprof_adds_up_what_we_add_up() -> TestResult {
    skip_if_missing!(missing_tool("go"));
    let scratch = Scratch::new("export-go-pprof")?;
    let traces = training(&scratch)?;
    let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    let profile = scratch.path().join("run.pb.gz");
    export(&inputs, "pprof", &profile, &[])?;
    let kinds = [
        (
            "samples",
            "select count(*) as n from samples where basis = 'cpu'",
        ),
        (
            "cpu",
            "select sum(weight) as n from samples where basis = 'cpu'",
        ),
        (
            "waits",
            "select count(*) as n from samples where basis = 'wait'",
        ),
        (
            "wait",
            "select sum(weight) as n from samples where basis = 'wait'",
        ),
        (
            "kernels",
            "select count(*) as n from operations where kind = 'kernel'",
        ),
        (
            "gpu",
            "select sum(duration_ns) as n from operations where kind = 'kernel'",
        ),
    ];
    let all = raw_sums(&profile, &[])?;
    ensure!(all.len() == kinds.len(), "{all:?}");
    for (kind, sql) in kinds {
        let expected = number(&inputs, sql)?;
        ensure!(
            expected > 0 && all[kind] == expected,
            "{kind} {expected}: {all:?}"
        );
        let is_time = ["cpu", "wait", "gpu"].contains(&kind);
        let unit = if is_time { "ns" } else { "" };
        let mut options = vec!["-top".to_owned(), format!("-sample_index={kind}")];
        options.extend(is_time.then(|| "-unit=ns".to_owned()));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let text = pprof(&profile, &options)?;
        let total = format!("100% of {expected}{unit} total");
        ensure!(text.contains(&total), "{total}: {text}");
    }
    // Both ranks have labels, also the one whose number is 0.
    for (rank, trace) in inputs.iter().enumerate() {
        let focused = raw_sums(&profile, &[&format!("-tagfocus=rank=^{rank}$")])?;
        for (kind, sql) in kinds {
            ensure!(
                focused[kind] == number(&[trace], sql)?,
                "{rank} {kind}: {focused:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn the_importer_of_speedscope_adds_up_what_we_add_up() -> TestResult {
    skip_if_missing!(missing_speedscope());
    let scratch = Scratch::new("export-speedscope-importer")?;
    let traces = training(&scratch)?;
    let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    let path = |name: &str| scratch.path().join(name);
    let files = [
        path("cpu.json"),
        path("wait.json"),
        path("gpu.json"),
        path("run.pb.gz"),
        path("run.json.gz"),
    ];
    for (file, of) in files.iter().zip(["cpu", "wait", "gpu"]) {
        export(&inputs, "speedscope", file, &["--of", of])?;
    }
    export(&inputs, "pprof", &files[3], &["--of", "wait"])?;
    export(&inputs, "chrome", &files[4], &["--only", "gpu,ranges"])?;
    let done = Command::new("node")
        .arg(workspace_dir().join("tests/judge/speedscope.mjs"))
        .arg(judge_dir().join("node_modules"))
        .args(&files)
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{said}");
    let answer: Value = serde_json::from_slice(&done.stdout)?;
    ensure!(
        answer["said"] == serde_json::json!([]),
        "{}",
        answer["said"]
    );
    let found = &answer["found"];
    let profiles = |place: usize| found[place].as_array().into_iter().flatten();
    let times = [
        "select sum(weight) as n from samples where basis = 'cpu'",
        "select sum(weight) as n from samples where basis = 'wait'",
        "select sum(duration_ns) as n from operations where kind = 'kernel'",
    ];
    for (place, sql) in times.into_iter().enumerate() {
        let sum: u64 = profiles(place)
            .filter_map(|one| one["total"].as_u64())
            .sum();
        let expected = number(&inputs, sql)?;
        ensure!(sum == expected, "{sql}: {sum}, not {expected}");
        ensure!(
            profiles(place).count() as u64 == RANKS
                && profiles(place).all(|one| one["unit"] == "nanoseconds")
        );
    }
    // Of a profile of several kinds it takes the one that was asked for.
    ensure!(
        found[3][0]["total"] == number(&inputs, times[1])?,
        "{}",
        found[3]
    );
    // A file of Chrome has a profile for each thread and stream, in microseconds. Frames are events with their arguments.
    let mut kernels: BTreeMap<&str, f64> = BTreeMap::new();
    for (frame, weight) in profiles(4)
        .filter_map(|one| one["frames"].as_object())
        .flatten()
    {
        let name = frame.split(" {").next().unwrap_or(frame);
        *kernels.entry(name).or_default() += weight.as_f64().unwrap_or(f64::NAN);
    }
    for row in rows(
        &inputs,
        "select name, sum(duration_ns) as ns from operations where kind = 'kernel' group by name",
    )? {
        let (name, ns) = (
            row["name"].as_str().context("a name")?,
            row["ns"].as_f64().context("a time")?,
        );
        let found = kernels
            .get(name)
            .with_context(|| format!("{name}: {kernels:?}"))?;
        ensure!((found - ns / 1e3).abs() < 0.01, "{row}: {found}");
    }
    Ok(())
}

#[test]
fn perfetto_imports_every_event_of_chrome_files() -> TestResult {
    let scratch = Scratch::new("export-chrome-perfetto")?;
    let traces = training(&scratch)?;
    let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    for (format, name) in [("chrome", "run.json"), ("kineto", "run.pt.trace.json")] {
        let file = scratch.path().join(name);
        export(&inputs, format, &file, &[])?;
        let mut judge = Judge::load(&[&file])?;
        let errors = judge.query("select name, idx, value from stats where severity in ('error', 'data_loss') and value > 0")?;
        ensure!(errors.is_empty(), "{format}: {errors:?}");
        for (sql, ours) in [
            (
                "select count(*) as n, sum(dur) as ns from slice where category = 'kernel'",
                "select count(*) as n, sum(duration_ns) as ns from operations where kind = 'kernel'",
            ),
            (
                "select count(*) as n, sum(dur) as ns from slice where category in ('gpu_memcpy', 'gpu_memset')",
                "select count(*) as n, sum(duration_ns) as ns from operations where kind in ('copy', 'fill')",
            ),
            (
                "select count(*) as n, sum(dur) as ns from slice where category = 'cuda_runtime'",
                "select count(*) as n, sum(duration_ns) as ns from calls",
            ),
            (
                "select count(*) as n, sum(dur) as ns from slice where category = 'user_annotation'",
                "select count(*) as n, sum(duration_ns) as ns from ranges",
            ),
        ] {
            let found = judge.query(sql)?;
            let row = found.iter().next().context("a row")?;
            let expected = rows(&inputs, ours)?;
            ensure!(expected[0]["n"].as_u64() > Some(0), "{ours}");
            ensure!(
                row.int("n")? as u64 == expected[0]["n"]
                    && row.int("ns")? as u64 == expected[0]["ns"],
                "{format}: {ours}: {row:?}, {expected:?}"
            );
        }
        // Each operation has an arrow from its call, those of a graph too.
        let arrows = judge.query("select count(*) as n from flow")?;
        let expected = number(&inputs, "select count(call) as n from operations")?;
        let arrows = arrows.iter().next().context("a row")?.int("n")? as u64;
        ensure!(
            arrows == expected,
            "{format}: {arrows} arrows, {expected} operations"
        );
    }
    Ok(())
}
