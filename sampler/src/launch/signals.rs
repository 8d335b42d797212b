//! Signals that arrive at `rsys-sample` and belong to the target.
//!
//! They are blocked and read from a descriptor, so that none of them can end us while traces are
//! open. What is sent to the whole process group, by the terminal or by a process, the target gets
//! anyway; what somebody sent to us alone is passed on.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpgid, getpgrp};

use super::group::Comparison;
use super::witness::{Sent, Witness, is_from_a_process};
use crate::os;
use crate::procfs;

/// The signals that are watched, beside all real-time signals: those that a process sends another. SIGPIPE is of our own output, and the signals of faults in
/// memory are the standard library's.
const USUAL: [i32; 16] = [
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGCONT,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGXCPU,
    libc::SIGURG,
    // Of our own too large files; a failed write says the same.
    libc::SIGXFSZ,
];

/// Those that hardly anybody sends.
const RARE: [i32; 10] = [
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGPROF,
    libc::SIGVTALRM,
    libc::SIGSTKFLT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGFPE,
    libc::SIGSYS,
];

/// Whether a signal is one of those that are rare, all of which end a process without a handler.
fn is_fatal(signal: i32) -> bool {
    signal >= libc::SIGRTMIN() || RARE.contains(&signal)
}

fn watched() -> SigSet {
    let mut set = *SigSet::empty().as_ref();
    for signal in USUAL
        .into_iter()
        .chain(RARE)
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
    {
        // SAFETY: a valid set.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: made of numbers that the C library has taken.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

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
    /// Whether a signal came that stops, and none that continues behind it.
    is_stop_sent: bool,
    witness: Option<Witness>,
    comparison: Comparison,
}

impl Signals {
    /// Blocks the signals in this thread, and so in all threads that it makes from now on.
    ///
    /// # Errors
    /// When the kernel has no descriptor for us.
    pub fn watch() -> Result<Self, Errno> {
        let watched = watched();
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
            is_stop_sent: false,
            witness: None,
            comparison: Comparison::default(),
        })
    }

    /// Starts the witness of signals to the whole group. Without one, all that a process sends us
    /// is passed on.
    pub fn call_witness(&mut self) {
        self.witness = Witness::call().ok();
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
            let signal = info.ssi_signo.cast_signed();
            match signal {
                libc::SIGCHLD => {
                    noticed.child = true;
                    continue;
                }
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => {
                    noticed.ask_to_end = true;
                }
                libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => self.is_stop_sent = true,
                libc::SIGCONT => {
                    self.is_stop_sent = false;
                    noticed.continued = true;
                }
                // Nobody else is there to end by it.
                _ if target.is_none() && is_fatal(signal) => noticed.ask_to_end = true,
                _ => {}
            }
            let sent = Sent {
                signal,
                sender: info.ssi_pid.cast_signed(),
                value: (info.ssi_code == libc::SI_QUEUE).then_some(info.ssi_ptr),
            };
            if let Some(target) = target
                && is_from_another(info.ssi_code, sent.sender, target)
            {
                // What the group gets does not reach a target that has left it.
                if getpgid(Some(target)) == Ok(getpgrp()) {
                    self.comparison.arrived(sent, os::monotonic_ns());
                } else {
                    pass_on(sent, target);
                }
            }
        }
        for sent in self.for_us_alone() {
            if let Some(target) = target {
                pass_on(sent, target);
            }
        }
        noticed
    }

    /// What is known by now to be for us alone.
    fn for_us_alone(&mut self) -> Vec<Sent> {
        let mut found = Vec::new();
        if let Some(witness) = &self.witness {
            let is_there = match witness.answer() {
                Ok(answer) => {
                    found = self
                        .comparison
                        .answered(&answer, os::monotonic_ns(), is_running);
                    true
                }
                Err(error) => error == Errno::EAGAIN,
            };
            let asks = self.comparison.wants_to_ask(os::monotonic_ns());
            if !is_there || (asks && !witness.ask()) {
                self.witness = None;
            }
        }
        let now_ns = os::monotonic_ns();
        found.extend(self.comparison.overdue(now_ns, self.witness.is_some()));
        found
    }

    /// How soon [`Signals::read`] should be called although nothing arrived.
    #[must_use]
    pub fn due_in(&self) -> Option<Duration> {
        let next_ns = self.comparison.next_ns()?;
        Some(Duration::from_nanos(
            next_ns.saturating_sub(os::monotonic_ns()),
        ))
    }

    /// What becomes readable when the witness has answered.
    #[must_use]
    pub fn witness(&self) -> Option<BorrowedFd<'_>> {
        self.witness.as_ref().map(AsFd::as_fd)
    }

    /// The target stopped. If what stopped it was meant for both, we stop as well, and a shell sees
    /// the job as stopped.
    pub fn target_stopped(&mut self) {
        if std::mem::take(&mut self.is_stop_sent) {
            kill(Pid::this(), Signal::SIGSTOP).ok();
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether a process runs, or wants to.
fn is_running(pid: i32) -> bool {
    let state = procfs::state_and_ticks(&pid.to_string());
    matches!(state, Some(('R', _)))
}

/// Sends the target a signal that was meant for it. It may have ended by now, or changed its user:
/// nothing to do about either.
fn pass_on(sent: Sent, target: Pid) {
    // SAFETY: numbers only.
    unsafe {
        match sent.value {
            Some(value) => {
                let sival_ptr = std::ptr::without_provenance_mut(value as usize);
                libc::sigqueue(target.as_raw(), sent.signal, libc::sigval { sival_ptr })
            }
            None => libc::kill(target.as_raw(), sent.signal),
        }
    };
}

/// Whether a process sent the signal, other than the target itself; the terminal's come from the
/// kernel, and to the whole group.
fn is_from_another(code: i32, sender: i32, target: Pid) -> bool {
    is_from_a_process(code) && sender != target.as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_process_sent_is_passed_on() {
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
                is_from_another(code, sender, target),
                expected,
                "{code} {sender}"
            );
        }
    }
}
