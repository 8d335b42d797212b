//! Whole process trees: each process with something to say has its own trace.

use std::collections::HashSet;
use std::process::Command;
use std::slice;
use std::time::Duration;

use anyhow::{Context, ensure};
use rsys_tests::{
    Invocation, Judge, Outcome, Run, TestResult, Trace, answer, is_root, key, missing_tool, python,
    report, script, skip_if_missing, workload,
};
use serde_json::Value;

const MODES: &[&str] = &["fork", "double", "vfork", "spawn"];

#[test]
fn each_way_to_make_a_process_is_followed() -> TestResult {
    for mode in MODES {
        let program = workload("forks").args(["--mode", mode, "--count", "4", "--ms", "60"]);
        let outcome = Run::new().freq(1000).command(program).run()?;
        assert_eq!(outcome.expect_success().number("done")?, 4.0);
        outcome.assert_counts()?;
        // Whoever only makes another process may have a sample, too, for its last part of a period.
        let busy = outcome.summaries.iter().filter(|one| one.samples > 10);
        let least = if *mode == "double" { 4 } else { 5 };
        assert!(
            busy.count() >= least && outcome.files().len() <= 9,
            "{mode}: parent and four children\n{}",
            outcome.story()
        );
        let samples = outcome.all_clean()?;
        let shares = samples.shares(|_| true)?;
        assert!(
            shares.total_share("burn") > 0.8,
            "{mode}: {:?}",
            shares.top(10)
        );
        assert!(
            samples.rooted_share() > 0.99,
            "{mode}:\n{}",
            samples.unrooted_examples()
        );
    }
    Ok(())
}

#[test]
fn a_process_says_who_it_is() -> TestResult {
    let program = workload("forks").args(["--mode", "fork", "--count", "1", "--ms", "60"]);
    let outcome = Run::new().freq(1000).command(program).run()?;
    let traces = outcome.expect_success().traces()?;
    assert_eq!(traces.len(), 2, "{}", outcome.story());
    let mut family = Vec::new();
    for trace in &traces {
        trace.assert_clean();
        let metadata = trace.metadata()?;
        let pid = metadata.int(key::PID)?;
        family.push((pid, metadata.int(key::PARENT_PID)?));
        assert!(
            metadata.text(key::COMMAND_LINE)?.contains("--count 1"),
            "{metadata:?}"
        );
        for name in [key::START_TIME, key::BOOT_ID, key::HOST, key::VERSION] {
            assert!(!metadata.text(name)?.is_empty(), "{name} is empty");
        }
        assert_eq!(
            trace.number("select count(distinct pid) from process where pid != 0")?,
            1
        );
        assert_eq!(
            trace.number(&format!("select count(*) from process where pid = {pid}"))?,
            1
        );
    }
    let pids: HashSet<i64> = family.iter().map(|(pid, _)| *pid).collect();
    assert!(
        family.iter().any(|(_, parent)| pids.contains(parent)),
        "none is the other's child: {family:?}"
    );
    Ok(())
}

#[test]
fn a_process_without_data_leaves_no_file() -> TestResult {
    let program = workload("forks").args(["--mode", "idle", "--count", "20", "--ms", "40"]);
    let outcome = Run::new().freq(200).command(program).run()?;
    // One in some twenty of the children uses enough CPU time for a sample, by chance.
    let files = outcome.expect_success().files().len();
    assert!((1..=8).contains(&files), "{}", outcome.story());
    assert_eq!(outcome.summaries.len(), files, "{}", outcome.story());
    assert!(
        outcome.summaries.iter().all(|one| one.samples > 0),
        "{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn short_processes_share_one_trace() -> TestResult {
    let program = workload("forks").args(["--mode", "fork", "--count", "5", "--ms", "60"]);
    let outcome = Run::new()
        .freq(500)
        .options(["--min-samples", "100000"])
        .command(program)
        .run()?;
    outcome.expect_success().assert_counts()?;
    // The command itself has its trace however little it did.
    assert_eq!(outcome.files().len(), 1, "{}", outcome.story());
    let own = outcome.trace()?;
    own.assert_clean();
    let path = outcome
        .short_processes()
        .context("no trace of the others")?;
    let shared = Trace::load(&path, None)?;
    shared.assert_valid_prefix();
    assert_eq!(
        shared.number("select count(distinct pid) from process where pid != 0")?,
        5
    );
    let count = "select count(*) from perf_sample";
    let (own, shared) = (own.number(count)?, shared.number(count)?);
    assert!(shared > 5, "{}", outcome.story());
    let told = format!(
        "{}: {shared} samples of 5 short processes; ",
        path.display()
    );
    assert!(outcome.stderr.contains(&told), "{}", outcome.story());
    // What is asked of the run counts them too, and each is whole.
    let functions = answer("functions", slice::from_ref(&outcome.output))?;
    let processes = functions["processes"].as_array().context("no processes")?;
    let samples: i64 = processes
        .iter()
        .filter_map(|one| one["samples"].as_i64())
        .sum();
    assert_eq!(
        (processes.len() as i64, samples),
        (6, own + shared),
        "{functions:#}"
    );
    let check = Command::new(report()?)
        .args(["check", "--json"])
        .arg(&outcome.output)
        .output()?;
    assert!(check.status.success(), "{check:?}");
    let check: Value = serde_json::from_slice(&check.stdout)?;
    assert_eq!(check["traces"][1]["samples"], shared, "{check:#}");
    assert_eq!(check["traces"][1]["end"], "5 short processes", "{check:#}");
    Ok(())
}

#[test]
fn follow_says_which_processes() -> TestResult {
    // (option, mode, traces): `exec` follows new programs only, `none` not even those.
    let cases = [
        ("all", "fork", 4),
        ("exec", "fork", 1),
        ("none", "fork", 1),
        ("all", "spawn", 4),
        ("exec", "spawn", 4),
        ("none", "spawn", 1),
    ];
    for (follow, mode, expected) in cases {
        let program = workload("forks").args(["--mode", mode, "--count", "3", "--ms", "60"]);
        let outcome = Run::new()
            .freq(500)
            .options(["--follow", follow])
            .command(program)
            .run()?;
        outcome.expect_success().assert_counts()?;
        assert_eq!(
            outcome.files().len(),
            expected,
            "--follow {follow}, {mode}\n{}",
            outcome.story()
        );
    }
    Ok(())
}

/// Go's runtime dies where the auxiliary vector is not behind the environment.
#[test]
fn the_auxiliary_vector_is_where_programs_look_for_it() -> TestResult {
    for follow in ["all", "none"] {
        let outcome = Run::new()
            .options(["--follow", follow])
            .command(workload("auxiliary").args(["again"]))
            .run()?;
        let lines: Vec<&str> = outcome.expect_success().stdout.lines().collect();
        let whole = lines.iter().all(|line| line.starts_with("1 1 "));
        assert!(lines.len() == 2 && whole, "{}", outcome.story());
        if follow == "none" {
            assert_eq!(lines, ["1 1 0 0"; 2], "{}", outcome.story());
        }
    }
    Ok(())
}

#[test]
fn shells_and_pipelines() -> TestResult {
    let pipeline = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/pipeline.sh");
    let bare = Run::bare().command(Invocation::new(&pipeline)).run()?;
    let outcome = Run::new()
        .freq(500)
        .command(Invocation::new(&pipeline))
        .run()?;
    outcome.expect_success().assert_counts()?;
    assert_eq!(outcome.stdout, bare.expect_success().stdout);
    let names: HashSet<&str> = outcome
        .summaries
        .iter()
        .map(|summary| summary.name.as_str())
        .collect();
    assert!(
        names.contains("sort") && names.iter().any(|name| name.contains("awk")),
        "{names:?}"
    );
    outcome.all_clean()?;
    Ok(())
}

#[test]
fn a_shell_line_passes_on_its_exit_code() -> TestResult {
    let rate = workload("rate").build()?;
    let line = format!(
        "{} --seconds 0.2 && {} --seconds 0.2; exit 7",
        rate.display(),
        rate.display()
    );
    let outcome = Run::new().freq(500).command(script(&line)).run()?;
    outcome.expect_code(7).assert_counts()?;
    assert_eq!(
        outcome
            .summaries
            .iter()
            .filter(|summary| summary.name == "rate")
            .count(),
        2,
        "{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn python_starts_other_programs() -> TestResult {
    let bare = Run::bare().command(python("subproc.py")).run()?;
    let outcome = Run::new().freq(500).command(python("subproc.py")).run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        bare.expect_success().stdout
    );
    outcome.assert_counts()?;
    assert!(
        outcome.summaries.len() >= 2,
        "the child is not traced\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn multiprocessing_in_all_its_ways() -> TestResult {
    for way in ["fork", "spawn", "forkserver"] {
        let bare = Run::bare().command(python("mp_pool.py").arg(way)).run()?;
        let outcome = Run::new()
            .freq(500)
            .command(python("mp_pool.py").arg(way))
            .run()?;
        assert_eq!(
            outcome.expect_success().stdout,
            bare.expect_success().stdout,
            "{way}"
        );
        outcome.assert_counts()?;
        // Two workers of the pool, which SIGTERM ends, and the single one burned 150 ms and more each.
        let busy = outcome
            .summaries
            .iter()
            .filter(|summary| summary.weighted >= 60)
            .count();
        assert!(
            busy >= 3,
            "{way}: {busy} busy processes\n{}",
            outcome.story()
        );
        outcome.all_clean()?;
    }
    Ok(())
}

fn weight_of_rate(outcome: &Outcome) -> u64 {
    let mine = outcome.summaries.iter().filter(|one| one.name == "rate");
    mine.map(|one| one.weighted).sum()
}

#[test]
fn stragglers_are_waited_for_as_linger_says() -> TestResult {
    let line = format!(
        "{} --seconds 1.5 & exit 0",
        workload("rate").build()?.display()
    );
    for (linger, complete) in [("30", true), ("0", false)] {
        let outcome = Run::new()
            .freq(500)
            .options(["--linger", linger])
            .command(script(&line))
            .timeout(Duration::from_secs(60))
            .run()?;
        outcome.expect_success();
        let weighted = weight_of_rate(&outcome);
        assert_eq!(
            weighted > 700,
            complete,
            "--linger {linger}: {weighted} weighted samples\n{}",
            outcome.story()
        );
        for file in outcome.files() {
            Trace::load(&file, None)?.assert_valid_prefix();
        }
    }
    Ok(())
}

#[test]
fn a_straggler_that_has_done_nothing_yet_is_waited_for() -> TestResult {
    // While it sleeps, nothing of it is recorded. It must not be taken for one that never will be.
    let line = format!(
        "sh -c 'sleep 1; exec {} --seconds 0.4' & exit 0",
        workload("rate").build()?.display()
    );
    // It is waited for as long as it lives, on a busy machine, too: no run that works comes to the end of this.
    let outcome = Run::new()
        .freq(500)
        .options(["--linger", "390"])
        .command(script(&line))
        .run()?;
    outcome.expect_success();
    let weighted = weight_of_rate(&outcome);
    assert!(
        weighted > 160,
        "{weighted} weighted samples\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn ranks_name_the_files() -> TestResult {
    let cases = [
        ("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("PMI_RANK", "4", "MPI_LOCALRANKID"),
        ("SLURM_PROCID", "5", "SLURM_LOCALID"),
        ("RANK", "6", "LOCAL_RANK"),
    ];
    for (variable, rank, local) in cases {
        let program = workload("rate").args(["--seconds", "0.1"]);
        let outcome = Run::new()
            .freq(1000)
            .env(variable, rank)
            .env(local, "1")
            // `RANK` alone could mean anything: it counts beside this one.
            .env("WORLD_SIZE", "8")
            .command(program)
            .run()?;
        let trace = outcome.expect_success().trace()?;
        assert!(
            trace
                .path()
                .ends_with(format!("perfetto-trace-{rank}.proto")),
            "{variable}: {}",
            trace.path().display()
        );
        let metadata = trace.metadata()?;
        assert_eq!(metadata.int(key::RANK)?.to_string(), rank);
        assert_eq!(metadata.int("local_rank")?, 1, "{local}");
    }
    Ok(())
}

#[test]
fn two_processes_of_one_rank_do_not_overwrite_each_other() -> TestResult {
    let program = workload("forks").args(["--mode", "spawn", "--count", "3", "--ms", "60"]);
    let outcome = Run::new()
        .freq(1000)
        .env("PMI_RANK", "2")
        .command(program)
        .run()?;
    outcome.expect_success().assert_counts()?;
    assert_eq!(outcome.files().len(), 4, "{}", outcome.story());
    Ok(())
}

#[test]
fn traces_of_one_run_can_be_put_together() -> TestResult {
    // Ids are namespaced by process: in a file made of all files nothing is mixed up or lost.
    let program = workload("forks").args(["--mode", "fork", "--count", "5", "--ms", "60"]);
    let outcome = Run::new().freq(1000).command(program).run()?;
    let apart = outcome.expect_success().all_clean()?;
    let mut together = Judge::load(&outcome.files())?;
    let mut count = |what: &str| {
        together
            .query(&format!("select count(*) from {what}"))?
            .single()?
            .as_int()
            .context("no number")
    };
    assert_eq!(count("perf_sample")?, apart.count() as i64);
    assert_eq!(
        count("slice join thread_track on track_id = thread_track.id")?,
        outcome.assert_counts()?.begins as i64
    );
    assert_eq!(count("process where pid > 0")?, 6);
    assert_eq!(count("slice where dur < 0")?, 0);
    Ok(())
}

/// The program's clock is a day ahead of the profiler's.
#[test]
fn times_of_another_time_namespace_are_ours() -> TestResult {
    let not_root = (!is_root()).then(|| "only root can have a time namespace".to_owned());
    skip_if_missing!(not_root.or_else(|| missing_tool("unshare")));
    let line = "unshare --time --boottime 90000 --fork \"$@\" 2> /dev/null || \"$@\"";
    let command = Invocation::new("sh")
        .args(["-c", line, "sh"])
        .program(workload("rate").args(["--seconds", "0.3"]).into());
    let outcome = Run::new().command(command).run()?;
    outcome.expect_success();
    let rows = outcome
        .trace_of("rate")?
        .query("select end_ts - start_ts as length from trace_bounds")?;
    let length_ns = rows.iter().next().context("no bounds")?.int("length")?;
    ensure!(length_ns < 3_600_000_000_000, "{length_ns} ns");
    Ok(())
}
