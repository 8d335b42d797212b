//! Phases in which a GPU is busy for short times with short pauses between: launching takes longer than the kernels.

/// A longer pause has another reason, and ends a phase.
const PAUSE_NS: u64 = 200_000;
/// Work that goes on for longer leaves time for launching, and ends a phase.
const BUSY_NS: u64 = 500_000;
/// So many times the GPU is busy in a phase at least.
const STRETCHES: u64 = 64;
/// So much of a phase the GPU is idle at least: one part in this many.
const IDLE_PART: u64 = 4;

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Phase {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// How many times the GPU was busy: kernels that follow each other without a pause are one.
    pub(super) stretches: u64,
    pub(super) busy_ns: u64,
    pub(super) idle_ns: u64,
}

impl Phase {
    pub(super) fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    fn is_one(&self) -> bool {
        self.stretches >= STRETCHES && IDLE_PART * self.idle_ns >= self.duration_ns()
    }
}

/// Finds phases while pauses come in order.
#[derive(Debug, Default)]
pub(super) struct Phases {
    found: Vec<Phase>,
    now: Phase,
}

impl Phases {
    /// Takes in a time in which the GPU was busy, and the pause behind it of which `left_ns` are nobody's. Returns how much of what was nobody's is
    /// in no phase, as far as that is certain now.
    pub(super) fn add(&mut self, busy: (u64, u64), gap: (u64, u64), left_ns: u64) -> u64 {
        let busy_ns = busy.1 - busy.0;
        let mut outside_ns = 0;
        if busy_ns > BUSY_NS {
            outside_ns += self.end();
        } else {
            if self.now.stretches == 0 {
                self.now.start_ns = busy.0;
            }
            self.now.stretches += 1;
            self.now.busy_ns += busy_ns;
            self.now.end_ns = busy.1;
        }
        if gap.1 - gap.0 > PAUSE_NS {
            return outside_ns + self.end() + left_ns;
        }
        if self.now.stretches == 0 {
            return outside_ns + left_ns;
        }
        self.now.idle_ns += left_ns;
        self.now.end_ns = gap.1;
        outside_ns
    }

    /// Ends what may be a phase.
    fn end(&mut self) -> u64 {
        let now = std::mem::take(&mut self.now);
        if now.is_one() {
            self.found.push(now);
            return 0;
        }
        now.idle_ns
    }

    /// The phases, and what was left of the last pauses.
    pub(super) fn finish(mut self) -> (Vec<Phase>, u64) {
        let left_ns = self.end();
        (self.found, left_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of `count` times busy with pauses behind them.
    fn phases(count: u64, busy_ns: u64, pause_ns: u64) -> (Vec<Phase>, u64) {
        let mut phases = Phases::default();
        let mut outside_ns = 0;
        for number in 0..count {
            let start_ns = number * (busy_ns + pause_ns);
            let end_ns = start_ns + busy_ns;
            outside_ns += phases.add((start_ns, end_ns), (end_ns, end_ns + pause_ns), pause_ns);
        }
        let (found, left_ns) = phases.finish();
        (found, outside_ns + left_ns)
    }

    #[test]
    fn many_short_kernels_with_pauses_are_a_phase() {
        let (found, outside_ns) = phases(100, 5_000, 8_000);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].stretches, found[0].idle_ns), (100, 800_000));
        assert_eq!(outside_ns, 0);
        // Few, long, with longer or hardly any pauses: none of them is one, and no pause is lost.
        for (count, busy_ns, pause_ns) in [
            (63, 5_000, 8_000),
            (100, 600_000, 8_000),
            (100, 5_000, 300_000),
            (100, 50_000, 8_000),
        ] {
            let (found, outside_ns) = phases(count, busy_ns, pause_ns);
            assert!(found.is_empty());
            assert_eq!(outside_ns, count * pause_ns);
        }
    }
}
