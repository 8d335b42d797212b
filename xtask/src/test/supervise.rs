//! `cargo xtask supervise`, which the runner starts for each process of tests: nothing that a test starts outlives it.
//!
//! The supervisor is the parent of all whose own parents are gone, so it finds every process of its test, whatever group or session that made
//! for itself. It ends them when the test has ended, when its time is up, and when the runner is no more, which it learns from its standard input.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{WaitPidFlag, WaitStatus, wait, waitpid};
use nix::unistd::{Pid, getpid};
use serde::{Deserialize, Serialize};

/// So long may what a test has left behind take to end by itself.
const GRACE: Duration = Duration::from_secs(3);
/// So long may what was killed take to be gone.
const LAST: Duration = Duration::from_secs(20);

/// What is to be run.
#[derive(Debug, clap::Args)]
pub struct SuperviseOptions {
    /// When it is killed
    #[arg(long)]
    limit_seconds: u64,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// What the runner is told on standard error, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// Whether the program ended by itself, without an error.
    pub success: bool,
    /// How it ended.
    pub status: String,
    /// What was done about it and why, if its time was up.
    pub killed: Option<String>,
    /// The processor time of all its processes.
    pub cpu_seconds: f64,
}

static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Runs a program to its end and that of all its processes.
pub fn run(options: &SuperviseOptions) -> Result<ExitCode> {
    set_child_subreaper(true).context("cannot adopt processes")?;
    let output = stdout().as_fd().try_clone_to_owned()?;
    let child = Command::new(&options.words[0])
        .args(&options.words[1..])
        .stdin(Stdio::null())
        .stderr(output)
        .spawn()
        .with_context(|| format!("cannot start {}", options.words[0].display()))?;
    let limit = Duration::from_secs(options.limit_seconds);
    let clock = thread::spawn(move || watch(limit));
    thread::spawn(|| {
        stdin().lock().read_to_end(&mut Vec::new()).ok();
        if !IS_OVER.load(Ordering::Relaxed) {
            kill_all(LAST);
            std::process::exit(1);
        }
    });
    let status = wait_for(Pid::from_raw(child.id().cast_signed()))?;
    IS_OVER.store(true, Ordering::Relaxed);
    clock.thread().unpark();
    let killed = clock.join().unwrap_or_default();
    leave_none()?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = usage.user_time() + usage.system_time();
    let report = Report {
        success: status.success() && killed.is_none(),
        status: status.to_string(),
        killed,
        cpu_seconds: cpu.num_microseconds() as f64 / 1e6,
    };
    eprintln!("{}", serde_json::to_string(&report)?);
    Ok(ExitCode::SUCCESS)
}

/// Waits for a child, and for all that were adopted meanwhile.
fn wait_for(child: Pid) -> Result<ExitStatus> {
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => {
                return Ok(ExitStatus::from_raw(code << 8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                return Ok(ExitStatus::from_raw(signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => bail!("cannot wait: {error}"),
        }
    }
}

/// When the time is up, kills everything, and says what it was doing.
fn watch(limit: Duration) -> Option<String> {
    let start = Instant::now();
    while start.elapsed() < limit {
        thread::park_timeout(limit.saturating_sub(start.elapsed()));
        if IS_OVER.load(Ordering::Relaxed) {
            return None;
        }
    }
    let doing = doing();
    kill_all(LAST);
    let limit = limit.as_secs();
    Some(format!(
        "killed with all its processes, as its {limit} s were over:\n{doing}"
    ))
}

/// Waits for what a test has left behind, for a moment, and kills the rest.
fn leave_none() -> Result<()> {
    let start = Instant::now();
    while reap()? {
        if start.elapsed() > GRACE {
            kill_descendants();
        }
        if start.elapsed() > LAST {
            bail!("these cannot be killed:\n{}", doing());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Takes note of children that ended; returns whether any are left.
fn reap() -> Result<bool> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return Ok(true),
            Err(Errno::ECHILD) => return Ok(false),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => bail!("cannot wait: {error}"),
        }
    }
}

/// Kills until all are gone or the time is up: what was just starting another process has that one killed too. Another thread may wait for them.
fn kill_all(limit: Duration) {
    let start = Instant::now();
    while kill_descendants() && start.elapsed() < limit {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Kills all processes below this one; returns whether any were alive.
fn kill_descendants() -> bool {
    let alive = descendants();
    for (pid, _) in &alive {
        // It may be gone.
        kill(*pid, Signal::SIGKILL).ok();
    }
    !alive.is_empty()
}

/// A line for each process below this one.
fn doing() -> String {
    let line = |(pid, state): (Pid, String)| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let place = String::from_utf8_lossy(&read("wchan")).into_owned();
        format!("    {pid} {state} {place}: {command}\n")
    };
    descendants().into_iter().map(line).collect()
}

/// All live processes below this one, with their states.
fn descendants() -> Vec<(Pid, String)> {
    let mut processes: BTreeMap<i32, (i32, String)> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = entry.file_name().to_string_lossy().parse::<i32>();
        let stat = fs::read_to_string(entry.path().join("stat"));
        if let (Ok(number), Ok(stat)) = (number, stat)
            && let Some((state, parent)) = state_and_parent(&stat)
        {
            processes.insert(number, (parent, state));
        }
    }
    let own = getpid().as_raw();
    let is_below = |number: &i32| {
        let mut at = *number;
        // Numbers may be used again while we read: no circle holds us.
        for _ in 0..processes.len() {
            match processes.get(&at) {
                Some((parent, _)) if *parent == own => return true,
                Some((parent, _)) => at = *parent,
                None => return false,
            }
        }
        false
    };
    let below = processes.iter().filter(|(number, _)| is_below(number));
    let alive = below.filter(|(_, (_, state))| state != "Z" && state != "X");
    alive
        .map(|(number, (_, state))| (Pid::from_raw(*number), state.clone()))
        .collect()
}

/// Of `PID (NAME) STATE PARENT …`, where the name may have any letters.
fn state_and_parent(stat: &str) -> Option<(String, i32)> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.to_owned();
    Some((state, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_are_no_hindrance() {
        let stat = "17 (a) b (c) S 4 17 17 0";
        assert_eq!(state_and_parent(stat), Some(("S".to_owned(), 4)));
    }
}
