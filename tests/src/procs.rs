//! Looking at processes through `/proc`, and ending the ones that a test has started.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Whether a process exists and is not a zombie.
#[must_use]
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, state)| state != 'Z' && state != 'X')
}

/// Sends a signal to one process; tells whether it was there.
pub fn signal(pid: u32, number: i32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return false;
    };
    // SAFETY: kill takes plain numbers and touches no memory of ours.
    pid > 1 && unsafe { libc::kill(pid, number) == 0 }
}

/// The direct children of a process.
#[must_use]
pub fn children_of(parent: u32) -> Vec<u32> {
    every_process()
        .into_iter()
        .filter(|&(_, its_parent)| its_parent == parent)
        .map(|(pid, _)| pid)
        .collect()
}

/// All processes below one, children before grandchildren.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let everyone = every_process();
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(
            everyone
                .iter()
                .filter(|&&(_, its_parent)| its_parent == parent)
                .map(|&(pid, _)| pid),
        );
        next += 1;
    }
    found.remove(0);
    found
}

/// Waits until the condition holds; tells whether it did before the time was over.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
    true
}

/// One line about what each process is doing, to explain a hang.
pub(crate) fn describe(pids: &[u32]) -> String {
    let read = |pid: u32, what: &str| {
        fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default()
    };
    let line = |&pid: &u32| {
        let state = stat(pid).map_or('?', |(_, state)| state);
        let command = read(pid, "cmdline").replace('\0', " ");
        format!(
            "  pid {pid} {state} wchan={} syscall={} {command}\n",
            read(pid, "wchan"),
            read(pid, "syscall").trim()
        )
    };
    pids.iter().map(line).collect()
}

fn every_process() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?.0))).collect()
}

/// Parent and state.
fn stat(pid: u32) -> Option<(u32, char)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.chars().next()?;
    Some((words.next()?.parse().ok()?, state))
}
