//! stress-ng's stressors, bare and profiled: whatever they do to the kernel, they come to the same verdict.
//!
//! The stressors of a group run beside one another. Those that found something are here, and those of the kernel's interfaces that we use
//! ourselves. All others are in `every_stressor`, which takes half an hour and is run by hand (CONTRIBUTING.md).

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rsys_tests::{Invocation, Outcome, Run, TestResult, missing_tool, skip_if_missing};

/// Sets of options that differ in what they do inside of the program.
const MODES: [&[&str]; 3] = [
    &[],
    &["-f", "1000", "--realtime", "--off-cpu"],
    &[
        "-f",
        "500",
        "--unwinder",
        "framehop",
        "-I",
        "roctx",
        "-C",
        "PAGE_FAULTS",
    ],
];

// Not here, for they come to other verdicts from run to run, bare too: `zombie` counts the machine's processes. `mmapfork` takes half a
// minute, and `vforkmany` as many processes as there can be. On busy machines `pthread` and `mutex` die by SIGSEGV now and then, bare too (four
// of 160 runs): their threads read what the function that started them has left.

/// What these do reaches beyond the run: processors and memory are switched off, disks fill up, the clock of the machine is set.
const HARMFUL: &[&str] = &[
    "cpu-online",
    "fallocate",
    "forkheavy",
    "memhotplug",
    "oom-pipe",
    "quota",
    "resources",
    "rtc",
    "smi",
    "softlockup",
    "swap",
    "sysfs",
    "watchdog",
];

/// Exit codes of stress-ng that tell of no failure (stress-ng(1), "EXIT STATUS"): all went well; a stressor found no resources, for which it
/// is enough that it came to nothing before the time was over; a stressor is not for this machine; the time was over while one counted its
/// rounds (a count that is wrong is a complaint besides).
const NO_FAILURE: [i32; 4] = [0, 3, 4, 7];

/// How a run of stress-ng ended.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    /// Its exit code, if it tells of a failure; `None` for a signal.
    failure: Option<Option<i32>>,
    /// Failures and errors, each with the stressor that it is about.
    complaints: BTreeSet<String>,
}

fn verdict(outcome: &Outcome) -> Verdict {
    // For example: stress-ng: fail:  [4711] sigsegv instance 0 corrupted bogo-ops counter, 1 vs 0
    let complaint = |line: &str| {
        let (kind, about) = line.strip_prefix("stress-ng: ")?.split_once(':')?;
        let stressor = about.split_once("] ")?.1.split([' ', ':']).next()?;
        ["fail", "error"]
            .contains(&kind)
            .then(|| format!("{kind}: {stressor}"))
    };
    let code = outcome.status.code();
    let is_failure = code.is_none_or(|code| !NO_FAILURE.contains(&code));
    Verdict {
        failure: is_failure.then_some(code),
        complaints: outcome.stderr.lines().filter_map(complaint).collect(),
    }
}

/// All that stress-ng itself said.
fn said(outcome: &Outcome) -> String {
    let lines = outcome.stderr.lines();
    let own: Vec<&str> = lines
        .filter(|line| line.starts_with("stress-ng: "))
        .collect();
    own.join("\n")
}

/// The stressors that this version of stress-ng has.
fn known() -> Result<Vec<String>> {
    let output = Command::new("stress-ng").arg("--stressors").output()?;
    let words = String::from_utf8(output.stdout).context("names that are no text")?;
    Ok(words.split_whitespace().map(str::to_owned).collect())
}

fn stress(names: &[&str], seconds: u32) -> Invocation {
    let mut words = Invocation::new("stress-ng");
    for name in names {
        words = words.args([format!("--{name}"), "1".to_owned()]);
    }
    words
        .args(["--verify", "--temp-path", "."])
        // Numbers of threads and processes that leave the machine to others.
        .args([
            "--vm-bytes",
            "32m",
            "--mmap-bytes",
            "32m",
            "--clone-max",
            "64",
        ])
        .args(["--pthread-max", "64"])
        .args(["--timeout".to_owned(), seconds.to_string()])
}

/// A run of stressors beside one another.
fn end(run: Run, names: &[&str], seconds: u32) -> Result<Outcome> {
    let limit = Duration::from_secs(200);
    run.command(stress(names, seconds)).timeout(limit).run()
}

/// Runs stressors beside one another, bare and in each mode. Says what differs.
fn differences(names: &[&str], seconds: u32) -> Result<Vec<String>> {
    let bare = verdict(&end(Run::bare(), names, seconds)?);
    let mut differences = Vec::new();
    for options in MODES {
        let profiled = end(Run::new().options(options), names, seconds)?;
        let found = verdict(&profiled);
        if found != bare && always_differs(options, &suspects(names, &found, &bare), seconds)? {
            differences.push(format!(
                "{options:?}: {found:?}, bare {bare:?}\n{}",
                said(&profiled)
            ));
        }
    }
    Ok(differences)
}

/// The stressors that only one of two verdicts is about, or all, where nothing says which they are.
fn suspects<'n>(names: &[&'n str], one: &Verdict, other: &Verdict) -> Vec<&'n str> {
    let told = one.complaints.symmetric_difference(&other.complaints);
    let about: Vec<&str> = told
        .filter_map(|complaint| Some(complaint.split_once(": ")?.1))
        .collect();
    // Some call themselves otherwise than their options.
    match !about.is_empty() && about.iter().all(|name| names.contains(name)) {
        true => names
            .iter()
            .copied()
            .filter(|name| about.contains(name))
            .collect(),
        false => names.to_vec(),
    }
}

/// Whether the verdicts about these stressors, in three runs with no others beside them, are all such as bare runs do not come to. Beside twenty others some
/// find no processor in time, bare too.
fn always_differs(options: &[&str], names: &[&str], seconds: u32) -> Result<bool> {
    let (mut bare, mut profiled) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        bare.push(verdict(&end(Run::bare(), names, seconds)?));
        let again = end(Run::new().options(options), names, seconds)?;
        profiled.push(verdict(&again));
        println!(
            "{options:?} {names:?}, again: {profiled:?}, bare {bare:?}\n{}",
            said(&again)
        );
        if profiled.iter().any(|found| bare.contains(found)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn group(names: &[&str]) -> TestResult {
    skip_if_missing!(missing_tool("stress-ng"));
    let known = known()?;
    let names: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| known.iter().any(|other| other == name))
        .collect();
    let differences = differences(&names, 2)?;
    ensure!(differences.is_empty(), "{}", differences.join("\n\n"));
    Ok(())
}

#[test]
fn stressors_of_signals_and_timers() -> TestResult {
    group(&[
        "alarm",
        "bad-altstack",
        "clock",
        "fault",
        "itimer",
        "kill",
        "nanosleep",
        "pidfd",
        "sigabrt",
        "sigchld",
        "sigfd",
        "sigfpe",
        "signal",
        "signest",
        "sigpending",
        "sigpipe",
        "sigq",
        "sigrt",
        "sigsegv",
        "sigsuspend",
        "sigtrap",
        "timer",
        "timerfd",
    ])
}

#[test]
fn stressors_of_memory() -> TestResult {
    group(&[
        "env",
        "madvise",
        "mmap",
        "mmapaddr",
        "mmapfixed",
        "mprotect",
        "mremap",
        "munmap",
        "pkey",
        "remap",
        "stack",
        "stackmmap",
        "userfaultfd",
        "vm",
        "vm-addr",
        "vm-rw",
        "vm-segv",
    ])
}

#[test]
fn stressors_of_processes_and_threads() -> TestResult {
    group(&[
        "affinity",
        "clone",
        "daemon",
        "exec",
        "exit-group",
        "fork",
        "futex",
        "membarrier",
        "rseq",
        "schedpolicy",
        "sem",
        "session",
        "spawn",
        "switch",
        "tlb-shootdown",
        "vfork",
        "wait",
        "yield",
    ])
}

#[test]
fn stressors_of_system_calls() -> TestResult {
    group(&[
        "chroot",
        "close",
        "dup",
        "dynlib",
        "enosys",
        "get",
        "landlock",
        "personality",
        "prctl",
        "priv-instr",
        "procfs",
        "ptrace",
        "rlimit",
        "seccomp",
        "set",
        "sysbadaddr",
        "sysinfo",
        "tsc",
        "unshare",
        "usersyscall",
        "vdso",
        "x86syscall",
    ])
}

#[test]
fn stressors_of_pipes_and_events() -> TestResult {
    group(&[
        "aio",
        "epoll",
        "eventfd",
        "fifo",
        "io-uring",
        "msg",
        "mq",
        "pipe",
        "pipeherd",
        "poll",
        "ring-pipe",
        "sendfile",
        "sock",
        "sockfd",
        "sockpair",
        "splice",
        "tee",
        "vm-splice",
    ])
}

#[test]
#[ignore = "takes half an hour"]
fn every_stressor() -> TestResult {
    skip_if_missing!(missing_tool("stress-ng"));
    let mut different = Vec::new();
    let known = known()?;
    for name in known
        .iter()
        .filter(|name| !HARMFUL.contains(&name.as_str()))
    {
        let differences = differences(&[name], 1)?;
        println!(
            "{name}: {}",
            if differences.is_empty() {
                "as bare"
            } else {
                "differs"
            }
        );
        if !differences.is_empty() {
            println!("{}", differences.join("\n"));
            different.push(name.as_str());
        }
    }
    ensure!(different.is_empty(), "{}", different.join(", "));
    Ok(())
}
