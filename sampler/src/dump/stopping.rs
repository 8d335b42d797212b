//! Threads that run: stopped for as long as their stack is copied.
//!
//! One that runs Python is stopped twice. The first time finds out that it does, and all that has to be known of its program is read while it runs
//! again; the second time its Python frames are read before it goes on. The thread of ours that stops it ends with the look: where we are killed, or
//! it does not stop in time, the kernel lets it go.

use std::time::Duration;

use rsys_unwind::Registers;

use super::thread::{Doing, Eye, Found, Look, Seen};
use crate::attach::stop::{NotStopped, Stopped};
use crate::os;
use crate::procfs;
use crate::waits::record::Completeness;
use crate::waits::thread::{Blocked, ThreadFiles, Turns};

/// How long a thread may take to stop. It does at the next instruction of its own; the kernel may keep it longer, as a busy machine may.
const PATIENCE: Duration = Duration::from_millis(250);

impl Eye<'_> {
    /// A thread that runs is stopped.
    pub(super) fn running(&mut self, seen: &mut Seen) -> Look {
        if is_on_processor(&self.task(seen.tid)) == Some(false) {
            seen.doing = Doing::Runnable;
        }
        // The first time finds out what there is, and reads of the program what is needed.
        let first = self.stopped(seen.tid, seen.own_tid, false);
        let found = match first {
            Ok(found) if found.walked.words.is_empty() => Err(NotStopped::Again),
            Ok(found) => {
                let runs_python = found.python.is_in_interpreter();
                let is_broken = found.walked.completeness == Completeness::Broken;
                match runs_python || is_broken && self.has_new_modules() {
                    true => self.stopped(seen.tid, seen.own_tid, runs_python),
                    false => Ok(found),
                }
            }
            Err(error) => Err(error),
        };
        match found {
            Ok(found) => {
                self.keep(seen, found, "");
                Look::Done
            }
            Err(NotStopped::Gone) => Look::Gone,
            Err(NotStopped::Again | NotStopped::ByOthers) => Look::Again,
            Err(NotStopped::Busy) => {
                seen.trouble =
                    Some("it works in the kernel, which does not stop it there".to_owned());
                Look::Done
            }
            Err(NotStopped::Forbidden(_)) if self.is_traced_by_us(seen.tid) => Look::Again,
            Err(NotStopped::Forbidden(error)) => {
                seen.trouble = Some(format!(
                    "it runs, and cannot be stopped to read its stack: {} (ptrace)",
                    error.desc()
                ));
                Look::Done
            }
        }
    }

    /// A thread of a process that is stopped by a signal: it has all its registers for us, and stays stopped.
    pub(super) fn halted(&mut self, seen: &mut Seen, files: &ThreadFiles, turns: Turns) -> Look {
        match self.stopped(seen.tid, seen.own_tid, true) {
            Ok(found) => {
                self.keep(seen, found, "");
                Look::Done
            }
            Err(NotStopped::Gone) => Look::Gone,
            Err(NotStopped::Forbidden(_)) => self.blocked(seen, files, turns),
            Err(_) => Look::Again,
        }
    }

    /// Stops a thread and copies its stack. Its Python frames count only if all is read before it goes on: `whole`.
    fn stopped(&mut self, tid: u32, own_tid: u32, whole: bool) -> Result<Found, NotStopped> {
        let pid = self.pid;
        let begun = std::thread::scope(|scope| {
            let look = || {
                // It ends with this thread.
                let _urgent = os::Urgent::begin();
                let stopped = Stopped::stop_within(pid, tid, PATIENCE)?;
                let registers = Registers::from_gregs(&stopped.gregs());
                self.image.copy_stack(&registers);
                let held = if whole {
                    Ok(stopped)
                } else {
                    Err(stopped.let_go())
                };
                let walked = self.image.walk_copied(&registers, self.depth_max);
                let blocked = Blocked {
                    call: None,
                    sp: registers.sp(),
                    pc: registers.pc(),
                };
                let found = self.with_python(walked, own_tid, &blocked);
                let stood = held.map_or_else(|stood| stood, Stopped::let_go);
                Ok((found, stood))
            };
            scope.spawn(look).join()
        });
        // A panic in it has been told; the thread went on.
        let (found, stood) = begun.unwrap_or(Err(NotStopped::Again))?;
        self.stood = self.stood.max(stood);
        Ok(found)
    }
}

/// Whether a thread that could run is on a processor; `None` where the kernel does not tell. It counts how often a thread was put on one
/// (`schedstat`), and how often it left one, by itself or not (`status`): the former is one more while it is there.
fn is_on_processor(task: &str) -> Option<bool> {
    let before = procfs::turns(task)?;
    let status = procfs::text(format!("/proc/{task}/status")).ok()?;
    let left = status
        .lines()
        .filter_map(|line| line.split_once("ctxt_switches:"));
    let left: u64 = left
        .filter_map(|(_, number)| number.trim().parse::<u64>().ok())
        .sum();
    match before.checked_sub(left)? {
        _ if procfs::turns(task)? != before => None,
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_on_a_processor() {
        // A kernel that does not count says nothing.
        assert_ne!(is_on_processor("thread-self"), Some(false));
    }
}
