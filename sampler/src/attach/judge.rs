//! Whether a process can be attached to, as far as that can be seen from outside, and what helps where it cannot.

use std::fs;
use std::io::IoSliceMut;
use std::mem::offset_of;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::{Pid, geteuid};
use rsys_wire::attach::THREAD_NAME;
use rsys_wire::handshake::MAGIC;
use rsys_wire::layout::{SAMPLER_GONE, SegmentHeader};

use super::Refusal;
use super::functions::{file_name, is_c_library};
use super::maps;
use crate::procfs;

/// Looks at a process before anything is done to it.
///
/// # Errors
/// The first of the reasons that is found, with what helps.
pub fn judge(pid: u32) -> Result<(), Refusal> {
    let refuse = |text: String| Err(Refusal(text));
    let status = readable(pid, "-p")?;
    if status.field("State:").starts_with(['Z', 'X']) {
        return refuse(format!(
            "its first thread has ended, and the others cannot be entered by its number; rsys-sample --dump {pid} prints their stacks"
        ));
    }
    if let Some((tracer, name)) = status.tracer() {
        if name == "rsys-sample" {
            return refuse(super::RECORDED.to_owned());
        }
        return refuse(format!(
            "{name} (pid {tracer}) traces it already; detach that first"
        ));
    }
    if status.field("State:").starts_with(['T', 't']) {
        return refuse(format!(
            "it is stopped by a signal; let it go on with kill -CONT {pid}"
        ));
    }
    if is_confined(pid) {
        return refuse(
            "it has confined its system calls (seccomp), and may be killed for one of ours; start it under rsys-sample, which keeps to what its filter permits"
                .to_owned(),
        );
    }
    of_program(pid, &maps::of(pid).unwrap_or_default())
}

/// The `status` file of a process.
#[derive(Debug)]
pub struct Status(String);

impl Status {
    /// That of a process, as `4711`, or of a thread, as `4711/task/4712`; `None` if it is gone.
    #[must_use]
    pub fn of(process: &str) -> Option<Self> {
        procfs::text(format!("/proc/{process}/status"))
            .ok()
            .map(Self)
    }

    /// Its line that begins with `name`, without that.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default()
    }

    /// Who traces it, if anybody does: number and name.
    #[must_use]
    pub fn tracer(&self) -> Option<(u32, String)> {
        let tracer: u32 = self.field("TracerPid:").parse().ok()?;
        let name = procfs::text(format!("/proc/{tracer}/comm")).unwrap_or_default();
        (tracer != 0).then(|| (tracer, name.trim().to_owned()))
    }
}

/// The thread by whose number the memory of a process can be read: the first one, or, if that has ended, another one. `None` if there is none.
#[must_use]
pub fn reader(pid: u32) -> Option<u32> {
    if procfs::has_memory(pid) {
        return Some(pid);
    }
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut tids = tasks.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    tids.find(|tid| procfs::has_memory(*tid))
}

/// Whether we may read the memory of a process; `option` is the one that its number was given to.
///
/// # Errors
/// The first of the reasons against it that is found, with what helps.
pub fn readable(pid: u32, option: &str) -> Result<Status, Refusal> {
    let refuse = |text: String| Err(Refusal(text));
    if pid == std::process::id() {
        return refuse("this is rsys-sample itself; give the number of another process".to_owned());
    }
    let Some(status) = Status::of(&pid.to_string()) else {
        return refuse(
            "there is no such process; ps -e lists those that there are (in this pid namespace)"
                .to_owned(),
        );
    };
    let field = |name: &str| status.field(name);
    let reader = reader(pid);
    if field("State:").starts_with(['Z', 'X']) && reader.is_none() {
        let parent = field("PPid:");
        return refuse(format!(
            "it has ended, and waits for its parent (pid {parent}) to ask how; there is nothing left to record"
        ));
    }
    if procfs::is_kernel_thread(pid) {
        return refuse("it is a thread of the kernel; perf record -p can look at those".to_owned());
    }
    let tgid = field("Tgid:");
    if tgid != pid.to_string() {
        return refuse(format!(
            "it is a thread; give the number of its process: {option} {tgid}"
        ));
    }
    let owner = field("Uid:");
    let owner = owner.split_whitespace().next().unwrap_or_default();
    let own = geteuid();
    if !own.is_root() && owner != own.to_string() {
        return refuse(format!(
            "it belongs to another user (uid {owner}); run rsys-sample as that user, or as root"
        ));
    }
    let mappings = maps::of(reader.unwrap_or(pid)).map_err(|error| {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
        forbidden(pid, errno)
    })?;
    if mappings.is_empty() {
        return Err(forbidden(pid, Errno::EACCES));
    }
    Ok(status)
}

/// What the program is.
fn of_program(pid: u32, mappings: &[maps::Mapping]) -> Result<(), Refusal> {
    let refuse = |text: String| Err(Refusal(text));
    if word_bytes(pid) == Some(4) {
        return refuse(
            "it is a 32-bit program; rsys records 64-bit programs only, as ROCm has".to_owned(),
        );
    }
    let named = |wanted: &dyn Fn(&str) -> bool| {
        mappings
            .iter()
            .any(|mapping| wanted(file_name(&mapping.path)))
    };
    if named(&|file| file.starts_with("ld-musl-") || file.starts_with("libc.musl-")) {
        return refuse(
            "it runs on musl, and the agent needs glibc; run it in a system with glibc".to_owned(),
        );
    }
    let has_library = mappings.iter().any(|mapping| is_c_library(&mapping.path));
    if !has_library || !has_loader(pid) {
        return refuse(
            "it is linked statically: there is no C library that could load the agent; link it dynamically".to_owned(),
        );
    }
    Ok(())
}

/// Whether a thread has a filter of system calls that we do not have. Those of a container that we are in, too, permit what we do.
fn is_confined(pid: u32) -> bool {
    let own = confinement("/proc/self/status");
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let mut threads = threads.flatten().map(|thread| thread.path().join("status"));
    threads.any(|status| {
        let (mode, filters) = confinement(status);
        mode == STRICT || mode != 0 && (own.0 == 0 || filters > own.1)
    })
}

/// SECCOMP_MODE_STRICT of linux/seccomp.h.
const STRICT: u32 = 1;

/// The mode of seccomp(2), and how many filters there are, as far as the kernel tells (Linux 5.9).
fn confinement(status: impl AsRef<Path>) -> (u32, u32) {
    let text = procfs::text(status).unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    (number("Seccomp:"), number("Seccomp_filters:"))
}

/// Whether an agent in a process records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded {
    /// None does, or its sampler has left.
    No,
    /// It has announced itself, and no sampler has taken it in: one is about to, or has been killed. The agent knows.
    Announced,
    /// For a sampler that started it or has attached to it.
    Yes,
}

/// Whether an agent in it records.
#[must_use]
pub fn recorded(pid: u32) -> Recorded {
    if is_served(pid) {
        return Recorded::Yes;
    }
    let mappings = maps::of(pid).unwrap_or_default();
    let segments = mappings
        .iter()
        .filter(|mapping| mapping.path.starts_with("/memfd:rsys"));
    let all = segments.map(|mapping| of_segment(pid, mapping.range.start));
    all.max().unwrap_or(Recorded::No)
}

/// What the segment says that a process has mapped at `start`: one whose sampler has left is mapped until the next sample. What cannot be read may be
/// in use.
fn of_segment(pid: u32, start: u64) -> Recorded {
    const SAMPLER: usize = offset_of!(SegmentHeader, sampler);
    let mut bytes = [0; SAMPLER + 4];
    let header = RemoteIoVec {
        base: start as usize,
        len: bytes.len(),
    };
    let pid = Pid::from_raw(pid.cast_signed());
    let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &[header]);
    if read != Ok(bytes.len()) {
        return Recorded::Yes;
    }
    let word = |offset: usize| {
        let bytes = bytes
            .get(offset..offset + 4)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    };
    // Only that of segment 0 counts.
    let is_first = word(offset_of!(SegmentHeader, magic)) == MAGIC as u32
        && word(offset_of!(SegmentHeader, segment)) == 0;
    match word(SAMPLER) {
        _ if !is_first => Recorded::No,
        0 => Recorded::Announced,
        sampler if sampler & SAMPLER_GONE != 0 => Recorded::No,
        _ => Recorded::Yes,
    }
}

/// Whether a thread of an agent's serves a sampler.
fn is_served(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let mut names = tasks
        .flatten()
        .filter_map(|task| procfs::text(task.path().join("comm")).ok());
    names.any(|name| name.trim_end() == THREAD_NAME)
}

/// Whether the program asks for a loader (PT_INTERP). A static one that opens libraries has a C library all the same, and its own beside it.
fn has_loader(pid: u32) -> bool {
    use object::read::elf::{ElfFile64, ProgramHeader};
    let Ok(file) = fs::File::open(format!("/proc/{pid}/exe")) else {
        return true;
    };
    // SAFETY: read alone; who shortens a file that a program executes ends that program first.
    let Ok(bytes) = (unsafe { memmap2::Mmap::map(&file) }) else {
        return true;
    };
    let Ok(elf) = ElfFile64::<object::Endianness>::parse(&*bytes) else {
        return true;
    };
    let endian = elf.endian();
    let mut kinds = elf
        .elf_program_headers()
        .iter()
        .map(|header| header.p_type(endian));
    kinds.any(|kind| kind == object::elf::PT_INTERP)
}

/// Bytes of a pointer of the program that a process runs, from the class in its ELF header.
#[must_use]
pub fn word_bytes(pid: u32) -> Option<u32> {
    use std::io::Read;
    let mut header = [0; 5];
    let mut file = fs::File::open(format!("/proc/{pid}/exe")).ok()?;
    file.read_exact(&mut header).ok()?;
    match header {
        [0x7f, b'E', b'L', b'F', 1] => Some(4),
        [0x7f, b'E', b'L', b'F', 2] => Some(8),
        _ => None,
    }
}

/// Why the kernel does not let us look at a process of our own, and what helps.
#[must_use]
pub fn forbidden(pid: u32, error: Errno) -> Refusal {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    explain(pid, error, scope.trim())
}

fn explain(pid: u32, error: Errno, scope: &str) -> Refusal {
    let owner = {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(format!("/proc/{pid}/maps")).map(|file| file.uid())
    };
    // The files of one that must not be dumped belong to root (proc(5)).
    let undumpable = owner.is_ok_and(|owner| owner == 0) && !geteuid().is_root();
    let other_program = Path::new(&format!("/proc/{pid}")).exists();
    Refusal(match scope {
        _ if !other_program => "it has ended".to_owned(),
        _ if undumpable => {
            "it made itself undumpable (PR_SET_DUMPABLE, or it runs setuid); run rsys-sample as root".to_owned()
        }
        "1" => {
            "Yama lets processes be traced by their ancestors only (kernel.yama.ptrace_scope is 1); run rsys-sample as root, or sysctl kernel.yama.ptrace_scope=0, or have the program call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)".to_owned()
        }
        "2" => {
            "Yama lets only root trace processes (kernel.yama.ptrace_scope is 2); run rsys-sample as root".to_owned()
        }
        "3" => {
            "Yama forbids all tracing until the next boot (kernel.yama.ptrace_scope is 3); start the program under rsys-sample".to_owned()
        }
        _ => format!(
            "the kernel does not let it be traced: {}; run rsys-sample as root, in a container with the capability SYS_PTRACE",
            error.desc()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn reason(pid: u32) -> String {
        judge(pid).expect_err("a reason").0
    }

    #[test]
    fn what_is_no_process_of_a_program_is_told_with_a_remedy() {
        assert!(reason(std::process::id()).contains("rsys-sample itself"));
        assert!(reason(u32::MAX >> 1).contains("no such process"));
        let mut ended = Command::new("true").spawn().unwrap();
        let zombie = || fs::read_to_string(format!("/proc/{}/stat", ended.id())).unwrap();
        while !zombie().contains(") Z") {
            std::thread::yield_now();
        }
        assert!(reason(ended.id()).contains("it has ended"));
        ended.wait().unwrap();
        if procfs::is_kernel_thread(2) {
            assert!(reason(2).contains("thread of the kernel"));
        }
    }

    #[test]
    fn a_process_of_our_own_may_be_looked_at() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let is_loaded = || {
            maps::of(child.id()).is_ok_and(|maps| maps.iter().any(|one| is_c_library(&one.path)))
        };
        while !is_loaded() {
            std::thread::yield_now();
        }
        assert_eq!(judge(child.id()), Ok(()));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn each_setting_of_yama_has_its_remedy() {
        let own = std::process::id();
        for (scope, remedy) in [
            ("1", "ptrace_scope=0"),
            ("2", "as root"),
            ("3", "start the program under"),
            ("0", "SYS_PTRACE"),
        ] {
            let said = explain(own, Errno::EPERM, scope).0;
            assert!(said.contains(remedy), "{said}");
        }
    }
}
