//! What the kernel says of one thread: two files in `/proc/PID/task/TID`.
//!
//! `schedstat` (proc(5)) counts CPU time, time spent waiting for a processor, and turns on one.
//! `syscall` names the system call that a thread is blocked in, its arguments, stack pointer and
//! program counter; reading it takes the right to trace the process, but disturbs nobody.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::sys::uio::pread;

use super::record::Used;

/// Room for a line of either file.
const LINE_BYTES: usize = 256;

/// The counters of `schedstat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turns {
    /// CPU time.
    pub cpu_ns: u64,
    /// Time that it waited for a processor.
    pub delay_ns: u64,
    /// How often it was put on a processor; 0 when the kernel does not count.
    pub count: u64,
}

impl Turns {
    /// What the thread has used.
    #[must_use]
    pub fn used(&self) -> Used {
        Used {
            cpu_ns: self.cpu_ns,
            delay_ns: self.delay_ns,
        }
    }
}

/// A system call in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Where a blocked thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// The system call; none in a page fault, or when the thread was stopped outside of a call.
    pub call: Option<Call>,
    /// Stack pointer.
    pub sp: u64,
    /// Program counter.
    pub pc: u64,
}

/// What `syscall` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs, or waits for a processor.
    Running,
    /// It is blocked.
    Blocked(Blocked),
    /// It has no user code to be in: it has ended, or works for the kernel.
    Elsewhere,
}

/// One file of a thread: kept open, or opened for each look when descriptors are short.
#[derive(Debug)]
struct ThreadFile {
    name: String,
    kept: Option<OwnedFd>,
}

impl ThreadFile {
    fn new(tasks: BorrowedFd<'_>, tid: u32, name: &str, keep: bool) -> Result<Self, Errno> {
        let name = format!("{tid}/{name}");
        let kept = if keep {
            Some(open(tasks, &name)?)
        } else {
            None
        };
        Ok(Self { name, kept })
    }

    fn read<'a>(
        &self,
        tasks: BorrowedFd<'_>,
        buffer: &'a mut [u8; LINE_BYTES],
    ) -> Result<&'a str, Errno> {
        let length = match &self.kept {
            Some(file) => pread(file.as_fd(), buffer, 0)?,
            None => pread(open(tasks, &self.name)?.as_fd(), buffer, 0)?,
        };
        let line = buffer.get(..length).unwrap_or_default();
        Ok(std::str::from_utf8(line).unwrap_or_default())
    }
}

fn open(tasks: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    openat(
        tasks,
        name,
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
}

/// The files of one thread.
#[derive(Debug)]
pub struct ThreadFiles {
    turns: ThreadFile,
    call: ThreadFile,
}

impl ThreadFiles {
    /// How many descriptors a thread takes whose files are kept open.
    pub const DESCRIPTORS: usize = 2;

    /// The files of thread `tid` below a process's `task` folder.
    ///
    /// # Errors
    /// `ENOENT` or `ESRCH` when the thread is gone.
    pub fn new(tasks: BorrowedFd<'_>, tid: u32, keep: bool) -> Result<Self, Errno> {
        Ok(Self {
            turns: ThreadFile::new(tasks, tid, "schedstat", keep)?,
            call: ThreadFile::new(tasks, tid, "syscall", keep)?,
        })
    }

    /// Whether the files are kept open.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.call.kept.is_some()
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// `ESRCH` when the thread is gone.
    pub fn turns(&self, tasks: BorrowedFd<'_>) -> Result<Turns, Errno> {
        let mut buffer = [0; LINE_BYTES];
        Ok(parse_turns(self.turns.read(tasks, &mut buffer)?).unwrap_or_default())
    }

    /// Reads what the thread does.
    ///
    /// # Errors
    /// `ESRCH` when the thread is gone, `EPERM` or `EACCES` when we may not know.
    pub fn state(&self, tasks: BorrowedFd<'_>) -> Result<State, Errno> {
        let mut buffer = [0; LINE_BYTES];
        Ok(parse_state(self.call.read(tasks, &mut buffer)?).unwrap_or(State::Elsewhere))
    }
}

fn parse_turns(line: &str) -> Option<Turns> {
    let mut numbers = line.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(Turns {
        cpu_ns: next()?,
        delay_ns: next()?,
        count: next()?,
    })
}

fn parse_state(line: &str) -> Option<State> {
    let line = line.trim_end();
    if line == "running" {
        return Some(State::Running);
    }
    let mut words = line.split(' ');
    let number: i64 = words.next()?.parse().ok()?;
    let mut values = [0_u64; 8];
    let mut count = 0;
    for (value, word) in values.iter_mut().zip(words) {
        *value = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        count += 1;
    }
    let (call, sp, pc) = match (number, count, values) {
        (-1, 2, [sp, pc, ..]) => (None, sp, pc),
        (_, 8, [a, b, c, d, e, f, sp, pc]) => {
            let arguments = [a, b, c, d, e, f];
            (Some(Call { number, arguments }), sp, pc)
        }
        _ => return None,
    };
    if sp == 0 || pc == 0 {
        return Some(State::Elsewhere);
    }
    Some(State::Blocked(Blocked { call, sp, pc }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    #[test]
    fn lines_of_the_kernel_are_read() {
        let call = Call {
            number: 230,
            arguments: [0, 0, 0x10, 0x20, 0, 0],
        };
        for (line, expected) in [
            ("running\n", Some(State::Running)),
            (
                "230 0x0 0x0 0x10 0x20 0x0 0x0 0x7ffc 0x7fb5\n",
                Some(State::Blocked(Blocked {
                    call: Some(call),
                    sp: 0x7ffc,
                    pc: 0x7fb5,
                })),
            ),
            (
                "-1 0x7ffc 0x7fb5\n",
                Some(State::Blocked(Blocked {
                    call: None,
                    sp: 0x7ffc,
                    pc: 0x7fb5,
                })),
            ),
            ("-1 0x0 0x0\n", Some(State::Elsewhere)),
            ("", None),
            ("230 0x0\n", None),
            ("230 0 0 0 0 0 0 0 0\n", None),
        ] {
            assert_eq!(parse_state(line), expected, "{line}");
        }
        let turns = Turns {
            cpu_ns: 1_009_806,
            delay_ns: 34_661,
            count: 6,
        };
        assert_eq!(parse_turns("1009806 34661 6\n"), Some(turns));
        assert_eq!(parse_turns("1 2\n"), None);
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in ".{0,80}") {
            std::hint::black_box((parse_state(&line), parse_turns(&line)));
        }
    }

    #[test]
    fn a_child_that_reads_is_seen_in_its_call() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat runs");
        let tasks = File::open(format!("/proc/{}/task", child.id())).unwrap();
        for keep in [true, false] {
            let files = ThreadFiles::new(tasks.as_fd(), child.id(), keep).unwrap();
            assert_eq!(files.are_kept(), keep);
            loop {
                let state = files.state(tasks.as_fd()).unwrap();
                let number = match state {
                    State::Blocked(Blocked { call, .. }) => call.map(|call| call.number),
                    _ => None,
                };
                if number == Some(libc::SYS_read) {
                    break;
                }
                std::thread::yield_now();
            }
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        let gone = ThreadFiles::new(tasks.as_fd(), child.id(), true);
        assert!(matches!(gone, Err(Errno::ENOENT | Errno::ESRCH)));
    }
}
