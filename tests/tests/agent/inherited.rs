//! What passes from one program to the next by exec and by fork: nothing of ours, and all that the program would have without us.

use std::time::Duration;

use rsys_tests::{Outcome, Run, TestResult, script, workload};

const SIGALRM: i32 = 14;
const SIGPROF: i32 = 27;

/// The ways of `blocked.c` to block signals.
const WAYS: [&str; 10] = [
    "sigprocmask",
    "sigblock",
    "sigsetmask",
    "sighold",
    "sigset",
    "raw",
    "handler",
    "siglongjmp",
    "swapcontext",
    "setcontext",
];

/// Dispositions, masks, pending signals, timers, priorities, limits, descriptors, keyrings, `prctl`, capabilities: all that docs/compatibility.md
/// says of them.
#[test]
fn a_program_has_from_its_starter_what_it_has_without_us() -> TestResult {
    let program = workload("inherited").build()?.display().to_string();
    for mode in ["few", "all"] {
        for relay in [&[][..], &[program.as_str(), "relay"][..]] {
            let command = [relay, &[program.as_str(), "print"]].concat();
            let bare = [&[program.as_str(), "set", mode], &command[..]].concat();
            let bare = Run::bare().command(bare.join(" ").as_str()).run()?;
            bare.expect_code(3);
            for options in [
                &[][..],
                &["-f", "1000"],
                &["--follow", "none"],
                &["--realtime"],
            ] {
                let outcome = Run::new()
                    .under([program.as_str(), "set", mode])
                    .options(options)
                    .command(command.join(" ").as_str())
                    .run()?;
                assert_eq!(
                    outcome.expect_code(3).stdout,
                    bare.stdout,
                    "{mode} {relay:?} {options:?}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_starter_that_ignores_its_children_learns_how_the_program_ended() -> TestResult {
    for (line, code) in [("exit 3", 3), ("exit 0", 0)] {
        let outcome = Run::new()
            .under(["/bin/bash", "-c", "trap '' CHLD; exec \"$@\"", "bash"])
            .command(script(line))
            .run()?;
        outcome.expect_code(code);
    }
    Ok(())
}

/// A time limit that was set before: of real time, and of the program's own.
#[test]
fn time_limits_of_the_starter_hold() -> TestResult {
    let sleep = script("exec sleep 300");
    let outcome = Run::new()
        .under(["perl", "-e", "alarm 1; exec @ARGV"])
        .timeout(Duration::from_secs(100))
        .command(sleep)
        .run()?;
    outcome.expect_signal(SIGALRM);
    let outcome = Run::new()
        .under([
            "perl",
            "-e",
            "use Time::HiRes qw(setitimer ITIMER_PROF); setitimer(ITIMER_PROF, 0.5); exec @ARGV",
        ])
        .timeout(Duration::from_secs(100))
        .command(workload("rate").args(["--seconds", "90"]))
        .run()?;
    outcome.expect_signal(SIGPROF);
    Ok(())
}

#[test]
fn children_that_the_command_cannot_wait_for_are_told() -> TestResult {
    let told = "They stay children of rsys-sample";
    let quiet = Run::new().command(script("exit 5")).run()?;
    assert!(
        !quiet.expect_code(5).stderr.contains(told),
        "{}",
        quiet.story()
    );
    let outcome = Run::new()
        .under(["/bin/sh", "-c", "sleep 0.2 & exec \"$@\"", "sh"])
        .command(script("exit 5"))
        .run()?;
    assert!(
        outcome.expect_code(5).stderr.contains(told),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// However they are blocked while samples come, none is left to end a wait that lets all signals through.
#[test]
fn no_wait_ends_early_where_signals_were_blocked() -> TestResult {
    for how in WAYS {
        let bare = Run::bare()
            .command(workload("blocked").args(["waits", how]))
            .run()?;
        assert_eq!(bare.expect_success().stdout, "interrupted=0\n", "{how}");
        for options in [
            &[][..],
            &["-f", "1000"],
            &["-f", "1000", "--clock", "timer"],
        ] {
            let outcome = Run::new()
                .options(options)
                .command(workload("blocked").args(["waits", how]))
                .run()?;
            let stdout = &outcome.expect_success().stdout;
            assert_eq!(stdout, "interrupted=0\n", "{how} {options:?}");
            assert!(outcome.summaries.iter().any(|summary| summary.samples > 10));
        }
    }
    Ok(())
}

/// None is left to the next program either, which would die of it.
#[test]
fn no_sample_is_left_to_a_program_that_is_executed_with_blocked_signals() -> TestResult {
    let program = workload("blocked").build()?.display().to_string();
    let fixed = workload("blocked").flags(["-O1", "-static"]).build()?;
    let fixed = fixed.display().to_string();
    for how in WAYS {
        for by in ["call", "raw", "spawn"] {
            for next in [&program, &fixed] {
                for options in [&["-f", "1000"][..], &["-f", "3000", "--follow", "none"]] {
                    let command = [program.as_str(), "exec", by, how, next];
                    let outcome = Run::new()
                        .options(options)
                        .command(command.join(" ").as_str())
                        .run()?;
                    let stdout = &outcome.expect_code(4).stdout;
                    assert_eq!(stdout, "alive\n", "{how} {by} {next} {options:?}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_forked_past_the_c_library_is_sampled_or_told() -> TestResult {
    let run = |how| -> anyhow::Result<Outcome> {
        let outcome = Run::new()
            .command(workload("forked_past").args([how]))
            .run()?;
        outcome.expect_code(3);
        Ok(outcome)
    };
    for how in ["fork", "clone", "clone3", "cleared", "copy"] {
        let outcome = run(how)?;
        let mut shares = Vec::new();
        for trace in outcome.traces()? {
            trace.assert_clean();
            let functions = trace.shares()?;
            shares.push((
                functions.total_share("of_the_child"),
                functions.total_share("of_the_parent"),
            ));
        }
        shares.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(
            matches!(shares[..], [(child, parent), (childs, parents)]
                if child == 0.0 && parent > 0.8 && childs > 0.8 && parents == 0.0),
            "{how}: {shares:?}"
        );
    }
    for how in ["shared", "vfork_like", "vfork", "assembly"] {
        let outcome = run(how)?;
        let told = "made a process past the C library's fork";
        assert_eq!(
            outcome.stderr.matches(told).count(),
            1,
            "{}",
            outcome.story()
        );
        assert!(
            outcome.trace()?.shares()?.total_share("of_the_parent") > 0.8,
            "{how}"
        );
    }
    Ok(())
}

/// The profiler's variables do not make a command line too long that is not.
#[test]
fn there_is_room_for_all_arguments() -> TestResult {
    let program = workload("arguments").build()?.display().to_string();
    let most = Run::bare()
        .command(workload("arguments").args(["most"]))
        .run()?;
    let most = most.number("most")? as u64;
    let told = "found no room beside them";
    for how in ["call", "raw", "spawn"] {
        let run = |bytes: u64| {
            let bytes = bytes.to_string();
            let command = workload("arguments").args(["with", how, bytes.as_str()]);
            Run::new().command(command).run()
        };
        for bytes in [most, most - 200] {
            let outcome = run(bytes)?;
            assert_eq!(outcome.expect_success().stdout, "7\n", "{how}");
            assert_eq!(
                outcome.stderr.matches(told).count(),
                1,
                "{}",
                outcome.story()
            );
        }
        // What is too long anyway is nothing to be told of.
        let outcome = run(most + 50)?;
        assert_eq!(
            outcome.expect_success().stdout,
            "Argument list too long\n",
            "{how}"
        );
        assert!(!outcome.stderr.contains(told), "{}", outcome.story());
    }
    // The command itself.
    let outcome = Run::new()
        .under([program.as_str(), "under"])
        .command(workload("arguments").args(["7"]))
        .run()?;
    outcome.expect_code(7);
    assert!(outcome.stderr.contains(told), "{}", outcome.story());
    Ok(())
}
