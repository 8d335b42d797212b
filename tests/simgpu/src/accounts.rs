//! What each process uses: `/sys/class/kfd/kfd/proc/<pid>`, as amdkfd lays it out.
//!
//! A process writes the files of its own memory and queues as they change; the launcher writes the copy engines' times, and closes
//! the accounts of processes that were killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::board::{Board, ProcessBoard};

/// The folder of a process, in the machine's folder `root`.
pub fn folder(root: &Path, pid: u32) -> PathBuf {
    root.join("sys/devices/virtual/kfd/kfd/proc")
        .join(pid.to_string())
}

/// Replaces a file, whole. Failures show when somebody reads.
pub fn write(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    drop(fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)));
}

/// The state and the beginning of a process, from `/proc`; none when it is gone.
pub fn state_and_beginning(pid: u32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may hold anything: the state is the third field, the beginning the 22nd.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Gives back what a process used, and takes its folder away.
pub fn close(board: &Board, root: &Path, account: &ProcessBoard) {
    for (gpu, used) in board.gpus.iter().zip(&account.vram_bytes) {
        gpu.used_bytes
            .fetch_sub(used.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
    for time in &account.sdma_ns {
        time.store(0, Ordering::Relaxed);
    }
    let pid = account.pid.load(Ordering::Relaxed);
    drop(fs::remove_dir_all(folder(root, pid)));
    account.ready.store(0, Ordering::Relaxed);
    account.pid.store(0, Ordering::Release);
}
