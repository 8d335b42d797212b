//! `--split`: a trace in several files, each of which opens alone, and which add up to what one file would have held.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{
    Outcome, Run, Samples, TestResult, Trace, answer, report, skip_if_missing, workload,
};

const STACK: Stack = Stack::Debian12;

/// The files of the trace of a program, in their order.
fn parts(outcome: &Outcome, program: &str) -> Result<Vec<Trace>> {
    let first = outcome.trace_of(program)?.path().with_extension("");
    let first = first.to_string_lossy().into_owned();
    let mut files = outcome.files();
    files.retain(|file| file.to_string_lossy().starts_with(&first));
    files.retain(|file| !file.to_string_lossy().contains(".overview."));
    let number = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str())?;
        stem.rsplit_once(".part")?.1.parse::<u32>().ok()
    };
    files.sort_by_key(|file| number(file).unwrap_or(1));
    let numbers: Vec<u32> = files.iter().map(|file| number(file).unwrap_or(1)).collect();
    let expected: Vec<u32> = (1..).take(files.len()).collect();
    ensure!(numbers == expected, "{files:?}\n{}", outcome.story());
    ensure!(files.len() > 1, "{files:?}\n{}", outcome.story());
    let traces = files.iter().map(|file| Trace::load(file, None));
    traces.collect()
}

/// The sum of a number over files, of which each is in order by itself.
fn sum(parts: &[Trace], sql: &str) -> Result<i64> {
    let each: Result<Vec<i64>> = parts.iter().map(|part| part.number(sql)).collect();
    Ok(each?.iter().sum())
}

/// The small trace of the whole run of a program.
fn overview(outcome: &Outcome, program: &str) -> Result<Trace> {
    let first = outcome.trace_of(program)?.path().with_extension("");
    let path = PathBuf::from(format!("{}.overview.proto", first.display()));
    let trace = Trace::load(&path, None);
    let trace = trace.with_context(|| format!("{:?}\n{}", outcome.files(), outcome.story()))?;
    trace.assert_valid_prefix();
    trace.metadata()?.get("overview")?;
    Ok(trace)
}

/// By thread and function that was innermost, what the samples of traces stand for. A thread may get its name while a part is written, so that its id counts.
fn weights(
    traces: &[Trace],
    samples: impl Fn(&Trace) -> Result<Samples>,
) -> Result<BTreeMap<(i64, String), f64>> {
    let mut weights = BTreeMap::new();
    for trace in traces {
        for sample in samples(trace)?.iter() {
            let leaf = sample
                .names()
                .last()
                .copied()
                .unwrap_or_default()
                .to_owned();
            *weights.entry((sample.tid, leaf)).or_default() += sample.weight;
        }
    }
    Ok(weights)
}

fn assert_equal_sums(
    parts: &[Trace],
    small: Trace,
    samples: impl Fn(&Trace) -> Result<Samples>,
) -> Result<Trace> {
    let small = [small];
    let (whole, sums) = (weights(parts, &samples)?, weights(&small, &samples)?);
    let (names, of_small): (Vec<_>, Vec<_>) = (whole.keys().collect(), sums.keys().collect());
    ensure!(
        !whole.is_empty() && names == of_small,
        "{whole:?}\n{sums:?}"
    );
    for (key, weight) in &whole {
        ensure!(
            (weight - sums[key]).abs() < 1e-6 * weight,
            "{key:?}: {whole:?}\n{sums:?}"
        );
    }
    let [small] = small;
    Ok(small)
}

fn assert_each_opens(parts: &[Trace]) -> TestResult {
    for part in parts {
        part.assert_valid_prefix();
        let path = part.path().display();
        let open = part.number("select count(*) from slice where dur < 0")?;
        assert_eq!(open, 0, "{path}");
        let processes =
            part.number("select count(*) from process where pid > 0 and name is not null")?;
        assert_eq!(processes, 1, "{path}");
    }
    Ok(())
}

fn check(folder: &Path) -> TestResult {
    let output = Command::new(report()?).arg("check").arg(folder).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{said}");
    ensure!(said.contains("goes on in part 2"), "{said}");
    Ok(())
}

#[test]
fn parts_of_a_long_run_open_alone_and_add_up() -> TestResult {
    let outcome = Run::new()
        .freq(500)
        .options(["--realtime", "--split", "300ms"])
        .command(workload("hotspots").args(["--threads", "3", "--seconds", "3"]))
        .run()?;
    outcome.expect_success();
    let parts = parts(&outcome, "hotspots")?;
    assert!(parts.len() > 2, "{}", outcome.story());
    assert_each_opens(&parts)?;
    let last = parts.last().context("a part")?.metadata()?;
    let weights =
        "select ifnull(sum(s.weight), 0) from (select count(*) as weight from perf_sample p
         join perf_session using (perf_session_id)) s";
    let samples = sum(&parts, weights)?;
    assert_eq!(samples, last.int("samples")? + last.int("wait_samples")?);
    // What goes on has its name in each file.
    for part in &parts[..parts.len() - 1] {
        let named = "select count(*) from slice where name like 'alpha%'";
        assert!(part.number(named)? > 0, "{}", part.path().display());
    }
    // Each tells of its own time, with what was open: the times of files do not overlap by more than the threads' last events.
    // (The last one may begin when the threads have ended.)
    let spans: Result<Vec<(i64, i64)>> = parts[..parts.len() - 1]
        .iter()
        .map(|part| {
            let first =
                part.number("select min(ts) from slice where dur > 0 and name like 'alpha%'")?;
            Ok((first, part.number("select max(ts + dur) from slice")?))
        })
        .collect();
    for pair in spans?.windows(2) {
        assert!(pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1, "{pair:?}");
    }
    // The folder is one run of one process.
    let functions = answer("functions", std::slice::from_ref(&outcome.output))?;
    let threads = functions["threads"].as_array().context("threads")?;
    let of_threads: i64 = threads
        .iter()
        .filter_map(|one| one["samples"].as_i64())
        .sum();
    assert_eq!(of_threads, last.int("samples")?);
    assert_eq!(threads.len(), 4, "{threads:?}");
    // So are all files that are there, named one by one.
    let named = answer("functions", &outcome.files())?;
    assert_eq!(named["threads"], functions["threads"]);
    check(&outcome.output)?;
    let small = overview(&outcome, "hotspots")?;
    let small = assert_equal_sums(&parts, small, Trace::samples)?;
    let small = assert_equal_sums(&parts, small, Trace::wait_samples)?;
    // It has the whole run: what threads did most, in slices that no file cuts.
    let shown_ns = small.number("select sum(dur) from slice where name = 'worker'")?;
    let cpu_ns = last.int("samples")? * 2_000_000;
    assert!(shown_ns * 10 >= cpu_ns * 8, "{shown_ns} {cpu_ns}");
    assert!(small.number("select count(*) from slice")? < 2000);
    let span_ns = small.metadata()?.int("overview_span_ns")?;
    let first_and_last = |trace: &Trace| -> Result<(i64, i64)> {
        let first = trace.number("select min(ts) from perf_sample")?;
        Ok((first, trace.number("select max(ts) from perf_sample")?))
    };
    let of_parts: Result<Vec<(i64, i64)>> = parts.iter().map(first_and_last).collect();
    let of_parts = of_parts?;
    let (first, last) = first_and_last(&small)?;
    // Waits stand where they begin, and in the files where they end.
    assert!(of_parts.iter().all(|of_part| first <= of_part.0 + span_ns));
    assert!(of_parts.iter().all(|of_part| last >= of_part.1 - span_ns));
    // One file again.
    let merged = outcome.output.join("merged.pftrace");
    let mut command = Command::new(report()?);
    command
        .arg("merge")
        .arg(&outcome.output)
        .arg("-o")
        .arg(&merged);
    let said = command.output()?;
    ensure!(said.status.success(), "{said:?}");
    let merged = Trace::load(&merged, None)?;
    merged.assert_valid_prefix();
    let times = "select ifnull(sum(dur), 0) from slice where name like 'alpha%'";
    assert_eq!(sum(std::slice::from_ref(&merged), weights)?, samples);
    assert_eq!(merged.number(times)?, sum(&parts, times)?);
    assert_eq!(
        merged.number("select count(*) from slice where dur < 0")?,
        0
    );
    Ok(())
}

#[test]
fn no_operation_of_a_gpu_is_lost_or_doubled() -> TestResult {
    skip_if_missing!(STACK.missing());
    let machine = Machine::new(STACK)?.gpus(2);
    let program = hip_program(STACK, "hip_ops")?.args(["work", "3000", "20"]);
    let outcome = Run::new()
        .options(["-I", "rocm", "--split", "100kB"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let parts = parts(&outcome, "hip_ops")?;
    assert_each_opens(&parts)?;
    let count = sum(
        &parts,
        "select count(*) from slice where category = 'kernel'",
    )?;
    let ns = sum(
        &parts,
        "select ifnull(sum(dur), 0) from slice where category = 'kernel'",
    )?;
    let last = parts.last().context("a part")?.metadata()?;
    assert_eq!(count, last.int("gpu_kernels")?);
    assert_eq!(ns, last.int("gpu_kernel_ns")?);
    let kernels = answer("kernels", std::slice::from_ref(&outcome.output))?;
    let kernels = kernels["kernels"].as_array().context("kernels")?;
    let total = |key: &str| {
        kernels
            .iter()
            .filter_map(|one| one[key].as_i64())
            .sum::<i64>()
    };
    assert_eq!((total("count"), total("total_ns")), (count, ns));
    let timeline = answer("timeline", std::slice::from_ref(&outcome.output))?;
    let devices = timeline["runs"][0]["devices"]
        .as_array()
        .context("devices")?;
    assert_eq!(devices.len(), 2, "{devices:?}");
    let busy_ns: i64 = devices
        .iter()
        .filter_map(|one| one["busy_ns"].as_i64())
        .sum();
    let small = overview(&outcome, "hip_ops")?;
    let span_ns = small.metadata()?.int("overview_span_ns")?;
    let tracks = "select count(distinct track_id) from counter join track on track.id = track_id where track.name = 'busy'";
    assert_eq!(small.number(tracks)?, 2);
    // To a tenth of a percent of each span.
    let percents = "select cast(sum(value) * 10 as integer) from counter join track on track.id = track_id where track.name = 'busy'";
    let readings =
        "select count(*) from counter join track on track.id = track_id where track.name = 'busy'";
    let shown_ns = small.number(percents)? * span_ns / 1000;
    let most_off_ns = small.number(readings)? * span_ns / 1000;
    assert!(
        (shown_ns - busy_ns).abs() <= most_off_ns,
        "{shown_ns} {busy_ns} {most_off_ns}"
    );
    let calls =
        "select count(*) from slice join track on track.id = track_id where track.name = 'calls'";
    assert!(small.number(calls)? > 100);
    Ok(())
}

#[test]
fn a_limit_that_is_none_is_told() -> TestResult {
    let outcome = Run::new()
        .options(["--split", "5"])
        .command(workload("rate"))
        .run()?;
    outcome.expect_code(2);
    assert!(
        outcome.stderr.contains("500MB or 10min"),
        "{}",
        outcome.story()
    );
    Ok(())
}
