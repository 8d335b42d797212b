//! Runs in which nothing is sampled: the command has its trace all the same, and the closing lines name the true cause.

use rsys_tests::{Invocation, Outcome, Run, TestResult, script, workload};

/// The line that says why there is nothing, and everything else for the failure message.
fn reason(outcome: &Outcome) -> String {
    let found = outcome.stderr.lines().find_map(|line| {
        let line = line.strip_prefix("rsys: ")?;
        line.strip_prefix("no samples: ")
            .or_else(|| line.strip_prefix("no trace: "))
    });
    found
        .unwrap_or_else(|| panic!("no reason is named\n{}", outcome.story()))
        .to_owned()
}

/// The command's own trace, which must be whole, and without samples.
fn empty_trace(outcome: &Outcome) -> TestResult {
    let trace = outcome.trace()?;
    trace.assert_clean();
    assert!(trace.samples()?.count() == 0, "{}", outcome.story());
    outcome.assert_counts()?;
    Ok(())
}

#[test]
fn a_command_that_only_waits_has_a_trace_and_is_told_of_realtime() -> TestResult {
    let outcome = Run::new().freq(10).command("sleep 0.2").run()?;
    empty_trace(outcome.expect_success())?;
    let text = reason(&outcome);
    assert!(
        text.contains("CPU time, too little") && text.contains("--realtime"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_command_that_is_killed_before_its_first_sample_is_told_so() -> TestResult {
    for (signal, name) in [(libc::SIGKILL, "SIGKILL"), (libc::SIGSEGV, "SIGSEGV")] {
        let line = format!("kill -{signal} $$");
        let outcome = Run::new().freq(10).command(script(&line)).run()?;
        outcome.expect_signal(signal);
        empty_trace(&outcome)?;
        let text = reason(&outcome);
        assert!(text.contains(&format!("killed by {name} before")), "{text}");
    }
    Ok(())
}

#[test]
fn an_event_that_hardly_happened_is_named() -> TestResult {
    let program = workload("rate").args(["--seconds", "0.5"]);
    let outcome = Run::new()
        .options(["--overflow", "page-faults:1000000"])
        .command(program)
        .run()?;
    empty_trace(outcome.expect_success())?;
    let text = reason(&outcome);
    assert!(
        text.contains("did page-faults happen 1000000 times")
            && text.contains("--overflow page-faults:10000"),
        "{text}"
    );
    Ok(())
}

#[test]
fn threads_that_are_left_out_are_named() -> TestResult {
    let program = workload("rate").args(["--seconds", "0.2"]);
    let outcome = Run::new()
        .freq(1000)
        .options(["--tids", "7"])
        .command(program)
        .run()?;
    empty_trace(outcome.expect_success())?;
    let text = reason(&outcome);
    assert!(text.contains("of threads that --tids leaves out"), "{text}");
    Ok(())
}

#[test]
fn work_in_a_program_without_our_environment_is_no_lack_of_work() -> TestResult {
    let program = workload("rate").build()?;
    let command =
        Invocation::new("env").args(["-i", &program.display().to_string(), "--seconds", "1"]);
    let outcome = Run::new().freq(100).command(command).run()?;
    assert!(outcome.expect_success().number("cpu")? > 0.9);
    let text = reason(&outcome);
    assert!(
        !text.contains("too little") && text.contains("empt") && text.contains("environment"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_waiting_shell_does_not_hide_what_its_children_did() -> TestResult {
    let program = workload("rate").build()?;
    let line = format!("'{}' --seconds 0.5; true", program.display());
    let outcome = Run::new().freq(10).command(script(&line)).run()?;
    outcome.expect_success().assert_counts()?;
    assert!(
        !outcome.stderr.contains("no samples"),
        "{}",
        outcome.story()
    );
    assert!(outcome.trace_of("rate")?.samples()?.count() > 1);
    Ok(())
}

/// File names below the output folder, sorted.
fn names(outcome: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![outcome.output.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn without_process_ids_the_command_has_the_plain_names() -> TestResult {
    // Its children write first, and it ends last, with and without a sample of its own.
    for own_work in ["true", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"] {
        let rate = workload("rate").build()?;
        let line = format!(
            "for n in 1 2 3; do '{}' --seconds 0.1; done; {own_work}",
            rate.display()
        );
        let outcome = Run::new()
            .freq(1000)
            .env("RSYS_USE_PID", "OFF")
            .env("RSYS_TIME_OUTPUT", "OFF")
            .env("RSYS_JSON_OUTPUT", "OFF")
            .options(["-P"])
            .command(script(&line))
            .run()?;
        outcome.expect_success();
        let command = outcome
            .summaries
            .iter()
            .find(|one| one.name != "rate")
            .unwrap_or_else(|| panic!("no line of the command\n{}", outcome.story()));
        let file = command.path.file_name().unwrap_or_default();
        assert_eq!(file, "perfetto-trace.proto", "{}", outcome.story());
        let found = names(&outcome);
        for number in ["-1", "-2", "-3"] {
            for name in ["perfetto-trace", "profile"] {
                let begin = format!("{name}{number}.");
                assert!(
                    found.iter().any(|file| file.starts_with(&begin)),
                    "{found:?}"
                );
            }
        }
        for summary in &outcome.summaries {
            // The summary of a process has the number of its trace.
            let trace = summary.path.display().to_string();
            let profile = trace
                .replace("perfetto-trace", "profile")
                .replace(".proto", ".txt");
            let text = std::fs::read_to_string(&profile).unwrap_or_default();
            assert!(
                summary.samples == 0 || text.contains(&format!("pid {}", summary.pid)),
                "{profile}: {text}\n{}",
                outcome.story()
            );
        }
    }
    Ok(())
}
