//! Runs one command to its end: its output, how long it took, how much memory it had. Nothing runs longer than its limit.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

/// How often the memory of a process is looked at.
const MEMORY_PERIOD: Duration = Duration::from_millis(1);

/// What a command left behind.
#[derive(Debug)]
pub struct Finished {
    /// From before the start to the return of wait.
    pub wall_s: f64,
    /// The time of day at which it was gone, in seconds since 1970.
    pub ended_s: f64,
    /// CPU time of the command and all that it waited for. The kernel reports it in steps of 10 ms.
    pub tree_cpu_s: f64,
    /// The most memory that the command itself had at once, if it was asked for.
    pub peak_rss_kb: Option<u64>,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Finished {
    /// The last lines of its standard error, or of its output: usually why it failed.
    pub fn last_words(&self) -> String {
        let text = if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(4)..];
        last.join(" | ").chars().take(300).collect()
    }
}

/// How a command is to be run.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// A folder for what it prints.
    pub scratch: &'a Path,
    /// After this time, it and all its children are killed.
    pub limit: Duration,
    /// Whether to follow its memory. That costs some CPU time beside it.
    pub watch_memory: bool,
}

/// Runs a command. It is an error only when it cannot be started or takes too long.
pub fn run(command: &mut Command, terms: Terms<'_>) -> Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = terms.scratch.join("stdout");
    let err = terms.scratch.join("stderr");
    command
        .stdin(Stdio::null())
        .stdout(File::create(&out).with_context(|| format!("cannot write {}", out.display()))?)
        .stderr(File::create(&err).with_context(|| format!("cannot write {}", err.display()))?)
        .process_group(0);
    let cpu_before_s = children_cpu_s();
    let started = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let pid = child.id();
    let gone = wait_in_thread(child);
    let deadline = started + terms.limit;
    let mut peak_rss_kb = None;
    let gone = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let pause = if terms.watch_memory {
            peak_rss_kb = peak_rss_kb.max(peak_of(pid));
            left.min(MEMORY_PERIOD)
        } else {
            left
        };
        match gone.recv_timeout(pause) {
            Ok(gone) => break gone,
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                kill_group(pid);
                bail!("{name}: killed after {} s", terms.limit.as_secs());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("{name}: lost"),
        }
    };
    let read = |path: &Path| -> Result<String> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Finished {
        wall_s: gone.at.duration_since(started).as_secs_f64(),
        ended_s: gone.time_s,
        tree_cpu_s: children_cpu_s() - cpu_before_s,
        peak_rss_kb,
        status: gone
            .status
            .with_context(|| format!("{name}: cannot wait for it"))?,
        stdout: read(&out)?,
        stderr: read(&err)?,
    })
}

struct Gone {
    at: Instant,
    time_s: f64,
    status: std::io::Result<ExitStatus>,
}

fn wait_in_thread(mut child: Child) -> Receiver<Gone> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let status = child.wait();
        let gone = Gone {
            at: Instant::now(),
            time_s: now_s(),
            status,
        };
        // Nobody listens any more when the time was up.
        drop(sender.send(gone));
    });
    receiver
}

/// Kills a command with all its children, which are in its process group.
fn kill_group(pid: u32) {
    let killed = Command::new("sh")
        .args(["-c", &format!("kill -KILL -{pid}")])
        .stderr(Stdio::null())
        .status();
    if let Err(error) = killed {
        eprintln!("process group {pid} could not be killed: {error}");
    }
}

fn now_s() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

fn peak_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// CPU time of all children that were waited for, and of theirs.
fn children_cpu_s() -> f64 {
    /// USER_HZ, which is 100 on every Linux that Rust supports.
    const TICKS_PER_S: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold blanks; cutime and cstime are the 16th and 17th fields.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / TICKS_PER_S
}
