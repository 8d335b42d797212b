//! Which signals were for us alone: what we got, compared with what the [`witness`](super::witness)
//! got.
//!
//! A signal to the group reaches the witness before us, for the kernel serves the newest process
//! first. So one that the witness does not know when it is asked was for us. Some senders signal
//! each process by itself, or one and then the group, a moment apart: the decision waits for that
//! moment, and what the witness gets in it from the same sender is the same signal. A sender that wants a processor meanwhile may not have come to
//! it: that is waited for as well, for a while.

use super::witness::{Answer, Sent};

/// How long a sender that signals one process after another may take for it, in nanoseconds.
const MOMENT_NS: u64 = 10_000_000;
/// How long is waited for a sender that wants a processor, in nanoseconds.
const LONGEST_NS: u64 = 200_000_000;
/// A witness that does not answer for this long is not waited for, in nanoseconds.
const PATIENCE_NS: u64 = 2_000_000_000;

/// A signal of ours that nothing was decided about.
#[derive(Debug, Clone, Copy)]
struct Undecided {
    sent: Sent,
    read_ns: u64,
    /// When it is decided.
    due_ns: u64,
    /// Whether the witness was asked since and did not know it.
    unknown: bool,
}

/// What is known at a moment. All times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Default)]
pub struct Comparison {
    undecided: Vec<Undecided>,
    /// What the witness got and we did not, yet, and when it looked.
    ahead: Vec<(Sent, u64)>,
    /// What both got, and until when the same from the same sender is the same signal.
    both: Vec<(Sent, u64)>,
    /// When the question was asked that is not answered yet.
    asked_ns: Option<u64>,
}

impl Comparison {
    /// We got a signal.
    pub fn arrived(&mut self, sent: Sent, now_ns: u64) {
        self.ahead
            .retain(|(_, looked_ns)| now_ns.saturating_sub(*looked_ns) < MOMENT_NS);
        self.both.retain(|(_, until_ns)| now_ns < *until_ns);
        if self.both.iter().any(|(other, _)| *other == sent) {
            return;
        }
        match self.ahead.iter().position(|(other, _)| *other == sent) {
            Some(place) => {
                self.ahead.swap_remove(place);
                self.both.push((sent, now_ns + MOMENT_NS));
            }
            None => self.undecided.push(Undecided {
                sent,
                read_ns: now_ns,
                due_ns: now_ns + MOMENT_NS,
                unknown: false,
            }),
        }
    }

    /// Whether the witness should be asked now; it then counts as asked.
    pub fn wants_to_ask(&mut self, now_ns: u64) -> bool {
        let wants = self.asked_ns.is_none()
            && self
                .undecided
                .iter()
                .any(|ours| !ours.unknown || now_ns >= ours.due_ns);
        if wants {
            self.asked_ns = Some(now_ns);
        }
        wants
    }

    /// The witness answered. Returns what was for us alone. `is_running` tells of a process whether it runs or wants to.
    pub fn answered(
        &mut self,
        answer: &Answer,
        now_ns: u64,
        is_running: impl Fn(i32) -> bool,
    ) -> Vec<Sent> {
        for sent in &answer.sent {
            let before = self.undecided.len();
            // `timeout` signals its child and then its group, others the group and then the child: pending, the two would be one. We may have read either before the
            // witness looked, or after.
            self.undecided.retain(|ours| ours.sent != *sent);
            match self.undecided.len() < before {
                true => self.both.push((*sent, now_ns + MOMENT_NS)),
                false => self.ahead.push((*sent, answer.looked_ns)),
            }
        }
        let Some(asked_ns) = self.asked_ns.take() else {
            return Vec::new();
        };
        for ours in &mut self.undecided {
            ours.unknown |= ours.read_ns <= asked_ns;
            let may_wait = asked_ns < ours.read_ns + LONGEST_NS;
            if asked_ns >= ours.due_ns && may_wait && is_running(ours.sent.sender) {
                ours.due_ns = asked_ns + MOMENT_NS;
            }
        }
        self.take(|ours| asked_ns >= ours.due_ns)
    }

    /// What nobody can say anything about any more: all without a witness, else what waited too
    /// long.
    pub fn overdue(&mut self, now_ns: u64, has_witness: bool) -> Vec<Sent> {
        self.take(|ours| !has_witness || now_ns >= ours.read_ns + PATIENCE_NS)
    }

    /// When [`Comparison::wants_to_ask`] or [`Comparison::overdue`] should be called next, if
    /// anything is undecided.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        let next_ns = |ours: &Undecided| match self.asked_ns {
            Some(_) => ours.read_ns + PATIENCE_NS,
            None => ours.due_ns,
        };
        self.undecided.iter().map(next_ns).min()
    }

    fn take(&mut self, mut is_decided: impl FnMut(&Undecided) -> bool) -> Vec<Sent> {
        self.undecided
            .extract_if(.., |ours| is_decided(ours))
            .map(|ours| ours.sent)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const INT: Sent = Sent {
        signal: libc::SIGINT,
        sender: 5,
        value: None,
    };
    const FROM_ANOTHER: Sent = Sent { sender: 6, ..INT };

    fn sleeps(_: i32) -> bool {
        false
    }

    fn answer(looked_ns: u64, sent: &[Sent]) -> Answer {
        Answer {
            looked_ns,
            sent: sent.to_vec(),
        }
    }

    /// Goes on until all is decided, with a witness that gets nothing any more.
    fn rest(comparison: &mut Comparison, mut now: u64) -> Vec<Sent> {
        let mut passed = Vec::new();
        while let Some(next) = comparison.next_ns() {
            now = now.max(next);
            assert!(comparison.wants_to_ask(now));
            passed.extend(comparison.answered(&answer(now, &[]), now, sleeps));
        }
        passed
    }

    #[test]
    fn what_the_group_got_is_not_passed_on() {
        let mut comparison = Comparison::default();
        comparison.arrived(INT, 0);
        assert!(comparison.wants_to_ask(1));
        assert!(!comparison.wants_to_ask(2), "one question at a time");
        assert_eq!(comparison.answered(&answer(3, &[INT]), 3, sleeps), []);
        assert_eq!(rest(&mut comparison, 4), []);
    }

    #[test]
    fn what_we_alone_got_is_passed_on_once() {
        let mut comparison = Comparison::default();
        comparison.arrived(INT, 0);
        assert!(comparison.wants_to_ask(1));
        assert_eq!(comparison.answered(&answer(2, &[]), 2, sleeps), []);
        assert!(!comparison.wants_to_ask(3), "its moment is not over");
        assert_eq!(rest(&mut comparison, 4), [INT]);
    }

    #[test]
    fn senders_are_kept_apart() {
        let mut comparison = Comparison::default();
        comparison.arrived(INT, 0);
        comparison.arrived(FROM_ANOTHER, 1);
        assert!(comparison.wants_to_ask(2));
        assert_eq!(comparison.answered(&answer(3, &[INT]), 3, sleeps), []);
        assert_eq!(rest(&mut comparison, 4), [FROM_ANOTHER]);
    }

    #[test]
    fn first_to_us_and_then_to_the_group_is_one() {
        let mut comparison = Comparison::default();
        comparison.arrived(INT, 0);
        assert!(comparison.wants_to_ask(1));
        assert_eq!(comparison.answered(&answer(2, &[]), 2, sleeps), []);
        comparison.arrived(INT, MS);
        assert!(comparison.wants_to_ask(MS));
        assert_eq!(
            comparison.answered(&answer(MS + 1, &[INT]), MS + 1, sleeps),
            []
        );
        assert_eq!(rest(&mut comparison, 2 * MS), []);
    }

    #[test]
    fn a_sender_that_wants_a_processor_is_waited_for_a_while() {
        let mut comparison = Comparison::default();
        comparison.arrived(INT, 0);
        comparison.arrived(FROM_ANOTHER, 0);
        let is_running = |pid: i32| pid == INT.sender;
        let mut passed = Vec::new();
        for round in 1..=10 {
            let now = 10 * round * MS;
            assert!(comparison.wants_to_ask(now));
            passed.extend(comparison.answered(&answer(now + 1, &[]), now + 1, is_running));
        }
        assert_eq!(passed, [FROM_ANOTHER]);
        // Then it is one for the group after all; or it was for us, for who computes on and on sends nothing more.
        let mut other = Comparison::default();
        other.arrived(INT, 0);
        assert!(other.wants_to_ask(201 * MS));
        assert_eq!(
            other.answered(&answer(201 * MS + 1, &[]), 201 * MS + 1, |_| true),
            [INT]
        );
        assert!(comparison.wants_to_ask(120 * MS));
        assert_eq!(
            comparison.answered(&answer(120 * MS + 1, &[INT]), 120 * MS + 1, is_running),
            []
        );
        assert_eq!(rest(&mut comparison, 300 * MS), []);
    }

    #[test]
    fn none_of_many_is_lost() {
        let mut comparison = Comparison::default();
        let mut passed = Vec::new();
        for round in 0..100 {
            let now = round * MS;
            comparison.arrived(INT, now);
            assert!(comparison.wants_to_ask(now));
            passed.extend(comparison.answered(&answer(now + 1, &[]), now + 1, sleeps));
        }
        passed.extend(rest(&mut comparison, 100 * MS));
        assert_eq!(passed, [INT; 100]);
    }

    #[test]
    fn a_group_is_signalled_process_by_process() {
        // First the witness, then we.
        let mut comparison = Comparison::default();
        assert_eq!(comparison.answered(&answer(0, &[INT]), 0, sleeps), []);
        comparison.arrived(INT, MS);
        assert_eq!(rest(&mut comparison, 2 * MS), []);
        // First we, then the witness.
        comparison.arrived(INT, 20 * MS);
        assert!(comparison.wants_to_ask(20 * MS));
        assert_eq!(
            comparison.answered(&answer(20 * MS + 1, &[]), 20 * MS + 1, sleeps),
            []
        );
        assert!(comparison.wants_to_ask(30 * MS));
        assert_eq!(
            comparison.answered(&answer(30 * MS + 1, &[INT]), 30 * MS + 1, sleeps),
            []
        );
        assert_eq!(rest(&mut comparison, 31 * MS), []);
    }

    #[test]
    fn what_the_witness_got_at_once_is_one_for_it() {
        let mut comparison = Comparison::default();
        comparison.arrived(INT, 0);
        assert!(comparison.wants_to_ask(1));
        comparison.arrived(INT, 2);
        assert_eq!(comparison.answered(&answer(3, &[INT]), 3, sleeps), []);
        assert_eq!(rest(&mut comparison, 4), []);
    }

    #[test]
    fn the_same_in_the_same_moment_is_one_and_later_another() {
        // Read before the witness looked, and after.
        let mut comparison = Comparison::default();
        comparison.arrived(INT, 0);
        assert!(comparison.wants_to_ask(1));
        comparison.arrived(INT, 3);
        assert_eq!(comparison.answered(&answer(2, &[INT]), 4, sleeps), []);
        assert_eq!(rest(&mut comparison, 5), []);
        // Behind its answer.
        comparison.arrived(INT, 5 * MS);
        comparison.arrived(FROM_ANOTHER, 5 * MS);
        assert_eq!(rest(&mut comparison, 5 * MS), [FROM_ANOTHER]);
        comparison.arrived(INT, 15 * MS);
        assert_eq!(rest(&mut comparison, 15 * MS), [INT]);
    }

    #[test]
    fn what_we_read_after_the_witness_looked_may_be_the_same() {
        let mut comparison = Comparison::default();
        comparison.arrived(FROM_ANOTHER, 0);
        assert!(comparison.wants_to_ask(1));
        comparison.arrived(INT, 3);
        assert_eq!(comparison.answered(&answer(2, &[INT]), 2, sleeps), []);
        assert_eq!(rest(&mut comparison, 4), [FROM_ANOTHER]);
    }

    #[test]
    fn an_old_signal_of_the_witness_means_nothing() {
        let mut comparison = Comparison::default();
        assert_eq!(comparison.answered(&answer(0, &[INT]), 0, sleeps), []);
        comparison.arrived(INT, 20 * MS);
        assert_eq!(rest(&mut comparison, 20 * MS), [INT]);
    }

    #[test]
    fn nobody_waits_for_a_witness_for_ever() {
        let mut comparison = Comparison::default();
        comparison.arrived(INT, 0);
        assert_eq!(comparison.overdue(1, true), []);
        assert!(comparison.wants_to_ask(1));
        let next = comparison.next_ns().expect("something is undecided");
        assert_eq!(comparison.overdue(next, true), [INT]);
        comparison.arrived(INT, next);
        assert_eq!(comparison.overdue(next, false), [INT]);
    }
}
