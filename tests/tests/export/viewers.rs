//! Viewers of profiles and traces read our exports with their own code, and add up what we add up: pprof, speedscope, the Firefox Profiler, Perfetto.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Judge, Scratch, TestResult, judge_dir, missing_tool, skip_if_missing, workspace_dir,
};
use serde_json::Value;

use super::training::{RANKS, firefox_modules, missing_firefox, missing_speedscope, training};
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

/// The Firefox Profiler brings the file up to date, and works out markers and sums as its page does.
#[test]
fn the_firefox_profiler_adds_up_what_we_add_up() -> TestResult {
    skip_if_missing!(missing_firefox());
    let scratch = Scratch::new("export-firefox-viewer")?;
    let traces = training(&scratch)?;
    let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    let near = |found: f64, expected_ns: u64| (found * 1e6 - expected_ns as f64).abs() < 0.5;
    for (of, basis) in [("cpu", "cpu"), ("wait", "wait")] {
        let file = scratch.path().join(format!("{of}.json.gz"));
        export(&inputs, "firefox", &file, &["--of", of])?;
        let done = Command::new("node")
            .arg(workspace_dir().join("tests/judge/firefox_viewer.mjs"))
            .arg(firefox_modules())
            .arg(&file)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "{said}");
        let answer: Value = serde_json::from_slice(&done.stdout)?;
        let threads = answer["threads"].as_array().context("threads")?;
        // Each rank has a thread and two streams.
        ensure!(threads.len() as u64 == 3 * RANKS, "{answer}");
        let mut found: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
        for (name, marker) in threads
            .iter()
            .filter_map(|thread| thread["markers"].as_object())
            .flatten()
        {
            let sum = found.entry(name).or_default();
            sum.0 += marker["count"].as_u64().context("a count")?;
            sum.1 += marker["ms"].as_f64().context("a time")?;
        }
        let sql = "select name, count(*) as n, sum(duration_ns) as ns from
                   (select name, duration_ns from operations union all select name, duration_ns from calls union all select name, duration_ns from ranges)
                   group by name";
        let expected = rows(&inputs, sql)?;
        ensure!(expected.len() > 10, "{expected:?}");
        for row in expected {
            let name = row["name"].as_str().context("a name")?;
            let (count, ms) = found
                .get(name)
                .with_context(|| format!("{name}: {found:?}"))?;
            let expected_ns = row["ns"].as_u64().context("a time")?;
            ensure!(
                row["n"] == *count && near(*ms, expected_ns),
                "{row}: {count}, {ms} ms"
            );
        }
        for (rank, trace) in inputs.iter().enumerate() {
            let sql = format!("select sum(weight) as n from samples where basis = '{basis}'");
            let expected_ns = number(&[trace], &sql)?;
            let pid = format!("{}.", 1000 + rank);
            let of_rank = threads.iter().filter(|one| {
                one["weight"].as_f64() > Some(0.0)
                    && one["pid"]
                        .as_str()
                        .is_some_and(|text| text.starts_with(&pid))
            });
            let of_rank: Vec<&Value> = of_rank.collect();
            ensure!(
                of_rank.len() == 1 && of_rank[0]["unit"] == "tracing-ms",
                "{answer}"
            );
            let weight = of_rank[0]["weight"].as_f64().context("a weight")?;
            ensure!(
                near(weight, expected_ns),
                "{of} of rank {rank}: {weight} ms, {expected_ns}"
            );
            let main = of_rank[0]["functions"].as_object().context("functions")?;
            let main = main.iter().find(|(name, _)| name.ends_with("main"));
            let total = main.and_then(|(_, total)| total.as_f64()).context("main")?;
            ensure!(near(total, expected_ns), "main: {total} ms");
        }
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
        // Counters are in files for viewers only.
        let counters = judge.query(
            "select t.name as name, count(*) as n, sum(c.value) as sum from counter c join process_counter_track t on t.id = c.track_id group by t.name order by t.name",
        )?;
        let found: Vec<(String, i64, f64)> = counters
            .iter()
            .map(|row| {
                Ok((
                    row.text("name")?.to_owned(),
                    row.int("n")?,
                    row.float("sum")?,
                ))
            })
            .collect::<Result<_>>()?;
        let sql = "select belongs_to || ' ' || name || ' ' || unit as name, count(*) as n, sum(value) as sum from counters group by 1 order by 1";
        let expected: Vec<(String, i64, f64)> = rows(&inputs, sql)?
            .iter()
            .filter_map(|row| {
                let name = row["name"].as_str()?.to_owned();
                Some((name, row["n"].as_i64()?, row["sum"].as_f64()?))
            })
            .collect();
        ensure!(expected.len() as u64 == RANKS);
        match format {
            "chrome" => ensure!(found == expected, "{found:?}\n{expected:?}"),
            _ => ensure!(found.is_empty(), "{found:?}"),
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
