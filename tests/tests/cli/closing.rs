//! The table at the end of a run: its numbers are those of `rsys-report`, and it fits its terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{
    Judge, Outcome, Run, Scratch, Terminal, TestResult, answer, sampler, script, skip_if_missing,
    workload,
};
use serde_json::Value;

const MACHINE: &str = "
[[kernel]]
name = 'spin'
microseconds = 300
";

/// The lines of the table.
fn table(outcome: &Outcome) -> Vec<&str> {
    let lines = outcome.stderr.lines();
    lines
        .filter_map(|line| line.strip_prefix("rsys: "))
        .collect()
}

/// The number in front of `unit` in a line.
fn number(line: &str, unit: &str) -> Result<f64> {
    let (before, _) = line
        .split_once(unit)
        .with_context(|| format!("no {unit:?} in {line:?}"))?;
    let word = before.split_whitespace().next_back().context("no number")?;
    word.parse()
        .with_context(|| format!("{word:?} in {line:?}"))
}

fn ns(row: &Value, key: &str) -> Result<f64> {
    row[key]
        .as_f64()
        .with_context(|| format!("no {key} in {row}"))
}

#[test]
fn functions_are_those_of_the_report() -> TestResult {
    let program = workload("hotspots").build()?;
    let line = format!(
        "{0} --seconds 0.7 & {0} --seconds 0.7; wait",
        program.display()
    );
    let outcome = Run::new()
        .freq(1000)
        .options(["--summary", "full"])
        .command(script(&line))
        .run()?;
    outcome.expect_success();
    let lines = table(&outcome);
    ensure!(
        lines[0].contains(" traces in ") && lines[0].contains(": traces/"),
        "{lines:#?}"
    );
    let report = answer("functions", &outcome.files())?;
    let first = lines
        .iter()
        .find(|line| line.trim_start().starts_with("CPU ") && line.contains(" %  "))
        .with_context(|| format!("{lines:#?}"))?;
    let name = first.rsplit(" %  ").next().context("no name")?;
    let functions = report["functions"].as_array().context("functions")?;
    let of_name = functions.iter().filter(|row| row["function"] == name);
    let share: f64 = of_name
        .map(|row| ns(row, "self_share"))
        .sum::<Result<f64>>()?;
    ensure!(
        (number(first, " %")? - 100.0 * share).abs() <= 0.06,
        "{first}: {share}"
    );
    ensure!(
        lines
            .iter()
            .any(|line| line.contains("next: rsys-report view"))
    );
    Ok(())
}

#[test]
fn gpus_are_those_of_the_report() -> TestResult {
    let stack = Stack::Debian13;
    skip_if_missing!(
        [stack, Stack::Debian12]
            .into_iter()
            .find_map(Stack::missing)
    );
    let machine = Machine::new(stack)?.gpus(2).config(MACHINE)?;
    let program = hip_program(stack, "hip_causes")?.args(["10", "30"]);
    let outcome = Run::new()
        .options(["-I", "rocm", "-f", "1000", "--summary", "full"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let lines = table(&outcome);
    let story = || format!("{lines:#?}");
    let timeline = answer("timeline", &outcome.files())?;
    let gaps = answer("gaps", &outcome.files())?;
    let devices = |answer: &Value| answer["runs"][0]["devices"].as_array().cloned();
    let of_timeline = devices(&timeline).context("devices")?;
    ensure!(of_timeline.len() == 2, "{timeline:#}");
    for (device, reasons) in of_timeline.iter().zip(devices(&gaps).context("devices")?) {
        let (total, idle) = (ns(device, "total_ns")?, ns(device, "idle_ns")?);
        let start = format!("GPU {} ", device["device"]);
        let told = lines.iter().find(|line| line.starts_with(&start));
        let told = told.with_context(story)?;
        ensure!(
            (number(told, " %:")? - 100.0 * idle / total).abs() <= 0.51,
            "{told}: {device}"
        );
        // A copy that blocks, and a call that takes long, are told apart by the report alone.
        let time_of = |names: &[&str]| -> Result<f64> {
            let causes = reasons["causes"].as_array().context("causes")?.iter();
            let of_them = causes.filter(|cause| names.iter().any(|name| cause["cause"] == **name));
            of_them.map(|cause| ns(cause, "idle_ns")).sum()
        };
        let host = [
            "host_code",
            "host_wait",
            "host_off_processor",
            "host_runnable",
            "synchronisation",
        ];
        let submitted = ["launch", "event", "host_function", "other_gpu", "queued"];
        let late = number(told, " % not yet")?;
        let least = 100.0 * time_of(&host)? / total;
        let most = 100.0 * (idle - time_of(&submitted)?) / total;
        ensure!(
            (least - 1.01..=most + 1.01).contains(&late),
            "{told}: {least} to {most}: {reasons:#}"
        );
    }
    let waited = lines
        .iter()
        .find(|line| line.contains("before launches from"));
    ensure!(
        waited.with_context(story)?.contains("hip_causes.cpp"),
        "{}",
        story()
    );
    let kernels = answer("kernels", &outcome.files())?;
    let top = &kernels["kernels"][0];
    let name = top["name"].as_str().context("name")?;
    let is_kernel = |line: &&&str| line.trim_start().starts_with("GPU ") && line.contains(" x ");
    let kernel = lines.iter().find(is_kernel).with_context(story)?;
    let count = format!("{} x {name}", top["count"]);
    ensure!(kernel.contains(&count), "{kernel}: {count}");
    Ok(())
}

/// `gaps` names the code that ran while a GPU waited, the table the launch that was waited for: here they are in one function.
#[test]
fn where_a_function_computes_and_launches_table_and_gaps_name_it() -> TestResult {
    let stack = Stack::Debian13;
    skip_if_missing!(
        [stack, Stack::Debian12]
            .into_iter()
            .find_map(Stack::missing)
    );
    let machine = Machine::new(stack)?;
    let program = hip_program(stack, "hip_habits")?.args(["code-inline", "60", "5000"]);
    let outcome = Run::new()
        .options(["-I", "rocm", "-f", "1000", "--summary", "full"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let lines = table(&outcome);
    let told = lines
        .iter()
        .find_map(|line| line.split_once(" % before launches from "));
    let (share, place) = told.with_context(|| format!("{lines:#?}"))?;
    let is_there = |place: &str| place.starts_with("computes_and_launches() (hip_habits.cpp:");
    ensure!(is_there(place), "{lines:#?}");
    let gaps = answer("gaps", &outcome.files())?;
    let device = &gaps["runs"][0]["devices"][0];
    let causes = device["causes"].as_array().context("causes")?;
    let host = [
        "host_code",
        "host_wait",
        "host_off_processor",
        "host_runnable",
    ];
    let is_host = |cause: &Value| host.iter().any(|one| cause["cause"] == *one);
    // On a busy machine most of it may be time without a processor, which has no line, or synchronisations that wake late.
    let of_load = ["host_runnable", "synchronisation"];
    let has_line = |cause: &&Value| !of_load.iter().any(|one| cause["cause"] == *one);
    let first = causes.iter().find(has_line).context("no cause")?;
    ensure!(first["where"].as_str().is_some_and(is_there), "{first:#}");
    // What the host did until it launched; the table does not tell whether it had come back from the last synchronisation.
    let is_before = |cause: &&Value| is_host(cause) || cause["cause"] == "synchronisation";
    let before = causes.iter().filter(is_before);
    let before: f64 = before
        .map(|cause| ns(cause, "idle_ns"))
        .sum::<Result<f64>>()?;
    let timeline = answer("timeline", &outcome.files())?;
    let total = ns(&timeline["runs"][0]["devices"][0], "total_ns")?;
    let share: f64 = share.trim().parse()?;
    ensure!(
        (share - 100.0 * before / total).abs() <= 1.0,
        "{share} %: {before} of {total}: {gaps:#}"
    );
    Ok(())
}

#[test]
fn many_children_take_few_lines() -> TestResult {
    let outcome = Run::new()
        .options(["--summary", "full", "--min-samples", "1"])
        .command(script(
            "for n in $(seq 1000); do sh -c 'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done'; done",
        ))
        .run()?;
    outcome.expect_success();
    let lines = table(&outcome);
    ensure!(outcome.files().len() > 200, "{}", outcome.files().len());
    ensure!(lines.len() <= 30, "{} lines: {lines:#?}", lines.len());
    ensure!(
        lines.iter().any(|line| line.contains(" more")),
        "{lines:#?}"
    );
    Ok(())
}

#[test]
fn it_fits_narrow_terminals_and_can_be_left_out() -> TestResult {
    let program = workload("rate").build()?;
    let line = format!(
        "stty rows 24 columns 60; {} --seconds 0.3",
        program.display()
    );
    // The size of the terminal is looked at when the run ends.
    let run = Run::new()
        .options(["--summary", "full"])
        .command(script(&line));
    let (status, screen) = Terminal::start(&run)?.wait()?;
    ensure!(status.success(), "{screen}");
    let plain = screen.lines().map(str::trim_end);
    let plain: Vec<&str> = plain.filter(|line| line.starts_with("rsys: ")).collect();
    let cut = plain
        .iter()
        .filter(|line| !line.contains("rsys-report") && !line.contains(" in "));
    for line in cut {
        ensure!(line.chars().count() <= 60, "{line}");
    }
    ensure!(
        plain.iter().any(|line| line.ends_with("process")),
        "{screen}"
    );

    for (what, is_there) in [("lines", true), ("off", false)] {
        let outcome = Run::new()
            .options(["--summary", what])
            .command(workload("rate").args(["--seconds", "0.2"]))
            .run()?;
        let lines = table(&outcome);
        ensure!(
            lines.iter().any(|line| line.contains(" weighted), ")) == is_there,
            "{lines:#?}"
        );
        ensure!(
            !lines.iter().any(|line| line.contains("next: ")),
            "{lines:#?}"
        );
    }
    Ok(())
}

#[test]
fn a_run_with_merge_ends_with_one_trace_of_all() -> TestResult {
    let program = workload("rate").build()?;
    let line = format!(
        "{0} --seconds 0.4 & {0} --seconds 0.4; wait; exit 3",
        program.display()
    );
    let outcome = Run::new()
        .freq(500)
        .options(["--merge", "--summary", "full"])
        .command(script(&line))
        .run()?;
    outcome.expect_code(3);
    // The programs' own lines, and nothing else.
    let own = outcome.stdout.lines().all(|line| line.starts_with("cpu="));
    ensure!(own, "{}", outcome.stdout);
    let single = outcome.files();
    ensure!(single.len() >= 2, "{}", outcome.story());
    let folder = single[0].parent().context("a folder")?;
    let merged = folder.join("merged.pftrace");
    let told = format!("{} traces merged: {}", single.len(), merged.display());
    ensure!(
        table(&outcome).contains(&told.as_str()),
        "{told}: {}",
        outcome.stderr
    );
    let mut judge = Judge::load(&[&merged])?;
    let processes = judge
        .query("select count(distinct upid) as n from perf_sample join thread using (utid)")?;
    let samples = judge.query("select count(*) as n from perf_sample")?;
    let report = answer("functions", &single)?;
    let of_report = report["processes"].as_array().context("processes")?;
    let expected: f64 = of_report
        .iter()
        .map(|row| ns(row, "samples"))
        .sum::<Result<f64>>()?;
    ensure!(
        samples.single()?.as_float() == Some(expected),
        "{samples:?}: {expected}"
    );
    ensure!(
        processes.single()?.as_int() == i64::try_from(of_report.len()).ok(),
        "{processes:?}"
    );
    // What is asked of the folder is asked of the single traces.
    let of_folder = answer("functions", &[folder.to_owned()])?;
    ensure!(
        of_folder["processes"] == report["processes"],
        "{of_folder:#}"
    );
    Ok(())
}

#[test]
fn a_merged_trace_beside_a_named_one_has_its_name() -> TestResult {
    let scratch = Scratch::new("merge")?;
    let program = workload("rate").args(["--seconds", "0.2"]);
    for name in ["run-merged.pftrace", "run-1-merged.pftrace"] {
        let outcome = Run::new()
            .folder(scratch.path())
            .output("run.proto")
            .options(["--merge"])
            .command(program.clone())
            .run()?;
        outcome.expect_success();
        ensure!(
            scratch.path().join(name).is_file(),
            "{name}: {}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn why_there_is_no_merged_trace_is_said_in_a_line() -> TestResult {
    let program = || workload("rate").args(["--seconds", "0.2"]);
    let warnings = |outcome: &Outcome| -> Vec<String> {
        let lines = outcome.stderr.lines().filter(|line| line.contains("merge"));
        lines.map(str::to_owned).collect()
    };
    // A task of a job does not know when the others end.
    let outcome = Run::new()
        .options(["--merge"])
        .env("SLURM_PROCID", "0")
        .env("SLURM_NTASKS", "2")
        .command(program())
        .run()?;
    outcome.expect_success();
    let said = warnings(&outcome);
    ensure!(
        said.len() == 1 && said[0].contains("note: --merge leaves the tasks"),
        "{said:?}"
    );
    ensure!(outcome.files().len() == 1, "{}", outcome.story());

    // An installation without rsys-report.
    let scratch = Scratch::new("alone")?;
    let built = sampler()?;
    let agent = built.with_file_name("librsys_agent.so");
    for file in [&built, &agent] {
        fs::copy(
            file,
            scratch.path().join(file.file_name().context("a name")?),
        )?;
    }
    let alone = || {
        Run::new()
            .profiler(scratch.path().join("rsys-sample"))
            .options(["--merge"])
            .command(workload("ends").args(["exit", "4"]))
    };
    let outcome = alone().run()?;
    outcome.expect_code(4);
    let said = warnings(&outcome);
    ensure!(
        said.len() == 1 && said[0].contains("warning: the traces were not merged: "),
        "{said:?}"
    );
    ensure!(said[0].contains("rsys-report: No such file"), "{said:?}");
    ensure!(outcome.files().len() == 1, "{}", outcome.story());

    // One that fails.
    let other = scratch.path().join("rsys-report");
    fs::write(
        &other,
        "#!/bin/sh\necho noise; echo 'rsys-report: error: the disk is full' >&2; exit 1\n",
    )?;
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755))?;
    let outcome = alone().run()?;
    outcome.expect_code(4);
    ensure!(!outcome.stdout.contains("noise"), "{}", outcome.stdout);
    let said = warnings(&outcome);
    let expected = "rsys: warning: the traces were not merged: the disk is full";
    ensure!(said == [expected], "{said:?}");
    Ok(())
}
