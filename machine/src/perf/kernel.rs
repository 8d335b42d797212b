//! `perf_event_open(2)`, real and simulated.

use std::fmt::Debug;
use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::ForkResult;
use perf_event_open_sys::bindings::PERF_FLAG_FD_CLOEXEC;

use super::attributes::Attributes;
use super::facts::Facts;
use crate::roots::Roots;

/// Values of `perf_event_attr.type`.
pub mod kind {
    /// Generic hardware events.
    pub use perf_event_open_sys::bindings::PERF_TYPE_HARDWARE as HARDWARE;
    /// Generic cache events.
    pub use perf_event_open_sys::bindings::PERF_TYPE_HW_CACHE as CACHE;
    /// Events of the processor by their code.
    pub use perf_event_open_sys::bindings::PERF_TYPE_RAW as RAW;
    /// Events of the kernel itself.
    pub use perf_event_open_sys::bindings::PERF_TYPE_SOFTWARE as SOFTWARE;
    /// Tracepoints.
    pub use perf_event_open_sys::bindings::PERF_TYPE_TRACEPOINT as TRACEPOINT;
}

/// What is to be counted, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `config`, `config1`, `config2`.
    pub config: [u64; 3],
    /// Whether only what happens in user mode is counted.
    pub user_only: bool,
    /// Of whom.
    pub scope: Scope,
}

/// Whose events are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of a thread.
    Thread,
    /// Those of this processor, whoever runs there.
    Processor(u32),
}

impl Event {
    /// An event of a thread.
    #[must_use]
    pub const fn new(kind: u32, config: u64) -> Self {
        Self {
            kind,
            config: [config, 0, 0],
            user_only: false,
            scope: Scope::Thread,
        }
    }

    /// An event of the kernel itself.
    #[must_use]
    pub const fn software(config: u64) -> Self {
        Self::new(kind::SOFTWARE, config)
    }

    /// Whether it happens inside the kernel, so that counting user mode only gives 0: context switches (3), migrations (4),
    /// BPF output (10), control-group switches (11), tracepoints.
    #[must_use]
    pub fn in_kernel_only(&self) -> bool {
        match self.kind {
            kind::SOFTWARE => matches!(self.config[0], 3 | 4 | 10 | 11),
            kind::TRACEPOINT => true,
            _ => false,
        }
    }
}

/// Who answers.
pub trait Kernel: Debug {
    /// Opens and closes an event.
    ///
    /// # Errors
    /// What the kernel says.
    fn open(&self, event: &Event) -> Result<(), Errno>;
}

/// The kernel below us.
#[derive(Debug)]
pub struct System {
    /// Whether a filter ends a process that asks.
    deadly: bool,
}

impl System {
    /// Under a seccomp filter a child asks first, since the filter may end whoever asks.
    #[must_use]
    pub fn new(facts: &Facts) -> Self {
        Self {
            deadly: facts.seccomp_filter && !child_survives(),
        }
    }
}

impl Kernel for System {
    fn open(&self, event: &Event) -> Result<(), Errno> {
        if self.deadly {
            return Err(Errno::EPERM);
        }
        perf_event_open(event).map(drop)
    }
}

fn child_survives() -> bool {
    // SAFETY: whatever other threads hold locked in the child, it makes system calls only and ends at once.
    match unsafe { nix::unistd::fork() } {
        Ok(ForkResult::Child) => {
            perf_event_open(&Event::software(0)).ok();
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => {
            matches!(waitpid(child, None), Ok(WaitStatus::Exited(..)))
        }
        Err(_) => true,
    }
}

fn perf_event_open(event: &Event) -> Result<OwnedFd, Errno> {
    let attributes = Attributes::counting(event);
    match event.scope {
        Scope::Thread => open(&attributes, 0, -1),
        Scope::Processor(number) => open(&attributes, -1, i64::from(number)),
    }
}

/// Opens an event of the calling thread: on whatever processor it runs, or on one of them.
///
/// # Errors
/// What the kernel says.
pub fn open_event(attributes: &Attributes, processor: Option<u32>) -> Result<OwnedFd, Errno> {
    open(attributes, 0, processor.map_or(-1, i64::from))
}

/// Opens an event of another thread, on whatever processor it runs.
///
/// # Errors
/// What the kernel says.
pub fn open_event_of(attributes: &Attributes, tid: u32) -> Result<OwnedFd, Errno> {
    open(attributes, i64::from(tid), -1)
}

fn open(attributes: &Attributes, pid: i64, processor: i64) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel reads as many bytes of the attributes as they say that they have; the rest are integers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            pid,
            processor,
            -1_i64,
            u64::from(PERF_FLAG_FD_CLOEXEC),
        )
    };
    let fd = i32::try_from(Errno::result(result)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel just made this descriptor and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A kernel whose answers a test has written down, in the file `perf_event_open` below the root of the machine.
///
/// Each line is `KIND ANSWER [WHEN]`: the number of the kind of event, or `KIND:CONFIG` in hexadecimal, or `*`; `ok` or the name of
/// an error; nothing, or `kernel` for events that count in the kernel, or `processor` for those that count whole processors. The
/// first line that fits answers; without one it is ENOENT.
#[derive(Debug, Default)]
pub struct Simulated {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    kind: Option<u32>,
    config: Option<u64>,
    answer: Result<(), Errno>,
    only_kernel: bool,
    only_processor: bool,
}

impl Simulated {
    /// Reads the file.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        Self::parse(&roots.text("perf_event_open").unwrap_or_default())
    }

    /// Reads the text of such a file.
    ///
    /// # Panics
    /// When a line is not of the form above: a test would test something else.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let rules = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim())
            .filter(|line| !line.is_empty())
            .map(|line| Rule::parse(line).unwrap_or_else(|| panic!("not a rule: {line}")))
            .collect();
        Self { rules }
    }
}

impl Rule {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let what = words.next()?;
        let answer = match words.next()? {
            "ok" => Ok(()),
            "ENOENT" => Err(Errno::ENOENT),
            "EACCES" => Err(Errno::EACCES),
            "EPERM" => Err(Errno::EPERM),
            "ENOSYS" => Err(Errno::ENOSYS),
            "EOPNOTSUPP" => Err(Errno::EOPNOTSUPP),
            "EINVAL" => Err(Errno::EINVAL),
            "EBUSY" => Err(Errno::EBUSY),
            _ => return None,
        };
        let when = words.next();
        let (kind, config) = match what.split_once(':') {
            Some((kind, config)) => (kind, Some(u64::from_str_radix(config, 16).ok()?)),
            None => (what, None),
        };
        Some(Self {
            kind: if kind == "*" {
                None
            } else {
                Some(kind.parse().ok()?)
            },
            config,
            answer,
            only_kernel: when == Some("kernel"),
            only_processor: when == Some("processor"),
        })
    }
}

impl Kernel for Simulated {
    fn open(&self, event: &Event) -> Result<(), Errno> {
        self.rules
            .iter()
            .find(|rule| {
                rule.kind.is_none_or(|kind| kind == event.kind)
                    && rule.config.is_none_or(|config| config == event.config[0])
                    && !(rule.only_kernel && event.user_only)
                    && !(rule.only_processor && event.scope == Scope::Thread)
            })
            .map_or(Err(Errno::ENOENT), |rule| rule.answer)
    }
}
