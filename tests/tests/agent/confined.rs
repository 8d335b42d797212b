//! Programs that confine themselves with seccomp: what they do not call, nobody calls for them.

use std::collections::BTreeMap;

use rsys_tests::{Invocation, Outcome, Run, TestResult, run_plain, workload};

fn weight_inside(args: &[&str], clock: &str) -> anyhow::Result<f64> {
    let outcome = Run::new()
        .freq(1000)
        .options(["--clock", clock])
        .command(workload("confined").args(args))
        .run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        format!("ok {}\n", args[0]),
        "{args:?} by {clock}"
    );
    Ok(outcome.assert_counts()?.weight as f64)
}

#[test]
fn threads_come_and_go_under_a_filter_that_kills() -> TestResult {
    for clock in ["timer", "perf"] {
        for mode in ["prctl", "seccomp"] {
            // 200 ms before; then the threads that were there go on, and the first.
            let weight = weight_inside(&[mode], clock)?;
            assert!(weight > 500.0, "{mode} by {clock}: {weight}");
        }
    }
    Ok(())
}

#[test]
fn a_filter_that_forbids_the_return_from_handlers() -> TestResult {
    for clock in ["timer", "perf"] {
        for mode in ["prctl", "seccomp"] {
            // Nothing may be sampled once the filter holds.
            let weight = weight_inside(&[mode, "no-sigreturn"], clock)?;
            assert!((150.0..300.0).contains(&weight), "{mode}: {weight}");
        }
    }
    Ok(())
}

/// A clock whose period cannot be changed any more must not go wrong for ever.
#[test]
fn a_filter_that_refuses_leaves_the_rate() -> TestResult {
    let outcome = Run::new().freq(1000).command(workload("refused")).run()?;
    let weight = outcome.expect_success().assert_counts()?.weight as f64;
    let expected = 1000.0 * outcome.number("cpu")?;
    // The kernel's timer keeps to a grid of wall time: behind each stretch that another machine takes from this one, an expiry comes early.
    assert!(
        (0.98..1.1).contains(&(weight / expected)),
        "{weight} periods, expected {expected:.0}"
    );
    Ok(())
}

/// Whoever dies of a fault behind a filter dies of it with us, too: no system call is needed for that.
#[test]
fn ends_behind_a_filter_are_those_without_us() -> TestResult {
    for how in ["kill", "errno", "strict"] {
        for end in ["fault", "ignored", "blocked", "trap", "exit", "forbidden"] {
            let program = || workload("confined_ends").args([how, end]);
            let bare = run_plain(program())?;
            for clock in ["timer", "perf"] {
                let run = Run::new().freq(1000).options(["--clock", clock]);
                let outcome = run.command(program()).run()?;
                let words = [how, end, clock];
                assert_eq!(
                    outcome.status,
                    bare.status,
                    "{words:?}: {}",
                    outcome.story()
                );
                assert_eq!(outcome.stdout, "worked\n", "{words:?}");
            }
        }
    }
    Ok(())
}

/// How programs ended that forbade themselves a system call, by its number.
fn ends(outcome: &Outcome) -> BTreeMap<i64, String> {
    let lines = outcome.expect_success().stdout.lines();
    lines
        .filter_map(|line| {
            let (number, end) = line.split_once(' ')?;
            Some((number.parse().ok()?, end.to_owned()))
        })
        .collect()
}

fn forbidden(marks: u32, from: i64, to: i64, words: &[&str]) -> Invocation {
    let numbers = [i64::from(marks), from, to].map(|number| number.to_string());
    Invocation::from(workload("forbidden").args(numbers).args(words))
}

/// Each of the kernel's system calls, forbidden on pain of death: with marks, threads, a child and another program behind the filter.
#[test]
fn no_call_is_made_that_a_filter_would_punish() -> TestResult {
    const LAST: i64 = 470;
    let bare = ends(&run_plain(forbidden(20, 0, LAST, &[]))?);
    assert_eq!(bare.len() as i64, LAST + 1);
    let without_us = |number: i64| bare.get(&number).is_some_and(|end| end == "ok");
    assert!(without_us(libc::SYS_nanosleep) && !without_us(libc::SYS_read));
    for options in [
        &["-f", "1000", "-I", "roctx"][..],
        &[
            "-f",
            "100",
            "-C",
            "page-faults",
            "--off-cpu",
            "-I",
            "rocm,rccl",
        ],
    ] {
        let run = Run::new().options(options);
        let outcome = run.command(forbidden(20, 0, LAST, &[])).run()?;
        assert_eq!(ends(&outcome), bare, "{options:?}");
    }
    Ok(())
}

/// A thread whose ring of events is full waits.
#[test]
fn no_thread_waits_by_a_call_that_is_punished() -> TestResult {
    for number in [
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_sched_yield,
        libc::SYS_futex,
        libc::SYS_getppid,
    ] {
        for words in [&["prctl"], &["seccomp"]] {
            let run = Run::new().options(["-f", "100", "-I", "roctx"]);
            let program = forbidden(300_000, number, number, words);
            let outcome = run.command(program).run()?;
            assert_eq!(outcome.expect_success().stdout, format!("{number} ok\n"));
            // What may still sleep loses nothing.
            assert!(
                number == libc::SYS_futex || !outcome.stderr.contains("events dropped"),
                "{number}: {}",
                outcome.story()
            );
        }
    }
    Ok(())
}
