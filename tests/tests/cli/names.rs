//! What files are called, and what the terminal shows.

use rsys_tests::{Outcome, Run, Summary, Terminal, TestResult, script, workload};

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

/// Whether this is of a shell's child before it became `rate`: on a busy machine it may have samples enough for a trace.
fn is_of_a_child(outcome: &Outcome, summary: &Summary) -> bool {
    summary.name != "rate" && outcome.has_another_trace(summary)
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
            .find(|one| one.name != "rate" && !is_of_a_child(&outcome, one))
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

#[test]
fn a_trace_that_is_named_as_a_file_is_that_file() -> TestResult {
    let rate = workload("rate").build()?;
    let line = format!(
        "'{0}' --seconds 0.1; '{0}' --seconds 0.1; true",
        rate.display()
    );
    let run = Run::new()
        .freq(1000)
        .default_output()
        .options(["-o", "deep/run.pftrace"])
        .command(script(&line));
    let outcome = run.run()?;
    outcome.expect_success();
    let children = outcome
        .summaries
        .iter()
        .filter(|one| is_of_a_child(&outcome, one));
    let numbered = 2 + children.count();
    let mut expected: Vec<String> = (1..=numbered)
        .map(|number| format!("run-{number}.pftrace"))
        .collect();
    expected.push("run.pftrace".to_owned());
    let mut found = names(&outcome);
    // What the program printed stands in the same folder.
    found.retain(|name| name.starts_with("run"));
    assert_eq!(found, expected, "{}", outcome.story());
    assert!(outcome.output.join("deep/run.pftrace").is_file());
    let own = outcome
        .summaries
        .iter()
        .find(|one| one.path.ends_with("run.pftrace"));
    assert!(
        own.is_some_and(|own| own.name != "rate"),
        "{}",
        outcome.story()
    );
    for file in &expected {
        rsys_tests::Trace::load(&outcome.output.join("deep").join(file), None)?;
    }
    // A rank has its number in the name, for several would share it.
    let outcome = Run::new()
        .freq(1000)
        .default_output()
        .options(["-o", "run.proto"])
        .env("PMI_RANK", "3")
        .command(workload("rate").args(["--seconds", "0.1"]))
        .run()?;
    let found = names(outcome.expect_success());
    assert!(found.contains(&"run-3.proto".to_owned()), "{found:?}");
    Ok(())
}

#[test]
fn warnings_are_coloured_on_a_terminal_only() -> TestResult {
    let shown = |variable: Option<(&str, &str)>, options: &[&str]| -> anyhow::Result<String> {
        let mut run = Run::new()
            .options(["-I", "rocprofiler"])
            .options(options)
            .env("TERM", "xterm")
            .command("true");
        if let Some((name, value)) = variable {
            run = run.env(name, value);
        }
        let (status, screen) = Terminal::start(&run)?.wait()?;
        assert!(
            status.success() && screen.contains("'rocprofiler' counts nothing"),
            "{screen}"
        );
        Ok(screen)
    };
    let coloured = shown(None, &[])?;
    assert!(
        coloured.contains("\u{1b}[") && coloured.contains("warning:"),
        "{coloured:?}"
    );
    for (variable, options) in [
        (Some(("NO_COLOR", "1")), &[][..]),
        (Some(("CLICOLOR", "0")), &[]),
        (Some(("TERM", "dumb")), &[]),
        (Some(("RSYS_MONOCHROME", "on")), &[]),
        (None, &["--monochrome"]),
    ] {
        let plain = shown(variable, options)?;
        assert!(
            !plain.contains("\u{1b}["),
            "{variable:?} {options:?}: {plain:?}"
        );
    }
    // Neither does a pipe or a file get any, whatever the variables say.
    let outcome = Run::new()
        .options(["-I", "rocprofiler"])
        .env("CLICOLOR_FORCE", "1")
        .command("true")
        .run()?;
    assert!(!outcome.stderr.contains('\u{1b}'), "{:?}", outcome.stderr);
    Ok(())
}

#[test]
fn verbose_speaks_to_users_and_very_verbose_to_developers() -> TestResult {
    let said = |option: &str| -> anyhow::Result<String> {
        let program = workload("rate").args(["--seconds", "0.3"]);
        let outcome = Run::new()
            .freq(500)
            .options([option])
            .command(program)
            .run()?;
        Ok(outcome.expect_success().stderr.clone())
    };
    let (user, developer) = (said("-v")?, said("-vv")?);
    for part in [
        "SAMPLING_FREQ = 500",
        "traces go to ",
        "% complete",
        "the command ended",
    ] {
        assert!(
            user.contains(part) && developer.contains(part),
            "{part}\n{user}"
        );
    }
    for part in [
        "librsys_agent.so",
        "announced themselves",
        "addresses found",
    ] {
        assert!(
            !user.contains(part) && developer.contains(part),
            "{part}\n{user}\n{developer}"
        );
    }
    Ok(())
}
