//! How long kinds of work ran at the same time in a step.

use super::steps::Step;

/// The kinds of work, by their numbers.
pub(super) const STREAMS: [&str; 4] = ["compute", "allreduce", "reducescatter", "aux"];
pub(super) const COMPUTE: usize = 0;
pub(super) const ALLREDUCE: usize = 1;
pub(super) const REDUCESCATTER: usize = 2;
pub(super) const AUX: usize = 3;

/// Lengths of time, nanoseconds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sweep {
    pub of_stream: [u64; STREAMS.len()],
    pub compute_allreduce: u64,
    pub compute_reducescatter: u64,
    /// Computation beside either.
    pub compute_communication: u64,
    pub idle: u64,
    /// Begin, end, and which kinds of work there were.
    pub segments: Vec<(u64, u64, Vec<usize>)>,
}

impl Sweep {
    /// Goes through a step, in which the work of each kind does not overlap itself.
    pub(super) fn of(step: &Step) -> Self {
        // Ends come before begins of the same time: nothing lies between.
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        for &(stream, start_ns, end_ns) in &step.work {
            changes.push((start_ns, true, stream));
            changes.push((end_ns, false, stream));
        }
        changes.sort_unstable();
        let mut sweep = Self::default();
        let (mut is_active, mut last_ns) = ([false; STREAMS.len()], step.start_ns);
        let end = [(step.end_ns, false, STREAMS.len())];
        for (time_ns, is_begin, stream) in changes.into_iter().chain(end) {
            sweep.stretch(last_ns, time_ns, is_active);
            last_ns = last_ns.max(time_ns);
            if let Some(active) = is_active.get_mut(stream) {
                *active = is_begin;
            }
        }
        sweep
    }

    fn stretch(&mut self, start_ns: u64, end_ns: u64, is_active: [bool; STREAMS.len()]) {
        let Some(ns) = end_ns.checked_sub(start_ns).filter(|ns| *ns > 0) else {
            return;
        };
        let streams: Vec<usize> = (0..STREAMS.len()).filter(|at| is_active[*at]).collect();
        for &stream in &streams {
            self.of_stream[stream] += ns;
        }
        let (allreduce, reducescatter) = (is_active[ALLREDUCE], is_active[REDUCESCATTER]);
        if is_active[COMPUTE] {
            self.compute_allreduce += if allreduce { ns } else { 0 };
            self.compute_reducescatter += if reducescatter { ns } else { 0 };
            self.compute_communication += if allreduce || reducescatter { ns } else { 0 };
        }
        self.idle += if streams.is_empty() { ns } else { 0 };
        self.segments.push((start_ns, end_ns, streams));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_at_the_same_time_is_added_up() {
        let step = Step {
            name: String::new(),
            start_ns: 100,
            end_ns: 200,
            work: vec![
                (COMPUTE, 110, 150),
                (ALLREDUCE, 140, 160),
                (REDUCESCATTER, 145, 170),
                (AUX, 180, 190),
            ],
        };
        let sweep = Sweep::of(&step);
        assert_eq!(sweep.of_stream, [40, 20, 25, 10]);
        let overlaps = (
            sweep.compute_allreduce,
            sweep.compute_reducescatter,
            sweep.compute_communication,
        );
        assert_eq!(overlaps, (10, 5, 10));
        assert_eq!(sweep.idle, 10 + 10 + 10);
        let all: u64 = sweep
            .segments
            .iter()
            .map(|(start, end, _)| end - start)
            .sum();
        assert_eq!(all, 100);
    }

    #[test]
    fn a_step_without_work_is_idle() {
        let step = Step {
            name: String::new(),
            start_ns: 5,
            end_ns: 9,
            work: Vec::new(),
        };
        let sweep = Sweep::of(&step);
        assert_eq!((sweep.idle, sweep.segments.len()), (4, 1));
    }
}
