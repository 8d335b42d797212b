//! Signals to the whole process group, to `rsys-sample` alone, and to both: the program gets each as often as without us.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use rsys_tests::{
    Run, Running, TestResult, alive, children_of, missing_tool, signal, skip_if_missing,
    wait_until, workload,
};

const LONG: Duration = Duration::from_secs(60);

fn heard(words: &[&str]) -> Run {
    Run::new().freq(100).command(workload("heard").args(words))
}

/// Sends a signal to a process group, as `kill -- -PGID` does.
fn signal_group(group: u32, number: i32) {
    // SAFETY: kill takes plain numbers and touches no memory of ours.
    let result = unsafe { libc::kill(-group.cast_signed(), number) };
    assert_eq!(result, 0, "no group {group}");
}

/// Has another process send it: `kill` of a shell.
fn another_signals(pid: u32, name: &str) -> TestResult {
    let line = format!("kill -{name} {pid}");
    let status = Command::new("/bin/sh").args(["-c", &line]).status()?;
    ensure!(status.success(), "{line}");
    Ok(())
}

/// The lines that the program has printed behind its first, once there are so many.
fn lines(run: &Running, count: usize) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let all_there = wait_until(LONG, || {
        let text = run.printed();
        found = text.lines().skip(1).map(str::to_owned).collect();
        found.len() >= count
    });
    ensure!(
        all_there,
        "only {} of {count} signals: {found:?}",
        found.len()
    );
    Ok(found)
}

/// 200 signals, to all, to us, by one sender and by two: what is passed on in vain, or twice, is in front of the next one's line.
#[test]
fn the_program_gets_each_signal_as_often_as_it_was_sent() -> TestResult {
    for words in [&[][..], &["handlers"]] {
        let run = heard(words).start()?;
        run.wait_for("ready")?;
        let sampler = run.pid();
        let mut expected: Vec<&str> = Vec::new();
        let mut send = |name: &'static str, what: &dyn Fn() -> TestResult| -> TestResult {
            what()?;
            expected.push(name);
            let found = lines(&run, expected.len())?;
            ensure!(found == expected, "{found:?} instead of {expected:?}");
            Ok(())
        };
        for _ in 0..40 {
            send("INT", &|| {
                signal_group(sampler, libc::SIGINT);
                Ok(())
            })?;
            send("USR1", &|| {
                signal(sampler, libc::SIGUSR1);
                Ok(())
            })?;
            // The same signal again, now to us alone, and by another: for a moment behind the witness's answer, which may be
            // late, the same from the same sender is taken for the one before.
            send("INT", &|| another_signals(sampler, "INT"))?;
            send("HUP", &|| another_signals(sampler, "HUP"))?;
            send("CONT", &|| {
                signal_group(sampler, libc::SIGCONT);
                Ok(())
            })?;
        }
        signal(sampler, libc::SIGTERM);
        let outcome = run.wait()?;
        outcome.expect_success();
        ensure!(
            outcome.stdout.ends_with("CONT\nTERM\n"),
            "{}",
            outcome.story()
        );
    }
    Ok(())
}

/// Two senders in one breath: one means all, the other us alone.
#[test]
fn two_senders_are_heard_both() -> TestResult {
    let run = heard(&[]).start()?;
    run.wait_for("ready")?;
    let sampler = run.pid();
    for round in 1..=20 {
        another_signals(sampler, "USR1")?;
        signal_group(sampler, libc::SIGUSR2);
        let mut found = lines(&run, 2 * round)?.split_off(2 * (round - 1));
        found.sort();
        ensure!(found == ["USR1", "USR2"], "round {round}: {found:?}");
    }
    signal(sampler, libc::SIGTERM);
    run.wait()?.expect_success();
    Ok(())
}

/// `timeout` signals its child, and then its whole group.
#[test]
fn a_program_under_timeout_is_interrupted_once() -> TestResult {
    skip_if_missing!(missing_tool("timeout"));
    for words in [
        &["timeout", "-s", "INT", "1000"][..],
        &["timeout", "--foreground", "-s", "INT", "1000"],
    ] {
        for _ in 0..4 {
            let run = heard(&["handlers"]).under(words).start()?;
            run.wait_for("ready")?;
            // What its timer sends it when the time is over; that may not be before the program has its handlers.
            run.signal(libc::SIGALRM);
            lines(&run, 1)?;
            let sampler = *children_of(run.pid()).first().context("no rsys-sample")?;
            // What is passed on comes in the order in which it arrived.
            signal(sampler, libc::SIGUSR1);
            let found = lines(&run, 2)?;
            // `timeout` lets stopped children go on, too.
            let found: Vec<&String> = found.iter().filter(|name| *name != "CONT").collect();
            signal(sampler, libc::SIGTERM);
            let outcome = run.wait()?;
            let interrupts = outcome.stdout.matches("INT\n").count();
            ensure!(
                interrupts == 1 && found[0] == "INT",
                "{words:?}: {}",
                outcome.story()
            );
        }
    }
    Ok(())
}

/// A program that has left the group gets what is sent to us: nobody else sends it that.
#[test]
fn a_program_that_left_the_group_gets_what_we_get() -> TestResult {
    for words in [&["setsid"], &["own-group"]] {
        let run = heard(words).start()?;
        run.wait_for("ready")?;
        signal_group(run.pid(), libc::SIGUSR1);
        lines(&run, 1)?;
        run.signal(libc::SIGUSR2);
        lines(&run, 2)?;
        run.signal(libc::SIGTERM);
        let outcome = run.wait()?;
        let printed: Vec<&str> = outcome.expect_success().stdout.lines().skip(1).collect();
        assert_eq!(printed, ["USR1", "USR2", "TERM"]);
    }
    Ok(())
}

/// The processes of a group, by `/proc`.
fn members(group: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
            fields.split_whitespace().nth(2) == Some(&group.to_string()) && alive(*pid)
        })
        .collect()
}

#[test]
fn the_witness_holds_nothing_and_ends_with_us() -> TestResult {
    for number in [libc::SIGTERM, libc::SIGKILL] {
        let run = heard(&[]).start()?;
        let target: u32 = run.wait_for("ready")?.parse()?;
        let sampler = run.pid();
        assert_eq!(run.target_pid()?, target, "the first child is the program");
        let others: Vec<u32> = members(sampler)
            .into_iter()
            .filter(|pid| ![sampler, target].contains(pid))
            .collect();
        let [witness] = others[..] else {
            panic!("a witness, not {others:?}")
        };
        assert!(children_of(target).is_empty());
        let folder = format!("/proc/{witness}");
        let closed = wait_until(LONG, || {
            let open: Vec<String> = fs::read_dir(format!("{folder}/fd"))
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| fs::read_link(entry.path()).ok())
                .map(|target| target.display().to_string())
                .collect();
            matches!(&open[..], [only] if only.starts_with("socket:"))
        });
        assert!(closed, "the witness keeps files open");
        assert_eq!(
            fs::read_link(format!("{folder}/cwd"))?
                .display()
                .to_string(),
            "/"
        );
        let line = fs::read_to_string(format!("{folder}/cmdline"))?;
        assert_eq!(line.trim_end_matches('\0'), "rsys-witness");
        run.signal(number);
        let outcome = run.wait()?;
        if number == libc::SIGKILL {
            outcome.expect_signal(number);
            assert!(alive(target));
            signal(target, libc::SIGKILL);
        }
        assert!(wait_until(LONG, || !alive(witness)), "the witness lives on");
        assert!(wait_until(LONG, || members(sampler).is_empty()));
    }
    Ok(())
}

/// A shell that waits for all its children sees one, and a pipe behind us ends with us.
#[test]
fn nobody_waits_for_the_witness() -> TestResult {
    let output = rsys_tests::target_dir().join("tmp/witness-pipe");
    let sampler = rsys_tests::sampler()?;
    let line = format!(
        "{} -o {} -- true | cat; wait",
        sampler.display(),
        output.display()
    );
    let mut child = Command::new("/bin/sh")
        .args(["-c", &line])
        .process_group(0)
        .spawn()?;
    let group = child.id();
    assert!(child.wait()?.success());
    assert!(members(group).is_empty());
    fs::remove_dir_all(&output).ok();
    Ok(())
}

/// Real-time signals, and those that hardly anybody sends, with what is sent along.
#[test]
fn every_signal_to_us_is_passed_on_with_its_value() -> TestResult {
    let run = heard(&["values"]).start()?;
    run.wait_for("ready")?;
    let real_time = [0, 3, libc::SIGRTMAX() - libc::SIGRTMIN()];
    let real_time = real_time.map(|number| libc::SIGRTMIN() + number);
    let standard = [libc::SIGUSR1, libc::SIGIO, libc::SIGPWR, libc::SIGPROF];
    let odd = [libc::SIGVTALRM, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];
    let mut expected = Vec::new();
    for number in real_time.into_iter().chain(standard).chain(odd) {
        run.signal(number);
        expected.push(format!("{number} -1"));
        lines(&run, expected.len())?;
        let sival_ptr = std::ptr::without_provenance_mut(77);
        let value = libc::sigval { sival_ptr };
        // SAFETY: numbers only.
        let sent = unsafe { libc::sigqueue(run.pid().cast_signed(), number, value) };
        ensure!(sent == 0, "{number}");
        expected.push(format!("{number} 77"));
        ensure!(lines(&run, expected.len())? == expected, "{number}");
    }
    run.signal(libc::SIGTERM);
    run.wait()?.expect_success();
    Ok(())
}
