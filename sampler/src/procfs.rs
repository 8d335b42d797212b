//! What `/proc` says of a process.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rsys_wire::adopt::SAMPLE_SIGNAL;

/// The text of a file of `/proc`. Names in it are whatever bytes a program chose, or the first 15 of them: what is not UTF-8 is replaced.
///
/// # Errors
/// When it cannot be read.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = fs::read(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a process has a handler for the signal of the samples.
#[must_use]
pub fn catches_samples(pid: u32) -> bool {
    text(format!("/proc/{pid}/status"))
        .ok()
        .and_then(|status| caught_signals(&status))
        .is_some_and(|caught| caught & 1 << (SAMPLE_SIGNAL - 1) != 0)
}

/// Whether a process has mapped the memory (`memfd_create`) with this inode: one that executed
/// another program has not.
#[must_use]
pub fn maps_memory(pid: u32, inode: u64) -> bool {
    fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| {
        maps.split(|byte| *byte == b'\n')
            .any(|line| is_memory(line, inode))
    })
}

/// Whether a line of `maps` is about this memory (proc(5)): `address perms offset dev inode
/// /memfd:name (deleted)`.
fn is_memory(line: &[u8], inode: u64) -> bool {
    let mut fields = line
        .split(|byte| *byte == b' ')
        .filter(|field| !field.is_empty());
    let is_same =
        |field: &[u8]| std::str::from_utf8(field).is_ok_and(|text| text.parse() == Ok(inode));
    fields.nth(4).is_some_and(is_same)
        && fields
            .next()
            .is_some_and(|path| path.starts_with(b"/memfd:"))
}

/// The set of signals with handlers, from a `status` file (proc(5): `SigCgt`).
fn caught_signals(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Whether a debugger traces this process: it may trace what we start as well.
#[must_use]
pub fn is_debugged() -> bool {
    let status = text("/proc/self/status").unwrap_or_default();
    tracer(&status)
        .and_then(|tracer| text(format!("/proc/{tracer}/comm")).ok())
        .is_some_and(|name| ["gdb", "lldb"].iter().any(|part| name.contains(part)))
}

/// Who traces a process or thread, from its `status` file (proc(5): `TracerPid`).
pub fn tracer(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|tracer| *tracer != 0)
}

/// The process id that was given last in our namespace (proc(5), loadavg).
#[must_use]
pub fn last_pid() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(4)?.parse().ok()
}

/// Whether a process is a thread of the kernel's. One that is gone is none.
#[must_use]
pub fn is_kernel_thread(pid: u32) -> bool {
    /// PF_KTHREAD, from the kernel's include/linux/sched.h; flags are field 9 of the line.
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let line = text(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = line
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.split(' ').nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// The root directory of a process as we see it, if it is not ours.
#[must_use]
pub fn foreign_root(pid: u32) -> Option<PathBuf> {
    /// Our root directory and mount namespace, which stay what they are.
    static OURS: OnceLock<Option<(PathBuf, Option<PathBuf>)>> = OnceLock::new();
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let theirs = fs::read_link(&root).ok()?;
    let ours = || {
        let root = fs::read_link("/proc/self/root").ok()?;
        Some((root, mount_namespace("self")))
    };
    let (our_root, our_namespace) = OURS.get_or_init(ours).as_ref()?;
    let same = *our_namespace == mount_namespace(&pid.to_string());
    (theirs != *our_root || !same).then_some(root)
}

fn mount_namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// How many threads a process has: the links of `/proc/PID/task`, a directory with one for each (and two of its own). `None` if it is gone, or where
/// a sandbox's `/proc` does not count them.
#[must_use]
pub fn thread_count(pid: u32) -> Option<usize> {
    let links = fs::metadata(format!("/proc/{pid}/task")).ok()?.nlink();
    usize::try_from(links.checked_sub(2)?)
        .ok()
        .filter(|count| *count > 0)
}

/// Whether a process has memory, and neither ends nor has ended.
#[must_use]
pub fn has_memory(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/statm")).is_ok_and(|pages| !pages.starts_with("0 "))
}

/// How often a thread, as `4711/task/4712`, was put on a processor; `None` if it is gone, or where the kernel does not count.
#[must_use]
pub fn turns(of: &str) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{of}/schedstat")).ok()?;
    let turns = line.split_ascii_whitespace().nth(2)?.parse().ok()?;
    Some(turns).filter(|turns| *turns > 0)
}

/// How often a thread, as `4711/task/4712`, left a processor by itself, to wait or to stop; `None` if it is gone.
#[must_use]
pub fn times_blocked(of: &str) -> Option<u64> {
    let status = text(format!("/proc/{of}/status")).ok()?;
    let mut lines = status.lines();
    let number = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    number.trim().parse().ok()
}

/// State and CPU time (in ticks of the clock, `_SC_CLK_TCK`) of a process, as `4711`, or of a
/// thread, as `4711/task/4712`.
#[must_use]
pub fn state_and_ticks(of: &str) -> Option<(char, u64)> {
    in_stat(&text(format!("/proc/{of}/stat")).ok()?)
}

/// When a process was started, in ticks of the clock since the machine was.
///
/// # Errors
/// As [`is_of_ended`] judges them.
pub fn start_ticks(pid: u32) -> io::Result<u64> {
    let line = text(format!("/proc/{pid}/stat"))?;
    start_in_stat(&line).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether such an error says that a process has ended; a lack of descriptors does not.
#[must_use]
pub fn is_of_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn start_in_stat(line: &str) -> Option<u64> {
    let (_, rest) = line.rsplit_once(") ")?;
    // Field 22 of the line, counted from 1; the first one of the rest is field 3.
    rest.split(' ').nth(19)?.parse().ok()
}

/// Whether a process has ended that was started then, though its parent may not have noticed. One whose first thread alone has ended goes on.
#[must_use]
pub fn has_ended(pid: u32, start: u64) -> bool {
    let line = match text(format!("/proc/{pid}/stat")) {
        Ok(line) => line,
        Err(error) => return is_of_ended(&error),
    };
    let is_dead = matches!(in_stat(&line), Some(('Z' | 'X', _)));
    start_in_stat(&line) != Some(start) || is_dead && thread_count(pid).unwrap_or(0) <= 1
}

/// State and CPU time from a line of `stat`. The name in it is in parentheses and may hold anything.
fn in_stat(line: &str) -> Option<(char, u64)> {
    let (_, rest) = line.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    // utime and stime are fields 14 and 15 of the line, counted from 1; the state is field 3.
    let user: u64 = fields.nth(10)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((state, user.saturating_add(system)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name_is() {
        let line = "77 (a) R (b) S 1 77 77 0 -1 4194304 100 0 0 0 12 5 0 0 20 0 1 0 100 1000 10";
        for (stat, expected) in [
            (line, Some(('S', 17))),
            ("77 (x) R 1 2 3", None),
            ("", None),
            ("77", None),
        ] {
            assert_eq!(in_stat(stat), expected, "{stat}");
        }
        assert_eq!(start_in_stat(line), Some(100));
        assert_eq!(start_in_stat("77 (x) R 1 2 3"), None);
    }

    #[test]
    fn a_tracer_is_known() {
        for (status, expected) in [
            ("Name:\tx\nTracerPid:\t4711\nUid:\t0", Some(4711)),
            ("Name:\tx\nTracerPid:\t0\nUid:\t0", None),
            ("", None),
        ] {
            assert_eq!(tracer(status), expected, "{status}");
        }
    }

    #[test]
    fn memory_is_found_among_mappings() {
        let line =
            b"7f00-7f01 rw-s 00000000 00:01 4711                       /memfd:rsys (deleted)";
        assert!(is_memory(line, 4711));
        assert!(!is_memory(line, 471));
        assert!(!is_memory(
            b"7f00-7f01 rw-s 00000000 00:01 4711 /tmp/memfd:rsys",
            4711
        ));
        for other in [&b"7f00-7f01 rw-p 00000000 00:00 0"[..], b""] {
            assert!(!is_memory(other, 0));
        }
        assert!(!maps_memory(std::process::id(), u64::MAX));
    }

    #[test]
    fn the_kernels_threads_are_known() {
        let own = std::process::id();
        assert!(!is_kernel_thread(own));
        assert!(last_pid().is_some_and(|last| last > 0));
        // Where there is one to be seen, kthreadd.
        if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
            assert!(is_kernel_thread(2));
        }
    }

    #[test]
    fn handlers_are_seen() {
        assert_eq!(
            caught_signals("Name:\tx\nSigIgn:\t0\nSigCgt:\t0000000000008001\n"),
            Some(0x8001)
        );
        assert_eq!(caught_signals(""), None);
        assert!(!catches_samples(std::process::id()));
    }

    #[test]
    fn a_process_that_has_ended_has_no_memory() {
        use nix::sys::wait::{Id, WaitPidFlag, waitid};
        assert!(has_memory(std::process::id()));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        // Not reaped yet.
        let id = nix::unistd::Pid::from_raw(ended.id().cast_signed());
        waitid(Id::Pid(id), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
        assert!(!has_memory(ended.id()));
        ended.wait().unwrap();
        assert!(!has_memory(ended.id()));
    }
}
