//! What a run needs of the process whose end is its own.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::tracees;
use crate::launch::ending::{self, Ending};
use crate::os::{self, ChildState};

/// The process that a run follows to its end.
pub trait Target: Debug {
    /// Its id, as we see it.
    fn pid(&self) -> Pid;

    /// What happened to it since the last question, which never waits.
    fn change(&mut self) -> Change;

    /// Becomes readable when there is a change, where no SIGCHLD says so.
    fn wakeup(&self) -> Option<BorrowedFd<'_>>;

    /// Whether signals that are sent to us alone are meant for it. If not, those that ask to end ask us to leave it.
    fn is_sent_our_signals(&self) -> bool;

    /// Whether nothing of ours works in it any more. One that we started is left alone when it has ended.
    fn is_left_alone(&self) -> bool {
        true
    }
}

/// What happened to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing that matters.
    Nothing,
    /// A signal stopped it.
    Stopped,
    /// It ended.
    Ended(Ending),
}

/// A target that is our child.
#[derive(Debug)]
pub struct Spawned(pub Pid);

impl Target for Spawned {
    fn pid(&self) -> Pid {
        self.0
    }

    fn change(&mut self) -> Change {
        let pid = self.0.as_raw();
        tracees::release(pid);
        loop {
            return match os::child_state(pid) {
                Ok(ChildState::Running) => Change::Nothing,
                Ok(ChildState::Exited(code)) => Change::Ended(Ending::Code(code as u8)),
                Ok(ChildState::Killed(signal)) => Change::Ended(Ending::Signal(signal)),
                Ok(ChildState::Stopped) => Change::Stopped,
                Err(Errno::EINTR) => continue,
                // Cannot happen: only we wait for our child.
                Err(_) => Change::Ended(Ending::Code(ending::FAILED)),
            };
        }
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn is_sent_our_signals(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    use super::*;

    /// A shell with a script as our child, whose changes wait to be asked for.
    fn target(script: &str, state: WaitPidFlag) -> Spawned {
        let child = Command::new("sh").args(["-c", script]).spawn();
        let pid = Pid::from_raw(child.expect("a shell").id().cast_signed());
        wait(pid, state);
        Spawned(pid)
    }

    fn wait(pid: Pid, state: WaitPidFlag) {
        waitid(Id::Pid(pid), state | WaitPidFlag::WNOWAIT).expect("our child");
    }

    #[test]
    fn a_child_says_how_it_ended() {
        let code = target("exit 7", WaitPidFlag::WEXITED).change();
        assert_eq!(code, Change::Ended(Ending::Code(7)));
        let signal = target("kill -TERM $$", WaitPidFlag::WEXITED).change();
        assert_eq!(signal, Change::Ended(Ending::Signal(libc::SIGTERM)));
    }

    #[test]
    fn a_child_that_stops_has_not_ended() {
        let mut target = target("kill -STOP $$", WaitPidFlag::WSTOPPED);
        assert_eq!(target.change(), Change::Stopped);
        assert_eq!(target.change(), Change::Nothing);
        kill(target.pid(), Signal::SIGKILL).expect("our child");
        wait(target.pid(), WaitPidFlag::WEXITED);
        assert_eq!(
            target.change(),
            Change::Ended(Ending::Signal(libc::SIGKILL))
        );
    }
}
