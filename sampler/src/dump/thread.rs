//! One look at one thread.
//!
//! What a blocked thread does is read from outside, and believed if the thread has not moved meanwhile. One that runs is stopped (`stopping`).

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use super::owner::{self, Owner};
use crate::attach::judge::Status;
use crate::procfs;
use crate::waits::image::{Image, Walked};
use crate::waits::python::{INTERPRETER_LOCK, Python, PythonLook, PythonThread};
use crate::waits::record::{Wait, WaitRecord};
use crate::waits::syscalls;
use crate::waits::thread::{Blocked, State, ThreadFiles, Turns};

/// How often a thread is looked at that moves whenever it is.
const TRIES: u32 = 10;
/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    /// It is on a processor.
    Running,
    /// It waits for a processor.
    Runnable,
    /// It is blocked, and signals reach it.
    Asleep,
    /// It is blocked, and signals do not reach it: state D.
    Uninterruptible,
    /// A signal has stopped its process.
    Stopped,
    /// A debugger has stopped it.
    Traced,
    /// It has ended, and others of its process have not.
    Ended,
}

impl Doing {
    fn of(letter: char) -> Self {
        match letter {
            'R' => Doing::Running,
            'D' => Doing::Uninterruptible,
            'T' => Doing::Stopped,
            't' => Doing::Traced,
            'Z' | 'X' | 'x' => Doing::Ended,
            _ => Doing::Asleep,
        }
    }
}

/// A thread as it was seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its id as we see it, and as its process knows it.
    pub tid: u32,
    pub own_tid: u32,
    pub name: String,
    pub doing: Doing,
    pub cpu: Duration,
    /// What it waits for, and its stack.
    pub wait: Option<Arc<Wait>>,
    /// Who holds what it waits for.
    pub owner: Option<Owner>,
    /// It holds the lock of its Python interpreter.
    pub holds_interpreter: bool,
    /// Why there is no stack.
    pub trouble: Option<String>,
}

/// Looks at the threads of one process.
#[derive(Debug)]
pub(super) struct Eye<'a> {
    pub pid: u32,
    pub tasks: &'a File,
    pub image: &'a mut Image,
    pub python: Option<&'a mut Python>,
    pub depth_max: usize,
    pub is_of_64_bits: bool,
    pub time_ns: u64,
    pub own_tids: &'a HashMap<u32, u32>,
    /// A broken stack is not for want of modules that are new.
    pub modules_are_known: bool,
    /// What was found for the first time.
    pub records: Vec<WaitRecord>,
    /// For how long a thread was stopped at most.
    pub stood: Duration,
}

/// A stack, and what goes with it.
#[derive(Debug)]
pub(super) struct Found {
    pub walked: Walked,
    pub python: PythonLook,
    holds_interpreter: bool,
}

/// What came of one look.
pub(super) enum Look {
    /// All that can be known.
    Done,
    /// The thread is gone.
    Gone,
    /// It moved meanwhile.
    Again,
}

impl Eye<'_> {
    /// Looks at a thread; `None` when it has ended.
    pub fn look(&mut self, tid: u32) -> Option<Seen> {
        let mut seen = Seen {
            tid,
            own_tid: self.own_tids.get(&tid).copied().unwrap_or(tid),
            name: self.name(tid),
            doing: Doing::Ended,
            cpu: Duration::ZERO,
            wait: None,
            owner: None,
            holds_interpreter: false,
            trouble: None,
        };
        let files = ThreadFiles::new(self.tasks.as_fd(), tid, false).ok()?;
        for _ in 0..TRIES {
            let (letter, ticks) = procfs::state_and_ticks(&self.task(tid))?;
            seen.doing = Doing::of(letter);
            let turns = files.turns(self.tasks.as_fd()).ok()?;
            seen.cpu = cpu(turns, ticks);
            if !self.is_of_64_bits {
                seen.trouble = Some("stacks of 32-bit programs are not read".to_owned());
                break;
            }
            let look = match seen.doing {
                Doing::Ended => Look::Done,
                // Another rsys-sample looks at it, or lets samples through: for less than a millisecond.
                Doing::Traced if self.is_traced_by_us(tid) => Look::Again,
                Doing::Running => self.running(&mut seen),
                Doing::Stopped => self.halted(&mut seen, &files, turns),
                Doing::Runnable | Doing::Asleep | Doing::Uninterruptible | Doing::Traced => {
                    self.blocked(&mut seen, &files, turns)
                }
            };
            match look {
                Look::Done => return Some(seen),
                Look::Gone => return None,
                // It goes on by itself, so that the next look finds it elsewhere.
                Look::Again => std::thread::yield_now(),
            }
        }
        if seen.trouble.is_none() {
            seen.trouble = Some("it moved whenever it was looked at".to_owned());
        }
        Some(seen)
    }

    /// A thread that is blocked is read from outside.
    pub(super) fn blocked(&mut self, seen: &mut Seen, files: &ThreadFiles, turns: Turns) -> Look {
        let blocked = match files.state(self.tasks.as_fd()) {
            Ok(State::Blocked(blocked)) => blocked,
            Ok(State::Running) => return Look::Again,
            Ok(State::Elsewhere) => {
                seen.trouble =
                    Some("it has no stack: it begins, ends, or works for the kernel".to_owned());
                return Look::Done;
            }
            Err(nix::errno::Errno::EPERM | nix::errno::Errno::EACCES) => {
                seen.trouble = Some("the kernel does not show where it is".to_owned());
                return Look::Done;
            }
            Err(_) => return Look::Gone,
        };
        let walked = self.image.walk(&blocked, self.depth_max);
        if walked.awaits_modules && self.has_new_modules() {
            return Look::Again;
        }
        let found = self.with_python(walked, seen.own_tid, &blocked);
        let owner = owner::of(&blocked, seen.own_tid, self.image, self.own_tids);
        let label = self.label(seen.tid, &blocked);
        // The counters stand still while it is blocked, where the kernel counts.
        let now = files.turns(self.tasks.as_fd());
        let still = turns.count != 0 && now.map(|now| now.count) == Ok(turns.count);
        if !still && files.state(self.tasks.as_fd()) != Ok(State::Blocked(blocked)) {
            return Look::Again;
        }
        seen.owner = owner;
        let label = match found.python.lock {
            Some(_) => INTERPRETER_LOCK.to_owned(),
            None => label,
        };
        self.keep(seen, found, &label);
        Look::Done
    }

    /// Reads the modules anew, for a stack that is broken, and says whether there were others. Where there were none, they are not read again.
    pub(super) fn has_new_modules(&mut self) -> bool {
        if self.modules_are_known {
            return false;
        }
        let before = self.image.modules_generation();
        self.image.all_modules();
        self.modules_are_known = self.image.modules_generation() == before;
        !self.modules_are_known
    }

    /// Adds what there is of Python in a thread with this native stack.
    pub(super) fn with_python(&mut self, walked: Walked, own_tid: u32, blocked: &Blocked) -> Found {
        let mut found = Found {
            walked,
            python: PythonLook::default(),
            holds_interpreter: false,
        };
        let Some(python) = self.python.as_deref_mut() else {
            return found;
        };
        let mut thread = PythonThread::default();
        let words = &found.walked.words;
        let mut look = python.look(self.image, words, own_tid, blocked, &mut thread);
        if look.is_none() {
            python.read_lists_anew();
            look = python.look(self.image, words, own_tid, blocked, &mut thread);
        }
        found.python = look.unwrap_or_default();
        found.holds_interpreter = python.holds_lock(&found.python, &thread);
        found
    }

    pub(super) fn keep(&mut self, seen: &mut Seen, found: Found, label: &str) {
        let Found {
            walked,
            mut python,
            holds_interpreter,
        } = found;
        let mut modules = Vec::new();
        self.image
            .new_modules(&walked.words, self.time_ns, &mut modules);
        let modules = modules.into_iter().map(WaitRecord::Module);
        self.records.extend(modules);
        if let Some(known) = self.python.as_deref_mut() {
            known.record(&mut python, self.time_ns, &mut self.records);
        }
        let wait = Arc::new(Wait {
            label: label.into(),
            words: walked.words,
            completeness: walked.completeness,
            python: python.wait,
            lock: python.lock,
            is_own: false,
        });
        self.records.push(WaitRecord::Begin {
            tid: seen.own_tid,
            time_ns: self.time_ns,
            seen_ns: self.time_ns,
            used: Default::default(),
            wait: Arc::clone(&wait),
        });
        seen.holds_interpreter = holds_interpreter;
        seen.wait = Some(wait);
    }

    fn label(&self, tid: u32, blocked: &Blocked) -> String {
        if let Some(call) = &blocked.call {
            return syscalls::label(call, self.pid, self.image);
        }
        let stat = fs::read(format!("/proc/{}/stat", self.task(tid))).unwrap_or_default();
        syscalls::label_outside_calls(&String::from_utf8_lossy(&stat)).to_owned()
    }

    /// Whether another rsys-sample has stopped a thread.
    pub(super) fn is_traced_by_us(&self, tid: u32) -> bool {
        let tracer = Status::of(&self.task(tid)).and_then(|status| status.tracer());
        tracer.is_some_and(|(_, name)| name == "rsys-sample")
    }

    pub(super) fn task(&self, tid: u32) -> String {
        format!("{}/task/{tid}", self.pid)
    }

    fn name(&self, tid: u32) -> String {
        let name = fs::read(format!("/proc/{}/comm", self.task(tid))).unwrap_or_default();
        String::from_utf8_lossy(&name)
            .trim_end_matches('\n')
            .to_owned()
    }
}

/// CPU time, to the nanosecond where the kernel counts so.
fn cpu(turns: Turns, ticks: u64) -> Duration {
    if turns.cpu_ns > 0 {
        return Duration::from_nanos(turns.cpu_ns);
    }
    // SAFETY: no arguments but the name.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).unwrap_or(0).max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_states() {
        for (letter, doing) in [
            ('R', Doing::Running),
            ('S', Doing::Asleep),
            ('D', Doing::Uninterruptible),
            ('T', Doing::Stopped),
            ('t', Doing::Traced),
            ('Z', Doing::Ended),
        ] {
            assert_eq!(Doing::of(letter), doing);
        }
    }
}
