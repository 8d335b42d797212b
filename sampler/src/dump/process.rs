//! All threads of a process, as they are at one look.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use super::Options;
use super::thread::{Eye, Seen};
use crate::attach::Refusal;
use crate::attach::judge::{self, Status};
use crate::os;
use crate::procfs;
use crate::waits::image::Image;
use crate::waits::python::Python;
use crate::waits::record::WaitRecord;

/// A process as it was seen.
#[derive(Debug)]
pub(super) struct SeenProcess {
    /// Its number, as we see it and as it sees itself.
    pub pid: u32,
    pub own_pid: u32,
    /// The thread by whose number its files are read.
    pub reader: u32,
    /// Its name for the kernel.
    pub name: String,
    pub command: Vec<String>,
    pub executable: String,
    pub root: Option<PathBuf>,
    /// The debugger that traces it.
    pub tracer: Option<(u32, String)>,
    /// Local time of the look.
    pub time: String,
    pub threads: Vec<Seen>,
    /// What the stacks of the threads lead into.
    pub records: Vec<WaitRecord>,
    /// BOOTTIME of the look.
    pub time_ns: u64,
    /// For how long a thread was stopped at most.
    pub stood: Duration,
}

/// Looks at all threads of a process that may be looked at.
///
/// # Errors
/// Where it has ended meanwhile.
pub(super) fn look(pid: u32, status: &Status, options: &Options) -> Result<SeenProcess, Refusal> {
    let gone = |_| Refusal::new("it has ended");
    // Where the first thread has ended, files of its number tell of no memory.
    let reader = judge::reader(pid).unwrap_or(pid);
    let own_pid = innermost(status.field("NSpid:")).unwrap_or(pid);
    let path = format!("/proc/{reader}");
    let tasks = File::open(format!("{path}/task")).map_err(gone)?;
    let mut image = Image::new(reader).map_err(|error| match error.raw_os_error() {
        Some(errno @ (libc::EACCES | libc::EPERM)) => {
            judge::forbidden(pid, nix::errno::Errno::from_raw(errno))
        }
        _ => Refusal::new("it has ended"),
    })?;
    // In the order in which they were made.
    let tids: Vec<u32> = fs::read_dir(format!("{path}/task"))
        .map_err(gone)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let own_tids = own_tids(&tids, pid, own_pid);
    let is_of_64_bits = judge::word_bytes(reader) != Some(4);
    let mut python = (options.python && is_of_64_bits).then(|| {
        let mut python = Python::new(reader, options.depth_max);
        python.set_threads(own_tids.values().copied());
        python.begin_round();
        python
    });
    let time_ns = os::boot_time_ns();
    image.all_modules();
    let mut eye = Eye {
        pid: reader,
        tasks: &tasks,
        image: &mut image,
        python: python.as_mut(),
        depth_max: options.depth_max,
        is_of_64_bits,
        time_ns,
        own_tids: &own_tids,
        modules_are_known: false,
        records: Vec::new(),
        stood: Duration::ZERO,
    };
    let threads: Vec<Seen> = tids.iter().filter_map(|tid| eye.look(*tid)).collect();
    let (records, stood) = (eye.records, eye.stood);
    if threads.is_empty() || !procfs::has_memory(reader) {
        return Err(Refusal::new("it has ended"));
    }
    let executable = fs::read_link(format!("{path}/exe")).unwrap_or_default();
    Ok(SeenProcess {
        pid,
        reader,
        own_pid,
        name: status.field("Name:").to_owned(),
        command: command(reader),
        executable: executable.to_string_lossy().into_owned(),
        root: procfs::foreign_root(reader),
        tracer: status.tracer(),
        time: os::local_time("%F %T").unwrap_or_default(),
        threads,
        records,
        time_ns,
        stood,
    })
}

/// The ids of threads as their process knows them, which are others in a pid namespace of its own.
fn own_tids(tids: &[u32], pid: u32, own_pid: u32) -> HashMap<u32, u32> {
    let own = |tid: u32| {
        if pid == own_pid {
            return tid;
        }
        let status = procfs::text(format!("/proc/{pid}/task/{tid}/status"));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        line.and_then(innermost).unwrap_or(tid)
    };
    tids.iter().map(|tid| (*tid, own(*tid))).collect()
}

/// The last of the ids in a line of all pid namespaces.
fn innermost(line: &str) -> Option<u32> {
    line.split_ascii_whitespace().last()?.parse().ok()
}

fn command(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let line = line.trim_end_matches('\0');
    match line.is_empty() {
        true => Vec::new(),
        false => line.split('\0').map(str::to_owned).collect(),
    }
}
