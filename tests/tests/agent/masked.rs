//! Signals of ours that the program blocks: what it sees of them is what it would see without us.

use std::fs;
use std::time::Duration;

use rsys_tests::{Run, Scratch, TestResult, wait_until, workload};

/// The ways in which samples come.
const MODES: [&[&str]; 3] = [&[], &["-f", "1000"], &["--realtime"]];

/// What a mode of `masked.c` prints, with and without the profiler.
fn compare(arguments: &[&str], options: &[&str]) -> TestResult {
    let command = || {
        workload("masked")
            .flags(["-O1", "-pthread"])
            .args(arguments)
    };
    let bare = Run::bare().command(command()).run()?;
    bare.expect_success();
    for mode in MODES {
        let outcome = Run::new()
            .options(mode)
            .options(options)
            .command(command())
            .run()?;
        let stdout = &outcome.expect_success().stdout;
        let lines = bare.stdout.lines().zip(stdout.lines());
        let first = lines.clone().find(|(bare, here)| bare != here);
        assert_eq!(
            (first, stdout.len()),
            (None, bare.stdout.len()),
            "{arguments:?} {mode:?} {options:?}: without, with"
        );
    }
    Ok(())
}

#[test]
fn a_signal_that_is_sent_while_it_is_blocked_waits_to_be_taken() -> TestResult {
    compare(&["wait"], &[])
}

#[test]
fn a_thread_that_takes_all_signals_gets_those_that_others_block() -> TestResult {
    compare(&["threads"], &[])
}

#[test]
fn what_is_sent_while_a_thread_is_born_waits() -> TestResult {
    compare(&["born"], &[])
}

#[test]
fn masks_are_the_programs_in_handlers_and_behind_them_and_behind_jumps() -> TestResult {
    compare(&["masks"], &[])
}

#[test]
fn what_is_sent_while_a_sample_is_taken_comes_behind_it() -> TestResult {
    compare(&["storm"], &[])
}

#[test]
fn a_fault_while_its_signal_is_blocked_ends_the_program() -> TestResult {
    ends("fault", &[libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP])
}

#[test]
fn a_signal_that_a_wait_lets_through_ends_the_program() -> TestResult {
    let signals = [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, libc::SIGSTKFLT];
    ends("let_in", &signals)
}

#[test]
fn a_program_that_is_started_ignores_what_its_maker_ignores() -> TestResult {
    compare(&["starts"], &[])
}

/// The kernel delivers samples first, and goes back to the mask from before the wait.
#[test]
fn a_wait_ends_with_the_signal_that_it_waits_for() -> TestResult {
    for mode in MODES {
        let command = workload("answered").flags(["-O1"]).args(["4000"]);
        let outcome = Run::new().options(mode).command(command).run()?;
        let said = &outcome.expect_success().stdout;
        assert_eq!(said, "0 early, 16000 answers\n", "{mode:?}");
    }
    Ok(())
}

/// Hardly ever with a sample: a wait that ends as it should is not begun again for what waits besides.
#[test]
fn each_signal_ends_a_wait_of_its_own() -> TestResult {
    for mode in [&["-f", "10"][..], &["-f", "10", "--realtime"]] {
        let command = workload("answered").flags(["-O1"]).args(["queued"]);
        let outcome = Run::new().options(mode).command(command).run()?;
        assert_eq!(outcome.expect_success().stdout, "1\n2\n3\n", "{mode:?}");
    }
    Ok(())
}

/// A mode of `masked.c` says `now` and ends by the signal, with and without the profiler.
fn ends(mode_of_program: &str, signals: &[i32]) -> TestResult {
    for &signal in signals {
        let number = signal.to_string();
        let command = || {
            workload("masked")
                .flags(["-O1", "-pthread"])
                .args([mode_of_program, number.as_str()])
        };
        Run::bare().command(command()).run()?.expect_signal(signal);
        for mode in MODES {
            let outcome = Run::new().options(mode).command(command()).run()?;
            assert_eq!(outcome.stdout, "now\n", "{signal} {mode:?}");
            outcome.expect_signal(signal);
        }
    }
    Ok(())
}

#[test]
fn a_program_that_is_executed_has_the_mask_of_its_maker() -> TestResult {
    for how in ["fork", "vfork", "second"] {
        for follow in ["all", "none"] {
            compare(&["exec", how], &["--follow", follow])?;
        }
    }
    Ok(())
}

/// Nor is anything kept from it when the profiler is gone.
#[test]
fn a_program_that_outlives_the_profiler_hands_down_its_mask() -> TestResult {
    for mode in MODES {
        let scratch = Scratch::new("masked")?;
        let file = scratch.path().join("printed");
        let program = workload("masked").args(["killed".as_ref(), file.as_os_str()]);
        let run = Run::new().options(mode).command(program).run()?;
        run.expect_signal(libc::SIGKILL);
        let printed = || fs::read_to_string(&file).unwrap_or_default();
        wait_until(Duration::from_secs(60), || printed().contains("here"));
        let mask = "5 7 10 11 12 16";
        assert_eq!(
            printed(),
            format!("executed: {mask}\nhere: {mask}\n"),
            "{mode:?}"
        );
    }
    Ok(())
}
