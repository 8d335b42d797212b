//! What options make of a run: windows of time, chosen threads, summaries, presets, and answers without a run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rsys_tests::{Outcome, Run, Scratch, TestResult, Workload, script, workload};
use serde_json::Value;

/// Waits and records in turn, a tenth of a second each.
const PERIODS: [&str; 2] = ["--periods", "0.1:0.1:0"];
const CYCLE_NS: i64 = 200_000_000;
const WINDOW_NS: i64 = 100_000_000;

/// Whether stretches of time all lie in windows of a length, one in each cycle: nobody knows where in the cycle they begin.
fn lie_in_windows(stretches: &[(i64, i64)]) -> TestResult {
    let mut begins: Vec<i64> = stretches
        .iter()
        .map(|(begin, _)| begin.rem_euclid(CYCLE_NS))
        .collect();
    begins.sort_unstable();
    // A window may begin at any of them.
    let fits = |first: i64| {
        stretches.iter().all(|(begin, end)| {
            let place = (begin - first).rem_euclid(CYCLE_NS);
            place + (end - begin) <= WINDOW_NS
        })
    };
    ensure!(
        begins.into_iter().any(fits),
        "not in windows of 0.1 s: {:?}",
        &stretches[..stretches.len().min(50)]
    );
    Ok(())
}

#[test]
fn nothing_is_kept_outside_of_periods() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .options(PERIODS)
        .command(workload("rate").args(["--seconds", "2"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let samples = trace.samples()?;
    let times: Vec<_> = samples
        .iter()
        .map(|sample| (sample.time_ns, sample.time_ns))
        .collect();
    ensure!(times.len() > 10, "{}", outcome.story());
    lie_in_windows(&times)?;
    let slices: Vec<_> = trace
        .timeline()?
        .iter()
        .map(|slice| (slice.start_ns, slice.end_ns()))
        .collect();
    ensure!(!slices.is_empty());
    lie_in_windows(&slices)?;
    ensure!(
        outcome.stderr.contains("outside of the windows of time"),
        "{}",
        outcome.story()
    );
    // The agent itself is silent there, but for what it samples before it is told, which takes the sampler a processor.
    let metadata = trace.metadata()?;
    let outside = metadata.int("outside_window")?;
    let not_taken = metadata.int("outside_window_not_taken")?;
    ensure!(
        not_taken * 10 > outside && not_taken <= outside,
        "{not_taken} of {outside} samples were not taken\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn windows_of_cpu_time_begin_with_work() -> TestResult {
    let program = workload("rate").build()?;
    let line = format!("sleep 0.7; exec {} --seconds 1", program.display());
    let kept = |clock: &str| -> anyhow::Result<f64> {
        let outcome = Run::new()
            .freq(1000)
            .options(["--wait", "0.5", "--trace-clock-id", clock])
            .command(script(&line))
            .run()?;
        outcome.expect_success().assert_counts()?;
        let weights = outcome.summaries.iter().map(|one| one.weighted);
        Ok(weights.sum::<u64>() as f64)
    };
    // On the wall, the wait is over before the work begins.
    let (wall, cpu) = (kept("realtime")?, kept("cputime")?);
    ensure!(
        wall > 700.0 && (wall - cpu - 500.0).abs() < 60.0,
        "{wall} {cpu}"
    );
    Ok(())
}

#[test]
fn a_wait_is_cut_at_the_edges_of_periods() -> TestResult {
    let outcome = Run::new()
        .options(PERIODS)
        .options(["--realtime", "100"])
        .command(script("sleep 1; sleep 0.5"))
        .run()?;
    outcome.expect_success().assert_counts()?;
    let mut seen = 0;
    for trace in outcome.traces()? {
        trace.assert_clean();
        let slices: Vec<_> = trace
            .wait_timeline()?
            .iter()
            .map(|slice| (slice.start_ns, slice.end_ns()))
            .collect();
        lie_in_windows_or_none(&slices)?;
        seen += slices.len();
    }
    ensure!(seen > 0, "{}", outcome.story());
    Ok(())
}

fn lie_in_windows_or_none(stretches: &[(i64, i64)]) -> TestResult {
    if stretches.is_empty() {
        return Ok(());
    }
    lie_in_windows(stretches)
}

fn four_workers() -> Workload {
    workload("rate").args(["--threads", "4", "--seconds", "0.2"])
}

#[test]
fn only_the_chosen_threads_are_kept() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .options(["--tids", "2-3"])
        .command(four_workers())
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    ensure!(trace.samples()?.threads() == 2, "{}", outcome.story());
    ensure!(
        outcome.stderr.contains("of other threads left out"),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// The file whose name begins and ends so, beside the traces.
fn beside(outcome: &Outcome, begin: &str, end: &str) -> anyhow::Result<PathBuf> {
    let trace = outcome.files();
    let folder = trace
        .first()
        .and_then(|trace| trace.parent())
        .context("no trace")?;
    let entries = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begin) && name.ends_with(end)
    };
    entries
        .into_iter()
        .find(fits)
        .with_context(|| format!("no {begin}*{end}\n{}", outcome.story()))
}

#[test]
fn summaries_agree_with_the_trace() -> TestResult {
    let outcome = Run::new()
        .freq(500)
        .options(["-P", "--profile-format", "text", "json", "console"])
        .command(four_workers())
        .run()?;
    let summary = outcome
        .expect_success()
        .summaries
        .first()
        .context("no summary")?;
    ensure!(outcome.stdout.starts_with("cpu="), "{}", outcome.story());
    let text = fs::read_to_string(beside(&outcome, "profile-", ".txt")?)?;
    for part in [
        "burn",
        "-- Tree of calls",
        "-- Thread 1 worker",
        "-- Thread 4 worker",
    ] {
        ensure!(text.contains(part), "{part}\n{text}");
    }
    ensure!(outcome.stderr.contains("burn"), "{}", outcome.story());

    let json = fs::read_to_string(beside(&outcome, "profile-", ".json")?)?;
    let json: Value = serde_json::from_str(&json)?;
    let cpu = &json["cpu"];
    let number = |value: &Value| value.as_u64().context("no number");
    let sum = |list: &Value, key: &str| -> anyhow::Result<u64> {
        let list = list.as_array().context("no list")?;
        list.iter().map(|one| number(&one[key])).sum()
    };
    let whole_ns = number(&cpu["time_ns"])?;
    assert_eq!(number(&cpu["samples"])?, summary.samples);
    assert_eq!(whole_ns, summary.weighted * 2_000_000);
    assert_eq!(sum(&cpu["functions"], "self_ns")?, whole_ns);
    assert_eq!(sum(&cpu["threads"], "time_ns")?, whole_ns);
    assert_eq!(sum(&cpu["tree"], "self_ns")?, whole_ns);
    let functions = cpu["functions"].as_array().context("no functions")?;
    let burn = functions
        .iter()
        .find(|one| one["name"] == "burn")
        .context("no burn")?;
    ensure!(number(&burn["total_ns"])? * 2 > whole_ns, "{burn}");

    let flat = Run::new()
        .options(["-F", "--profile-format", "json"])
        .command(four_workers())
        .run()?;
    let json = fs::read_to_string(beside(flat.expect_success(), "profile-", ".json")?)?;
    ensure!(serde_json::from_str::<Value>(&json)?["cpu"]["tree"].is_null());
    ensure!(beside(&flat, "profile-", ".txt").is_err());
    Ok(())
}

/// With the original's files too: they say TRACE and PROFILE.
#[test]
fn without_a_trace_the_summary_is_all_that_is_left() -> TestResult {
    let scratch = Scratch::new("untraced")?;
    let config = scratch.path().join("old.cfg");
    fs::write(
        &config,
        "ROCPROFSYS_TRACE = OFF\nROCPROFSYS_PROFILE = ON\nROCPROFSYS_TEXT_OUTPUT = OFF\n",
    )?;
    let outcome = Run::new()
        .freq(500)
        .options(["-c".as_ref(), config.as_os_str()])
        .command(four_workers())
        .run()?;
    let output = outcome.expect_success().output.clone();
    let found = rsys_tests::run_plain(script(&format!("find {} -type f", output.display())))?;
    let files: Vec<&str> = found.stdout.lines().collect();
    ensure!(
        files.len() == 1 && files[0].ends_with(".json"),
        "{files:?}\n{}",
        outcome.story()
    );
    let json: Value = serde_json::from_str(&fs::read_to_string(files[0])?)?;
    let summary = outcome.summaries.first().context("no summary")?;
    ensure!(summary.samples > 100, "{}", outcome.story());
    assert_eq!(json["cpu"]["samples"].as_u64(), Some(summary.samples));
    ensure!(!outcome.stderr.contains("warning"), "{}", outcome.story());
    Ok(())
}

#[test]
fn questions_run_nothing() -> TestResult {
    let scratch = Scratch::new("questions")?;
    let mark = scratch.path().join("ran");
    let answer = |options: &[&str]| {
        let program = script(&format!("touch {}", mark.display()));
        Run::new()
            .options(options)
            .folder(scratch.path())
            .command(program)
            .run()
    };
    for (options, part) in [
        (
            &["--dry-run", "-f", "77"][..],
            "SAMPLING_FREQ = 77 (option -f)",
        ),
        (&["--dry-run", "--preset", "hpc"], "option --preset hpc"),
        (&["--dry-run"], "perfetto-trace-<rank or pid>.proto"),
        (&["--list-presets"], "trace-gpu"),
        (&["--explain", "ml"], "SAMPLING_FREQ"),
        (&["--list-keys"], "%rank%"),
        (&["--completions", "bash"], "rsys-sample"),
        (&["--completions", "zsh"], "--periods"),
        (&["--completions", "fish"], "periods"),
        (&["--man"], ".TH rsys"),
        (&["--help=windows"], "--periods"),
        (&["-f", "77", "--export-config=my.cfg"], "wrote my.cfg"),
        (&["-f", "77", "--export-config", "my.toml"], "wrote my.toml"),
    ] {
        let outcome = answer(options)?;
        ensure!(
            outcome.expect_success().stdout.contains(part),
            "{options:?}\n{}",
            outcome.story()
        );
    }
    ensure!(!Path::new(&mark).exists(), "the command ran");
    let again = answer(&["--export-config=my.cfg"])?;
    again.expect_code(2);
    ensure!(
        again.stderr.contains("is not overwritten"),
        "{}",
        again.story()
    );
    for file in ["my.cfg", "my.toml"] {
        let outcome = answer(&["-c", file, "--dry-run"])?;
        let said = &outcome.expect_success().stdout;
        ensure!(
            said.contains("SAMPLING_FREQ = 77") && said.contains(file),
            "{said}"
        );
    }
    let wrong = answer(&["--preset", "detaild"])?;
    wrong.expect_code(2);
    ensure!(
        wrong.stderr.contains("did you mean 'detailed'?"),
        "{}",
        wrong.story()
    );
    Ok(())
}

#[test]
fn a_command_line_of_the_original_runs_as_it_is() -> TestResult {
    let outcome = Run::new()
        .options("-c -f 1000 -I roctracer rocprofiler roctx rocm-smi -E mutex-locks -T true -P --trace-buffer-size 1024000 --trace-fill-policy discard --cputime 1000 0 0-9 --process-wait 0.1 -H -D -i --hsa-interrupt 0 -C perf::PAGE-FAULTS".split(' '))
        .command(script("echo $HSA_ENABLE_INTERRUPT"))
        .run()?;
    assert_eq!(outcome.expect_success().stdout, "0\n");
    ensure!(!outcome.stderr.contains("error:"), "{}", outcome.story());
    Ok(())
}
