//! The main loop: serves signals, new processes, their ends, and the time to empty the rings.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::interval::{FIRST, SHORTEST, next_interval};
use super::target::{Change, Target};
use crate::collect::Collector;
use crate::emit::writer::Outcome;
use crate::launch::ending::Ending;
use crate::launch::signals::Signals;
use crate::session::Receiver;
use crate::session::members::{self, Members};

/// A process that was just forked, or is loading its libraries, is given this time to announce
/// itself.
const ANNOUNCE: Duration = Duration::from_millis(500);

/// When the end of a process that is not the target itself is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exits {
    AtOnce,
    /// When the rings are emptied.
    Later,
}

/// The main loop and what it serves.
pub(super) struct Watch {
    pub(super) signals: Signals,
    pub(super) receiver: Receiver,
    pub(super) collector: Collector,
    pub(super) target: Box<dyn Target>,
    pub(super) ending: Option<Ending>,
    /// Why the first of the refused datagrams was.
    pub(super) refusal: Option<String>,
    /// Why the command itself cannot be sampled, if that was seen beforehand.
    pub(super) unsampled: Option<String>,
    /// Name of the session, as the agents know it.
    pub(super) session: String,
    /// When the rings were emptied last.
    pub(super) last_pass: Instant,
}

impl Watch {
    /// Serves until the target has ended.
    ///
    /// Processes that come and go are looked at when it is time to empty the rings, not one by one: what they have to tell is in shared memory, or
    /// was read when they announced themselves. In a build of many small files, each wake for one of them took a processor from the others.
    ///
    /// One that we did not start we may leave before: somebody asks us to, or `leave_at` has come.
    pub(super) fn until_target_ends(&mut self, leave_at: Option<Instant>) -> Ending {
        let mut interval = FIRST;
        // Blocked threads are looked at from the moment on that we know of their process.
        self.receiver.set_patient(!self.collector.watches_waits());
        loop {
            let left = leave_at.map(|at| at.saturating_duration_since(Instant::now()));
            self.wait(
                left.map_or(interval, |left| left.min(interval)),
                Exits::Later,
            );
            let target = &self.target;
            let signalled = target.is_sent_our_signals().then(|| target.pid());
            let noticed = self.signals.read(signalled);
            let is_over = left.is_some_and(|left| left.is_zero());
            if is_over || noticed.ask_to_end && signalled.is_none() {
                self.receiver.set_patient(false);
                return Ending::Code(0);
            }
            self.follow_target();
            interval = self.collect(interval);
            self.collector.adopt();
            if let Some(ending) = self.ending {
                self.receiver.set_patient(false);
                return ending;
            }
        }
    }

    /// Waits for processes that outlive the target. Whoever asks us to end now ends the waiting.
    pub(super) fn linger(&mut self, linger: Duration) {
        let begin = Instant::now();
        let deadline = begin + linger;
        let mut interval = FIRST;
        loop {
            // Looked for before the arrivals are taken: whoever is not found any more has arrived,
            // or never will.
            let unannounced = self.collector.live() == 0 && {
                let which = if begin.elapsed() < ANNOUNCE {
                    Members::All
                } else {
                    Members::Deferred
                };
                members::any(
                    &self.session,
                    self.target.pid().as_raw().unsigned_abs(),
                    which,
                )
            };
            self.receiver.settle();
            self.take_arrivals();
            if self.collector.live() == 0 && !unannounced {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(interval.min(left), Exits::AtOnce);
            if self.signals.read(None).ask_to_end {
                break;
            }
            interval = self.collect(interval);
            self.collector.adopt();
        }
        self.collector.abandon();
    }

    /// Waits until the traces are written. Asked to end, it hurries; asked twice, it leaves, and returns `None`: what
    /// is written is valid.
    pub(super) fn close(mut self) -> Option<Outcome> {
        // A process that announces itself from now on is refused at once; one that has done so stops recording.
        drop(self.receiver);
        let writer = self.collector.into_writer();
        writer.to_foreground();
        let writer = writer.close();
        let mut asked = 0;
        loop {
            let mut descriptors = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(writer.done(), PollFlags::POLLIN),
            ];
            // A failure is an interruption: everything is looked at anyway.
            poll(&mut descriptors, PollTimeout::NONE).ok();
            if descriptors[1].any() == Some(true) {
                break;
            }
            if self.signals.read(None).ask_to_end {
                asked += 1;
                writer.hurry();
            }
            if asked >= 2 {
                return None;
            }
        }
        Some(writer.finish())
    }

    /// Sleeps until something happens, or for the given time.
    fn wait(&self, interval: Duration, exits: Exits) {
        let mut descriptors = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.receiver.wakeup(), PollFlags::POLLIN),
        ];
        let exit_watches = self.collector.exit_watches();
        descriptors.extend(
            exit_watches
                .filter(|_| exits == Exits::AtOnce)
                .chain(self.signals.witness())
                .chain(self.target.wakeup())
                .map(|exit_watch| PollFd::new(exit_watch, PollFlags::POLLIN)),
        );
        // The agents learn of the end of a window when it is there.
        let interval = match self.collector.window_ends_in() {
            Some(left) => interval.min(left.max(SHORTEST)),
            None => interval,
        };
        let interval = self
            .signals
            .due_in()
            .map_or(interval, |due| interval.min(due));
        // A failure is an interruption: everything is looked at anyway.
        poll(&mut descriptors, timeout(interval)).ok();
    }

    pub(super) fn collect(&mut self, interval: Duration) -> Duration {
        let over = self.collector.over();
        if !over.is_empty() {
            self.receiver.settle();
        }
        self.take_arrivals();
        let pass = self.collector.pass(over);
        let since_last = self.last_pass.elapsed();
        self.last_pass = Instant::now();
        next_interval(interval, since_last, pass)
    }

    fn take_arrivals(&mut self) {
        for arrival in self.receiver.take() {
            if let Err(reason) = self.collector.arrive(arrival) {
                self.note_refusal(reason);
            }
        }
        if let Some(reason) = self.receiver.first_refusal() {
            self.note_refusal(reason);
        }
    }

    /// Keeps the first reason for the end: the terminal is the target's.
    fn note_refusal(&mut self, reason: String) {
        self.refusal.get_or_insert(reason);
    }

    /// Learns how the target is.
    fn follow_target(&mut self) {
        while self.ending.is_none() {
            match self.target.change() {
                Change::Nothing => return,
                Change::Stopped => self.signals.target_stopped(),
                Change::Ended(ending) => {
                    self.ending = Some(ending);
                    self.collector.child_ended(ending);
                }
            }
        }
    }
}

fn timeout(time: Duration) -> PollTimeout {
    // Rounded up: a poll of 0 ms would spin.
    let milliseconds = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
    PollTimeout::from(milliseconds)
}
