//! Attaching to programs that run: what is recorded, what is refused, and what they are afterwards.

mod children;
mod cycles;
mod dump;
mod idle;
mod kills;
mod refusals;
mod shown;
mod traces;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use rsys_tests::{Outcome, Run, Running, signal, wait_until, workload};

/// More than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// All kinds of threads that the workload has.
const ALL: &[&str] = &[
    "compute",
    "births",
    "allocate",
    "load",
    "signals",
    "nanosleep",
    "poll",
    "futex",
    "futex-forever",
    "epoll",
    "read",
];

/// A program that runs by itself.
struct Program {
    run: Running,
    pid: u32,
}

impl Program {
    /// Starts the workload with threads of these kinds.
    fn start(kinds: &[&str]) -> Result<Self> {
        let program = workload("attached").flags(["-O1", "-g", "-pthread"]);
        let run = Run::bare().command(program.args(kinds)).start()?;
        let pid = run.wait_for("ready")?.parse()?;
        Ok(Self { run, pid })
    }

    /// Ends it, and fails where it saw a fault.
    #[track_caller]
    fn end_well(self) -> Result<Outcome> {
        signal(self.pid, libc::SIGTERM);
        let outcome = self.run.wait()?;
        outcome.expect_success();
        assert_eq!(outcome.number("faults")?, 0.0, "{}", outcome.story());
        Ok(outcome)
    }
}

/// What the kernel shows of a process that a profiler could have left there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    timers: usize,
    perf_events: usize,
    shared_mappings: usize,
    threads_of_ours: usize,
    dispositions: Vec<String>,
}

impl State {
    fn of(pid: u32) -> Self {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let files = fs::read_dir(process.join("fd")).into_iter().flatten();
        let targets = files.flatten().flat_map(|file| fs::read_link(file.path()));
        let tasks = fs::read_dir(process.join("task")).into_iter().flatten();
        let names = tasks
            .flatten()
            .flat_map(|task| fs::read_to_string(task.path().join("comm")));
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        Self {
            timers: lines_with(process.join("timers"), "ID:"),
            perf_events: targets
                .filter(|target| target.ends_with("anon_inode:[perf_event]"))
                .count(),
            shared_mappings: lines_with(process.join("maps"), "/memfd:rsys"),
            threads_of_ours: names.filter(|name| name.starts_with("rsys")).count(),
            dispositions: status
                .lines()
                .filter(|line| line.starts_with("SigIgn") || line.starts_with("SigCgt"))
                .map(without_the_c_librarys)
                .collect(),
        }
    }
}

/// A line of signals without those that the C library takes for itself when the first thread asks for them (32 and 33).
fn without_the_c_librarys(line: &str) -> String {
    let (name, set) = line.split_once(':').unwrap_or((line, ""));
    let set = u64::from_str_radix(set.trim(), 16).unwrap_or(0);
    format!("{name} {:x}", set & !(0b11 << 31))
}

/// Mappings with code of ours, and all other mappings with code that have no file.
fn code_of_ours(pid: u32) -> [usize; 2] {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let code = maps.lines().filter(|line| line.contains("r-xp"));
    let ours = code.clone().filter(|line| line.contains("librsys_agent"));
    let anonymous = code.filter(|line| !line.contains('/') && !line.contains('['));
    [ours.count(), anonymous.count()]
}

fn lines_with(path: PathBuf, word: &str) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.contains(word)).count()
}

/// CPU seconds that a process has used.
fn cpu_seconds(pid: u32) -> f64 {
    // Its name need not be text.
    let bytes = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let behind_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    // Fields 14 and 15 of proc_pid_stat(5), of which the third is the first behind the name.
    let used = behind_name.split_whitespace().skip(11).take(2);
    let ticks: f64 = used.filter_map(|field| field.parse::<f64>().ok()).sum();
    // SAFETY: a plain number.
    ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// Waits until a process that is recorded has used so much more CPU time, however long a busy machine takes for it.
fn wait_until_used(pid: u32, seconds: f64) {
    let end = cpu_seconds(pid) + seconds;
    let has_used = wait_until(4 * PATIENCE, || cpu_seconds(pid) >= end);
    assert!(has_used, "{} of {end} s", cpu_seconds(pid));
}

/// Whether somebody traces a thread of a process.
fn is_traced(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut tasks = tasks.into_iter().flatten().flatten();
    tasks.any(|task| {
        let status = fs::read_to_string(task.path().join("status"));
        status.is_ok_and(|status| !status.contains("TracerPid:\t0"))
    })
}

/// Waits until a process is recorded: all its threads have timers.
fn wait_until_recorded(pid: u32) {
    let is_recorded = wait_until(PATIENCE, || {
        let now = State::of(pid);
        // And the memory is gone that was mapped for the attach, and nobody traces it any more.
        let is_free = code_of_ours(pid) == [1, 0] && !is_traced(pid);
        now.timers > 0 && now.shared_mappings > 0 && is_free
    });
    assert!(is_recorded, "{:?}", State::of(pid));
}
