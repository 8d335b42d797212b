//! The few system calls that no crate of ours wraps, each behind a safe face.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use rsys_wire::clocks;

/// Ends this process with `code` and without any destructor: those of foreign libraries may crash.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: the call takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Closes a file that was written. A file system of another machine may say only now that it has no room.
///
/// # Errors
/// When the system has not kept what was written.
pub fn close(file: File) -> io::Result<()> {
    match nix::unistd::close(file) {
        Err(Errno::EINTR) => Ok(()),
        closed => closed.map_err(io::Error::from),
    }
}

/// A descriptor that becomes readable when process `pid` ends.
///
/// # Errors
/// `ESRCH` when it has ended and was waited for already.
pub fn pidfd_open(pid: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes two integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0_i64) };
    let fd = i32::try_from(Errno::result(result)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel just made this descriptor (close-on-exec) and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor from which the compute driver's events of a GPU are read, as lines, once a mask of them was written into it.
///
/// # Errors
/// `ENOTTY` where the driver has no events, `EINVAL` where there is no such GPU.
pub fn kfd_events(driver: BorrowedFd<'_>, gpu_id: u32) -> Result<OwnedFd, Errno> {
    /// `kfd_ioctl_smi_events_args` of the kernel's `kfd_ioctl.h`.
    #[repr(C)]
    struct SmiEvents {
        gpu_id: u32,
        fd: i32,
    }
    /// `AMDKFD_IOC_SMI_EVENTS`: _IOWR('K', 0x1f, 8 bytes).
    const SMI_EVENTS: libc::c_ulong = 0xc008_4b1f;
    let mut arguments = SmiEvents { gpu_id, fd: -1 };
    // SAFETY: the call reads and writes this structure.
    let result = unsafe { libc::ioctl(driver.as_raw_fd(), SMI_EVENTS, &raw mut arguments) };
    Errno::result(result)?;
    // SAFETY: the driver just made this descriptor and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(arguments.fd) };
    // The driver makes it without this.
    nix::fcntl::fcntl(
        &fd,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
    )?;
    Ok(fd)
}

/// The seals of a memory object; empty when it is no such object.
#[must_use]
pub fn seals(fd: BorrowedFd<'_>) -> i32 {
    // SAFETY: the call takes integers only.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    seals.max(0)
}

/// Whether a path leads to the device that forgets what is written to it.
#[must_use]
pub fn is_null_device(path: &Path) -> bool {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    std::fs::metadata(path).is_ok_and(|about| {
        about.file_type().is_char_device() && about.rdev() == libc::makedev(1, 3)
    })
}

/// Links that are followed, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// The path with each link in it that leads nowhere yet replaced by where it leads, so that this can be made.
#[must_use]
pub fn behind_dangling_links(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let missing = path.ancestors().take_while(|part| !part.exists());
        let dangling = missing.filter_map(|part| Some((part, std::fs::read_link(part).ok()?)));
        let Some((link, target)) = dangling.last() else {
            break;
        };
        let rest = path.strip_prefix(link).unwrap_or(Path::new(""));
        let folder = link.parent().unwrap_or(Path::new("/"));
        // Joining nothing would add a slash.
        path = match rest.as_os_str().is_empty() {
            true => folder.join(target),
            false => folder.join(target).join(rest),
        };
    }
    path
}

/// Whether bytes stand in others.
#[must_use]
pub fn contains(text: &[u8], word: &[u8]) -> bool {
    // SAFETY: both are slices, whose lengths are given.
    let found = unsafe {
        libc::memmem(
            text.as_ptr().cast(),
            text.len(),
            word.as_ptr().cast(),
            word.len(),
        )
    };
    !found.is_null()
}

/// CLOCK_MONOTONIC in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}

/// A time in nanoseconds.
#[must_use]
pub fn nanoseconds(time: libc::timespec) -> u64 {
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Where the words of our command line are in memory (proc(5), arg_start and arg_end); empty when
/// that is not known.
#[must_use]
pub fn own_arguments() -> std::ops::Range<usize> {
    // The name in it is whatever bytes it is.
    let text = std::fs::read("/proc/self/stat").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = after_name.split_whitespace().skip(45);
    let mut next = || fields.next().and_then(|field| field.parse().ok());
    match (next(), next()) {
        (Some(start), Some(end)) if start < end => start..end,
        _ => 0..0,
    }
}

/// Queues a signal with a value to one thread, in the manner of `sigqueue`.
///
/// # Errors
/// `ESRCH` when the thread is gone, `EPERM` when it is not ours.
pub fn queue_signal(pid: u32, tid: u32, signal: i32, value: i32) -> Result<(), Errno> {
    /// The head of the kernel's `siginfo_t` for queued signals on 64-bit machines.
    #[repr(C)]
    struct QueuedSignal {
        signo: i32,
        errno: i32,
        code: i32,
        padding: i32,
        pid: i32,
        uid: u32,
        value: usize,
        rest: [u64; 12],
    }
    const _: () = assert!(size_of::<QueuedSignal>() == size_of::<libc::siginfo_t>());
    let info = QueuedSignal {
        signo: signal,
        errno: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        pid: std::process::id().cast_signed(),
        uid: nix::unistd::getuid().as_raw(),
        value: value.cast_unsigned() as usize,
        rest: [0; 12],
    };
    // SAFETY: the kernel copies a whole siginfo_t from `info`, which has that size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::c_long::from(pid),
            libc::c_long::from(tid),
            libc::c_long::from(signal),
            std::ptr::from_ref(&info),
        )
    };
    Errno::result(result).map(drop)
}

/// Wakes all threads, of any process, that sleep on a word of shared memory.
pub fn futex_wake(word: &std::sync::atomic::AtomicU32) {
    // SAFETY: the kernel only looks the address up.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// A number that nobody can guess. Asks the kernel, for there may be no `/dev`.
///
/// # Errors
/// When the kernel has none.
pub fn random() -> Result<u128, Errno> {
    let mut bytes = [0_u8; 16];
    // SAFETY: the call fills at most the given bytes; so few come at once or not at all.
    let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    Errno::result(filled)?;
    Ok(u128::from_ne_bytes(bytes))
}

/// Makes the calling thread yield to others: it works for the profiler, not for the user.
pub fn lower_thread_priority() {
    // SAFETY: takes integers only; 0 means the calling thread on Linux. A failure changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
}

/// Raises the priority of the calling thread, where that is permitted, until this is dropped: somebody else's thread waits for it.
#[derive(Debug)]
pub struct Urgent {
    before: i32,
}

impl Urgent {
    /// How far above others.
    const NICE: i32 = -15;

    /// The priority is raised from now on.
    #[must_use]
    pub fn begin() -> Self {
        // SAFETY: takes integers only; 0 means the calling thread on Linux. A failure changes nothing.
        let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        // SAFETY: as above.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, Self::NICE.min(before)) };
        Self { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // SAFETY: as above. Lower is always permitted.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.before) };
    }
}

/// Whether a signal waits in this process that asks it to end: they are blocked, for whoever serves them.
#[must_use]
pub fn is_asked_to_end() -> bool {
    // SAFETY: all zeros are an empty set.
    let mut pending: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: room for the set.
    unsafe { libc::sigpending(&raw mut pending) };
    // SAFETY: a set and numbers of signals.
    let is_pending = |signal| unsafe { libc::sigismember(&raw const pending, signal) } == 1;
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP]
        .into_iter()
        .any(is_pending)
}

/// A clock's time in nanoseconds.
#[must_use]
pub fn clock_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| time.num_nanoseconds().max(0).cast_unsigned())
}

/// CLOCK_BOOTTIME, the clock of all records, in nanoseconds.
#[must_use]
pub fn boot_time_ns() -> u64 {
    clock_ns(ClockId::CLOCK_BOOTTIME)
}

/// By how many nanoseconds our CLOCK_BOOTTIME is ahead of the machine's, because we live in a time
/// namespace.
#[must_use]
pub fn boot_offset_ns() -> i64 {
    let path = |name: &'static CStr| Path::new(OsStr::from_bytes(name.to_bytes()));
    let [own, childrens] = clocks::NAMESPACES.map(|name| std::fs::read_link(path(name)).ok());
    if own != childrens {
        return 0;
    }
    // Kernels before 5.6 have no such file, and no such namespaces.
    let text = std::fs::read(path(clocks::OFFSETS_FILE)).unwrap_or_default();
    clocks::boot_offset_ns(&text)
}

/// What this process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnUsage {
    /// CPU time of all its threads.
    pub cpu: Duration,
    /// The most memory it had resident, in bytes.
    pub peak_resident_bytes: u64,
}

/// What this process has used so far.
#[must_use]
pub fn own_usage() -> OwnUsage {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return OwnUsage::default();
    };
    OwnUsage {
        cpu: cpu_time(&usage),
        peak_resident_bytes: usage.max_rss().max(0).cast_unsigned() * 1024,
    }
}

/// CPU time of all descendants that were waited for.
#[must_use]
pub fn children_cpu() -> Duration {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| cpu_time(&usage))
}

fn cpu_time(usage: &Usage) -> Duration {
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(microseconds.max(0).cast_unsigned())
}

/// The local time now in the notation of strftime(3); `None` when it would be empty or very long.
#[must_use]
pub fn local_time(format: &str) -> Option<String> {
    // SAFETY: asks for the time alone.
    local_time_at(format, unsafe { libc::time(std::ptr::null_mut()) })
}

/// The local time at `seconds` after 1970 in the notation of strftime(3); `None` when it would be
/// empty or very long.
#[must_use]
pub fn local_time_at(format: &str, seconds: i64) -> Option<String> {
    let format = CString::new(format).ok()?;
    let mut text = vec![0_u8; 256];
    // SAFETY: `seconds` and `parts` are valid places; `text` has the given length, and the format ends in NUL.
    let length = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&raw const seconds, &raw mut parts).is_null() {
            return None;
        }
        libc::strftime(
            text.as_mut_ptr().cast(),
            text.len(),
            format.as_ptr(),
            &raw const parts,
        )
    };
    text.truncate(length);
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

/// How a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// It runs, or was continued.
    Running,
    /// A signal stopped it.
    Stopped,
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it; it may be a real-time signal, which has no name.
    Killed(i32),
}

/// How the child `pid` is, without waiting.
///
/// # Errors
/// `ECHILD` when it is not our child.
pub fn child_state(pid: i32) -> Result<ChildState, Errno> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the answer.
    let result = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    Ok(match Errno::result(result)? {
        0 => ChildState::Running,
        _ if libc::WIFEXITED(status) => ChildState::Exited(libc::WEXITSTATUS(status)),
        _ if libc::WIFSIGNALED(status) => ChildState::Killed(libc::WTERMSIG(status)),
        _ if libc::WIFSTOPPED(status) => ChildState::Stopped,
        _ => ChildState::Running,
    })
}

/// Sends ourselves a signal with its default action, even if it was blocked. Returns if that does
/// not end us.
pub fn end_by_signal(signal: i32) {
    // SAFETY: the default action runs no code of ours; the set is a valid place that `sigemptyset` fills.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}
