//! From the samples of one thread to the slices of its timeline.
//!
//! A sample says what the thread did during the CPU time before it. That time is painted with the
//! sample's frames: back to the sample before when the two are neighbours, else as far as the
//! sample's own weight reaches, so that time in which the thread did not run stays empty. A frame
//! that neighbours have in common, with everything outside of it, is one slice.

/// How many slices may be open at once; see [`SliceBuilder::sample`]. The trace format allows some
/// more.
pub const DEPTH_MAX: usize = 499;

/// Neighbours are at most this many spans apart, in halves: a timer's signal may come a tick late.
const GAP_HALF_SPANS: u64 = 5;

/// What to write next on a thread's track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceEvent<F> {
    /// A slice begins inside of those that are open.
    Begin(u64, Part<F>),
    /// The innermost open slice ends.
    End(u64),
}

/// What a slice stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<F> {
    /// A function.
    Function(F),
    /// This many functions, which are too deep to be shown.
    Folded(usize),
}

/// Lengths of time that the sampling clock implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// CPU time between two samples.
    pub period_ns: u64,
    /// The kernel's tick: timers do not fire more often.
    pub tick_ns: u64,
}

impl Timing {
    /// The time that a sample of this weight stands for.
    #[must_use]
    pub fn span_ns(&self, weight: u32) -> u64 {
        self.period_ns.saturating_mul(u64::from(weight.max(1)))
    }

    /// Whether a sample belongs to the same stretch of work as the one `distance_ns` before it.
    #[must_use]
    pub fn is_neighbour(&self, weight: u32, distance_ns: u64) -> bool {
        let span = self.span_ns(weight).max(self.tick_ns);
        distance_ns <= span.saturating_mul(GAP_HALF_SPANS) / 2
    }
}

/// Builds the slices of one thread. `F` identifies a function.
#[derive(Debug)]
pub struct SliceBuilder<F> {
    timing: Timing,
    open: Vec<Part<F>>,
    /// Where painting has arrived: nothing later was emitted.
    painted_to: Option<u64>,
    /// Nothing is painted before this time.
    floor: u64,
}

impl<F: Copy + Eq> SliceBuilder<F> {
    /// A builder for a thread that was not seen yet.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            open: Vec::new(),
            painted_to: None,
            floor: 0,
        }
    }

    /// Nothing before this time is painted any more: a window of time begins there. What is open
    /// from before is closed.
    pub fn begin_at(&mut self, begin_ns: u64, emit: impl FnMut(SliceEvent<F>)) {
        if begin_ns > self.floor {
            self.floor = begin_ns;
            if self.painted_to.is_some_and(|before| before < begin_ns) {
                self.close(emit);
                self.painted_to = None;
            }
        }
    }

    /// Adds a sample with its functions from the outermost inwards. What is deeper than
    /// [`DEPTH_MAX`] becomes one slice.
    ///
    /// A sample that is not later than the one before paints nothing.
    pub fn sample(
        &mut self,
        time_ns: u64,
        weight: u32,
        functions: &[F],
        mut emit: impl FnMut(SliceEvent<F>),
    ) {
        let start = match self.painted_to {
            Some(before) if time_ns <= before => return,
            Some(before) if self.timing.is_neighbour(weight, time_ns - before) => before,
            Some(before) => {
                self.close(&mut emit);
                before.max(time_ns.saturating_sub(self.timing.span_ns(weight)))
            }
            None => time_ns.saturating_sub(self.timing.span_ns(weight)),
        }
        .max(self.floor);
        let shown = functions.len().min(DEPTH_MAX);
        let folded = functions.len() - shown;
        let parts = functions[..shown]
            .iter()
            .map(|&function| Part::Function(function))
            .chain((folded > 0).then_some(Part::Folded(folded)));
        let mut common = 0;
        for part in parts {
            if self.open.get(common) == Some(&part) {
                common += 1;
                continue;
            }
            // The first difference ends what was open from there on.
            while self.open.len() > common {
                self.open.pop();
                emit(SliceEvent::End(start));
            }
            emit(SliceEvent::Begin(start, part));
            self.open.push(part);
            common += 1;
        }
        while self.open.len() > common {
            self.open.pop();
            emit(SliceEvent::End(start));
        }
        self.painted_to = Some(time_ns);
    }

    /// Closes what is open when no neighbour can come any more for a sample of ordinary weight.
    pub fn idle(&mut self, now_ns: u64, emit: impl FnMut(SliceEvent<F>)) {
        let idle = self
            .painted_to
            .is_some_and(|before| !self.timing.is_neighbour(1, now_ns.saturating_sub(before)));
        if idle && !self.open.is_empty() {
            self.close(emit);
        }
    }

    /// Closes what is open, at the time of the last sample.
    pub fn close(&mut self, mut emit: impl FnMut(SliceEvent<F>)) {
        let Some(end) = self.painted_to else { return };
        for _ in self.open.drain(..) {
            emit(SliceEvent::End(end));
        }
    }

    /// Whether a slice is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMING: Timing = Timing {
        period_ns: 100,
        tick_ns: 40,
    };

    /// The slices that samples of (time, weight, functions) paint, as `name@start-end` in order of
    /// their ends.
    fn paint(samples: &[(u64, u32, &str)]) -> String {
        let mut builder = SliceBuilder::new(TIMING);
        let mut stack: Vec<(u64, Part<char>)> = Vec::new();
        let mut done = Vec::new();
        let mut take = |event| match event {
            SliceEvent::Begin(start, part) => stack.push((start, part)),
            SliceEvent::End(end) => {
                let (start, part) = stack.pop().expect("an end has a begin");
                let name = match part {
                    Part::Function(name) => name.to_string(),
                    Part::Folded(count) => format!("+{count}"),
                };
                done.push(format!("{name}@{start}-{end}"));
            }
        };
        for (time, weight, functions) in samples {
            let functions: Vec<char> = functions.chars().collect();
            builder.sample(*time, *weight, &functions, &mut take);
        }
        builder.close(&mut take);
        assert!(stack.is_empty());
        done.join(" ")
    }

    #[test]
    fn samples_become_slices() {
        // Name, samples, slices.
        type Case<'a> = (&'a str, &'a [(u64, u32, &'a str)], &'a str);
        let table: &[Case<'_>] = &[
            ("none", &[], ""),
            (
                "one paints its period",
                &[(1000, 1, "ab")],
                "b@900-1000 a@900-1000",
            ),
            ("one paints its weight", &[(1000, 3, "a")], "a@700-1000"),
            ("a weight of 0 counts as 1", &[(1000, 0, "a")], "a@900-1000"),
            ("before the start of time", &[(50, 1, "a")], "a@0-50"),
            (
                "equal frames go on",
                &[(1000, 1, "ab"), (1100, 1, "ab")],
                "b@900-1100 a@900-1100",
            ),
            (
                "others change at the sample before",
                &[(1000, 1, "ab"), (1100, 1, "ac")],
                "b@900-1000 c@1000-1100 a@900-1100",
            ),
            (
                "what is inside of a change is new",
                &[(1000, 1, "abx"), (1100, 1, "acx")],
                "x@900-1000 b@900-1000 x@1000-1100 c@1000-1100 a@900-1100",
            ),
            (
                "a shorter stack",
                &[(1000, 1, "ab"), (1100, 1, "a")],
                "b@900-1000 a@900-1100",
            ),
            (
                "recursion",
                &[(1000, 1, "aa"), (1100, 1, "aaa")],
                "a@1000-1100 a@900-1100 a@900-1100",
            ),
            (
                "two and a half periods are no gap",
                &[(1000, 1, "a"), (1250, 1, "a")],
                "a@900-1250",
            ),
            (
                "more is a gap",
                &[(1000, 1, "a"), (1251, 1, "a")],
                "a@900-1000 a@1151-1251",
            ),
            (
                "a heavy sample has no gap",
                &[(1000, 1, "a"), (1500, 4, "a")],
                "a@900-1500",
            ),
            (
                "a gap before a heavy sample",
                &[(1000, 1, "a"), (3000, 4, "a")],
                "a@900-1000 a@2600-3000",
            ),
            (
                "no painting twice",
                &[(1000, 1, "a"), (1000, 1, "b"), (900, 1, "c")],
                "a@900-1000",
            ),
            (
                "an empty stack is a gap",
                &[(1000, 1, "a"), (1100, 1, ""), (1200, 1, "a")],
                "a@900-1000 a@1100-1200",
            ),
        ];
        for (name, samples, expected) in table {
            assert_eq!(paint(samples), *expected, "{name}");
        }
    }

    #[test]
    fn deep_stacks_are_folded_inside() {
        let deep: String = std::iter::repeat_n('r', DEPTH_MAX + 7).collect();
        let text = paint(&[(1000, 1, &deep)]);
        assert!(text.starts_with("+7@900-1000 r@900-1000"), "{text}");
        assert_eq!(text.split(' ').count(), DEPTH_MAX + 1);
    }

    #[test]
    fn an_idle_thread_is_closed_at_its_last_sample() {
        let mut builder = SliceBuilder::new(TIMING);
        let mut events = Vec::new();
        builder.sample(1000, 1, &['a'], |event| events.push(event));
        builder.idle(1200, |event| events.push(event));
        assert!(builder.is_open());
        builder.idle(2000, |event| events.push(event));
        assert_eq!(events.last(), Some(&SliceEvent::End(1000)));
        assert!(!builder.is_open());
    }

    proptest! {
        #[test]
        fn slices_nest_close_and_never_cover_more_than_allowed(
            samples in proptest::collection::vec((0_u64..700, 0_u32..6, proptest::collection::vec(0_u8..3, 0..8)), 0..60),
        ) {
            let mut builder = SliceBuilder::new(TIMING);
            let mut time = 10_000;
            let (mut depth, mut last, mut painted, mut allowed) = (0_usize, 0_u64, 0_u64, 0_u64);
            let mut root_start = 0;
            let mut failed = None;
            let mut take = |event: SliceEvent<u8>| {
                let at = match event {
                    SliceEvent::Begin(at, _) => {
                        if depth == 0 {
                            root_start = at;
                        }
                        depth += 1;
                        at
                    }
                    SliceEvent::End(at) => {
                        if depth == 0 {
                            failed = Some("an end without a begin");
                            return;
                        }
                        depth -= 1;
                        if depth == 0 {
                            painted += at - root_start;
                        }
                        at
                    }
                };
                if at < last {
                    failed = Some("time runs backwards");
                }
                last = at;
            };
            for (step, weight, functions) in samples {
                time += step;
                allowed += TIMING.span_ns(weight) * GAP_HALF_SPANS / 2;
                builder.sample(time, weight, &functions, &mut take);
            }
            builder.close(&mut take);
            prop_assert_eq!(failed, None);
            prop_assert_eq!(depth, 0);
            prop_assert!(painted <= allowed, "{} of {}", painted, allowed);
        }
    }
}
