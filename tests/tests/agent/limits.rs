//! Resource limits: what can be sampled in spite of them is, and for the rest the reason is told.

use std::process::Command;

use rsys_tests::{Invocation, Run, TestResult, script, workload};

fn limited(limit: &str) -> anyhow::Result<rsys_tests::Outcome> {
    let program = workload("rate").build()?;
    let line = format!("{limit}; exec {} --seconds 0.3", program.display());
    Run::new().freq(1000).command(script(&line)).run()
}

#[test]
fn a_limit_on_files_makes_the_rings_smaller() -> TestResult {
    // In blocks of 512 bytes: 500 KiB and 100 KiB, where the rings are usually 2 MiB.
    for limit in ["ulimit -f 1000", "ulimit -f 200"] {
        let outcome = limited(limit)?;
        outcome.expect_success().assert_counts()?;
        let weight: u64 = outcome.summaries.iter().map(|one| one.weighted).sum();
        assert!(weight > 250, "{limit}: {weight}\n{}", outcome.story());
    }
    Ok(())
}

#[test]
fn a_limit_that_leaves_no_room_is_told() -> TestResult {
    let outcome = limited("ulimit -f 2")?;
    outcome.expect_success();
    // Who may raise limits is sampled all the same.
    let told =
        outcome.stderr.contains("(rate) is not sampled") && outcome.stderr.contains("ulimit -f");
    assert!(told || !outcome.summaries.is_empty(), "{}", outcome.story());
    assert!(
        !outcome.stderr.contains("too little"),
        "a wrong reason\n{}",
        outcome.story()
    );
    Ok(())
}

/// The kernel counts timers among the signals that may wait.
#[test]
fn a_limit_that_leaves_no_timer_is_told() -> TestResult {
    // Not every shell knows this limit.
    let line = "import os, resource, sys\nresource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))\nos.execv(sys.argv[1], sys.argv[1:])";
    let command = Invocation::new("python3")
        .args(["-c", line])
        .arg(workload("rate").build()?)
        .args(["--seconds", "0.3"]);
    let outcome = Run::new()
        .options(["--clock", "timer"])
        .command(command)
        .run()?;
    outcome.expect_success();
    assert!(
        outcome
            .stderr
            .contains("(rate): 2 threads could have no timer")
            && outcome.stderr.contains("ulimit -i"),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// Of few signals that may be pending the program has all, where perf can do without timers.
#[test]
fn few_signals_are_left_to_the_program() -> TestResult {
    let program = workload("few_signals").build()?;
    // In a namespace of users the signals of other programs do not count.
    let is_apart = Command::new("unshare").args(["-Ur", "true"]).status();
    let wrapper: &[&str] = match is_apart.is_ok_and(|status| status.success()) {
        true => &["unshare", "-Ur"],
        false => &["env"],
    };
    let behind = |first: Invocation| {
        let command = first.args(&wrapper[1..]).arg(&program);
        command.args(["3", "5"])
    };
    let command = || behind(Invocation::new(wrapper[0]));
    let bare = Run::bare().command(command()).run()?;
    if bare.expect_success().number("timers")? < 5.0 {
        eprintln!("skipped: other processes of this user have signals pending");
        return Ok(());
    }
    for options in [&[][..], &["-f", "1000"]] {
        let outcome = Run::new().options(options).command(command()).run()?;
        assert_eq!(
            outcome.expect_success().number("timers")?,
            5.0,
            "{options:?}"
        );
        let weight: u64 = outcome.summaries.iter().map(|one| one.weighted).sum();
        assert!(weight > 60, "{}", outcome.story());
        for told in ["few signals may be pending (ulimit -i)", "by perf alone"] {
            assert!(outcome.stderr.contains(told), "{}", outcome.story());
        }
    }
    // Where it cannot, or the user wants timers, that is told.
    let filter = workload("deny_perf").build()?;
    let filtered = behind(Invocation::new(filter).args(["errno", wrapper[0]]));
    let told = "took a timer each";
    let outcome = Run::new().command(filtered).run()?;
    assert!(
        outcome.expect_success().stderr.contains(told),
        "{}",
        outcome.story()
    );
    let outcome = Run::new()
        .options(["--clock", "timer"])
        .command(command())
        .run()?;
    assert!(
        outcome.expect_success().stderr.contains(told),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// A kernel before 5.3, or a container's filter, has no descriptors of processes: their ends are seen all the same, before anything is given up.
#[test]
fn ends_are_seen_without_descriptors_of_processes() -> TestResult {
    let filter = workload("deny_perf").build()?.display().to_string();
    let rate = workload("rate").build()?.display().to_string();
    let line = format!("for i in 1 2 3; do {rate} --seconds 0.2 --threads 1; done; exit 3");
    let outcome = Run::new()
        .under([filter.as_str(), "pidfd"])
        .command(script(&line))
        .run()?;
    outcome.expect_code(3);
    let rates = outcome.summaries.iter().filter(|one| one.name == "rate");
    let remarks: Vec<&str> = rates.map(|one| one.remarks.as_str()).collect();
    assert_eq!(remarks, ["", "", ""], "{}", outcome.story());
    Ok(())
}

/// A program runs where the agent would take the memory that it needs: as the command, and started from there.
#[test]
fn a_program_with_little_memory_runs_without_the_agent() -> TestResult {
    let told = "too little memory for librsys_agent.so";
    let rate = workload("rate").build()?.display().to_string();
    for limit in ["-d 6000", "-d 12000", "-v 12000", "-v 24000"] {
        let line = format!("ulimit {limit}; exec {rate} --seconds 0.1 --threads 0");
        let outcome = Run::new().command(script(&line)).run()?;
        assert!(
            outcome.expect_success().stderr.contains(told),
            "{limit}: {}",
            outcome.story()
        );
        let no_agent = ["cannot be preloaded", "shared libraries"];
        assert!(
            !no_agent.iter().any(|text| outcome.stderr.contains(text)),
            "{}",
            outcome.story()
        );
    }
    let outcome = Run::new()
        .under(["/bin/sh", "-c", "ulimit -S -d 6000; exec \"$@\"", "sh"])
        .command(script("exit 5"))
        .run()?;
    assert!(
        outcome.expect_code(5).stderr.contains(told),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// The command runs where there are too few descriptors to profile it, and has the limit of its starter.
#[test]
fn a_program_with_few_descriptors_runs() -> TestResult {
    for (limit, is_told) in [(8, true), (12, true), (20, false)] {
        let line = format!("ulimit -n {limit}; exec \"$@\"");
        let outcome = Run::new()
            .under(["/bin/sh", "-c", line.as_str(), "sh"])
            .command(script("ulimit -n; exit 5"))
            .run()?;
        assert_eq!(outcome.expect_code(5).stdout, format!("{limit}\n"));
        let told = outcome.stderr.contains("too few open files (ulimit -n)");
        assert_eq!(told, is_told, "{}", outcome.story());
    }
    Ok(())
}

#[test]
fn a_trace_that_is_removed_is_not_promised() -> TestResult {
    let line = "
import glob, shutil, sys
while not glob.glob(sys.argv[1] + '/*/*-[0-9]*.proto'):
    sum(range(100000))
shutil.rmtree(sys.argv[1])
";
    let command = Invocation::new("python3").args(["-c", line, "traces"]);
    let outcome = Run::new()
        .default_output()
        .options(["-o", "traces"])
        .command(command)
        .run()?;
    outcome.expect_success();
    assert!(outcome.summaries.is_empty(), "{}", outcome.story());
    assert!(
        outcome.stderr.contains("was removed while it was written"),
        "{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_removed_trace_of_short_processes_is_not_promised() -> TestResult {
    let forks = workload("forks").build()?;
    let line = format!(
        "{} --mode fork --count 5 --ms 60; while ! rm traces/*/*-short.proto 2>/dev/null; do :; done",
        forks.display()
    );
    let outcome = Run::new()
        .default_output()
        .freq(500)
        .options(["-o", "traces", "--min-samples", "100000"])
        .command(script(&line))
        .run()?;
    outcome.expect_success();
    assert_eq!(outcome.short_processes(), None, "{}", outcome.story());
    assert!(
        outcome
            .stderr
            .contains("-short.proto: the trace was removed while it was written"),
        "{}",
        outcome.story()
    );
    assert!(
        !outcome.stderr.contains("short processes;"),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// The agent needs no more stack than a small program leaves.
#[test]
fn a_tiny_stack_is_enough() -> TestResult {
    // Where the stack begins, and how much of it variables take, differs: bare programs fail now and then from 20 KiB down.
    let line = "ulimit -s 28; /bin/true";
    let bare = Run::bare().command(script(line)).run()?;
    if bare.status.code() != Some(0) {
        println!("skipped: /bin/true itself needs more stack than 28 KiB here");
        return Ok(());
    }
    // A command begins at once, a child of a shell late.
    for options in [["--min-samples", "1"], ["--min-samples", "3"]] {
        let outcome = Run::new().options(options).command(script(line)).run()?;
        outcome.expect_success();
    }
    Ok(())
}
