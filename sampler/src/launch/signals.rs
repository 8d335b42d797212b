//! Signals that arrive at `rsys-sample` and belong to the target.
//!
//! They are blocked and read from a descriptor, so that none of them can end us while traces are open. What the terminal sends goes
//! to the whole process group and so to the target anyway; what somebody sent to us alone is passed on.

use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

const WATCHED: [Signal; 16] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGCONT,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGXCPU,
    Signal::SIGURG,
    // Of our own too large files; a failed write says the same.
    Signal::SIGXFSZ,
];

/// What the main loop should know after signals were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Noticed {
    /// A child changed its state.
    pub child: bool,
    /// Somebody asks us to end: SIGINT, SIGTERM, SIGHUP or SIGQUIT.
    pub ask_to_end: bool,
    /// The target was continued; we may have been too.
    pub continued: bool,
}

/// The watched signals.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
    original_mask: SigSet,
    /// The last stop signal that we saw.
    stop: Option<Signal>,
}

impl Signals {
    /// Blocks the signals in this thread, and so in all threads that it makes from now on.
    ///
    /// # Errors
    /// When the kernel has no descriptor for us.
    pub fn watch() -> Result<Self, Errno> {
        let mut watched = SigSet::empty();
        watched.extend(WATCHED);
        let mut original_mask = SigSet::empty();
        pthread_sigmask(
            SigmaskHow::SIG_BLOCK,
            Some(&watched),
            Some(&mut original_mask),
        )?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self {
            descriptor: SignalFd::with_flags(&watched, flags)?,
            original_mask,
            stop: None,
        })
    }

    /// The mask that we were started with, which is the target's.
    #[must_use]
    pub fn original_mask(&self) -> &SigSet {
        &self.original_mask
    }

    /// Reads what arrived and passes on to `target` what is for it alone.
    pub fn read(&mut self, target: Option<Pid>) -> Noticed {
        let mut noticed = Noticed::default();
        while let Ok(Some(info)) = self.descriptor.read_signal() {
            let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed()) else {
                continue;
            };
            match signal {
                Signal::SIGCHLD => {
                    noticed.child = true;
                    continue;
                }
                Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT => {
                    noticed.ask_to_end = true;
                }
                Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU => self.stop = Some(signal),
                Signal::SIGCONT => {
                    self.stop = None;
                    noticed.continued = true;
                }
                _ => {}
            }
            if let Some(target) = target
                && is_for_us_alone(info.ssi_code, info.ssi_pid, target)
                && !signals_all(info.ssi_pid)
            {
                // The target may have ended by now, or changed its user: nothing to do about either.
                kill(target, signal).ok();
            }
        }
        noticed
    }

    /// The target stopped. If what stopped it was meant for both, we stop as well, and a shell sees the job as stopped.
    pub fn target_stopped(&mut self) {
        if self.stop.take().is_some() {
            kill(Pid::this(), Signal::SIGSTOP).ok();
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether a process sent the signal, other than the target itself; the kernel sends to the whole group.
fn is_for_us_alone(code: i32, sender: u32, target: Pid) -> bool {
    matches!(code, libc::SI_USER | libc::SI_TKILL | libc::SI_QUEUE)
        && sender != target.as_raw().cast_unsigned()
}

/// Whether the sender is Slurm's keeper of a step. It signals every process of a task, the target too: what we passed on would be
/// a second one.
fn signals_all(sender: u32) -> bool {
    let name = std::fs::read(format!("/proc/{sender}/comm"));
    name.is_ok_and(|name| name.trim_ascii_end() == b"slurmstepd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_process_sent_is_passed_on() {
        let target = Pid::from_raw(77);
        const SI_KERNEL: i32 = 0x80;
        for (code, sender, expected) in [
            (libc::SI_USER, 5, true),
            (libc::SI_TKILL, 5, true),
            (libc::SI_QUEUE, 5, true),
            (SI_KERNEL, 0, false),
            (libc::SI_USER, 77, false),
        ] {
            assert_eq!(
                is_for_us_alone(code, sender, target),
                expected,
                "{code} {sender}"
            );
        }
    }
}
