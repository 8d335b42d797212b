//! What a thread was seen to wait for, by how long that took.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock};

use super::record::{Completeness, Wait};

/// Waits of a length that are remembered, of the newest.
const KEPT: usize = 64;
/// One of this many before a wait, and of as many behind it, stands for it: a program does one thing now and another one later.
const NEAR: usize = 4;
/// Lengths are told apart by steps of this many to a factor of two: a wait is like those that are at most a factor of 1.4 longer or shorter.
const STEPS: i32 = 4;
/// Where these steps are, in thousandths of a power of two.
const BOUNDS: [u128; 3] = [1189, 1414, 1682];
const REACH: i32 = 2;
/// Where there is none, up to a factor of two.
const FAR_REACH: i32 = 4;
/// A wait that is further from the nearest than this many times the longest time between those is of another activity: at the start of a program,
/// say, before its first wait was seen.
const FAR: u64 = 3;
/// Where there is one alone, that is not known.
const FAR_FROM_ONE_NS: u64 = 100_000_000;

/// What stands for waits that are like no other.
static NOT_LOOKED_AT: LazyLock<Arc<Wait>> = LazyLock::new(|| {
    Arc::new(Wait {
        label: "not looked at".into(),
        words: Box::default(),
        completeness: Completeness::Complete,
        python: None,
        lock: None,
        is_own: false,
    })
});

/// One that was seen, and since when.
type SeenWait = (u64, Arc<Wait>);

/// The waits of a thread that were seen.
#[derive(Debug, Default)]
pub(super) struct SeenWaits {
    by_length: HashMap<i32, Kept>,
    version: u64,
}

/// The waits of about one length.
#[derive(Debug, Default)]
struct Kept {
    /// In the order of time.
    waits: VecDeque<SeenWait>,
    /// How often another took the name of one of these and of those next to them.
    taken: usize,
}

impl SeenWaits {
    /// One was seen.
    pub(super) fn add(&mut self, (begin_ns, end_ns): (u64, u64), wait: Arc<Wait>) {
        self.version += 1;
        let kept = self.by_length.entry(step(end_ns - begin_ns)).or_default();
        if kept.waits.len() == KEPT {
            kept.waits.pop_front();
        }
        kept.waits.push_back((begin_ns, wait));
    }

    /// A number that grows with each wait that is seen; 0 before the first.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// One that took about as long at about the same time: each in turn. Nothing as long as few behind it are known, unless it `must` be.
    pub(super) fn like(&mut self, (begin_ns, end_ns): (u64, u64), must: bool) -> Option<Arc<Wait>> {
        let step = step(end_ns - begin_ns);
        let mut near = self.near((step, REACH), begin_ns);
        if near[1].len() < NEAR && !must {
            return None;
        }
        if near.iter().all(Vec::is_empty) {
            near = self.near((step, FAR_REACH), begin_ns);
        }
        let before = within_reach(near, begin_ns);
        let taken = self.by_length.get(&step).map_or(0, |kept| kept.taken);
        let wait = match before.len() {
            0 => return Some(Arc::clone(&NOT_LOOKED_AT)),
            count => Arc::clone(&before[taken % count].1),
        };
        self.by_length.entry(step).or_default().taken = taken + 1;
        Some(wait)
    }

    /// The nearest before a time and behind it, of lengths up to some steps away.
    fn near(&self, (step, reach): (i32, i32), time_ns: u64) -> [Vec<&SeenWait>; 2] {
        let [mut before, mut behind] = [Vec::new(), Vec::new()];
        let kept = (step - reach..=step + reach).filter_map(|step| self.by_length.get(&step));
        for Kept { waits, .. } in kept {
            let at = waits.partition_point(|one| one.0 < time_ns);
            before.extend(waits.range(at.saturating_sub(NEAR)..at));
            behind.extend(waits.range(at..waits.len().min(at + NEAR)));
        }
        before.sort_by_key(|one: &&SeenWait| Reverse(one.0));
        behind.sort_by_key(|one: &&SeenWait| one.0);
        [before, behind].map(|side| side.into_iter().take(NEAR).collect())
    }
}

/// Those on both sides of a time, each nearest first, that are near enough to stand for a wait then.
fn within_reach(near: [Vec<&SeenWait>; 2], time_ns: u64) -> Vec<&SeenWait> {
    let between = |side: &Vec<&SeenWait>| {
        let pairs = side.windows(2);
        pairs.map(|pair| pair[0].0.abs_diff(pair[1].0)).max()
    };
    let longest_ns = near.iter().filter_map(between).max();
    let reach_ns = longest_ns.map_or(FAR_FROM_ONE_NS, |longest_ns| FAR * longest_ns);
    let sides = near.into_iter().filter(|side| {
        side.first()
            .is_some_and(|nearest| nearest.0.abs_diff(time_ns) <= reach_ns)
    });
    sides.flatten().collect()
}

/// Where a length stands.
pub(super) fn step(length_ns: u64) -> i32 {
    // The C library's logarithm of old systems has another version.
    let length_ns = length_ns.max(1);
    let power = length_ns.ilog2();
    let thousandths = (u128::from(length_ns) * 1000) >> power;
    let within = BOUNDS.partition_point(|bound| *bound <= thousandths);
    STEPS * power.cast_signed() + within as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_stand_for_a_wait() {
        let named = |label: &str| {
            Arc::new(Wait {
                label: label.into(),
                ..Wait::clone(&NOT_LOOKED_AT)
            })
        };
        let (first, second) = (named("first"), named("second"));
        let mut seen = SeenWaits::default();
        let wait = |time_ns: u64| (1000 * time_ns, 1000 * time_ns + 300);
        assert!(seen.like(wait(5), false).is_none(), "nothing is known yet");
        for time_ns in 0..40 {
            let what = if time_ns < 20 { &first } else { &second };
            seen.add(wait(time_ns), Arc::clone(what));
        }
        let mut label = |time_ns| {
            seen.like(wait(time_ns), false)
                .map(|wait| wait.label.clone())
        };
        for _ in 0..8 {
            assert_eq!(label(10).as_deref(), Some("first"));
            assert_eq!(label(30).as_deref(), Some("second"));
            assert_eq!(label(38), None, "too few are known behind it");
        }
        let at_the_turn: Vec<_> = (0..8).filter_map(|_| label(20)).collect();
        let of_first = at_the_turn.iter().filter(|label| label.as_ref() == "first");
        assert_eq!(of_first.count(), 4, "{at_the_turn:?}");
    }

    #[test]
    fn what_is_far_stands_for_nothing() {
        let known = Arc::new(Wait {
            label: "known".into(),
            ..Wait::clone(&NOT_LOOKED_AT)
        });
        let wait = |ms: u64| (1_000_000 * ms, 1_000_000 * ms + 500_000);
        let mut seen = SeenWaits::default();
        for ms in [500, 502, 510, 512, 514] {
            seen.add(wait(ms), Arc::clone(&known));
        }
        let mut label = |ms| seen.like(wait(ms), true).map(|wait| wait.label.clone());
        // The longest time between two of the four behind them is 8 ms.
        assert_eq!(label(475).as_deref(), Some("not looked at"));
        assert_eq!(label(477).as_deref(), Some("known"));
        assert_eq!(label(505).as_deref(), Some("known"));
        let mut one_alone = SeenWaits::default();
        one_alone.add(wait(500), known);
        for (ms, expected) in [(390, "not looked at"), (420, "known")] {
            let like = one_alone.like(wait(ms), true);
            assert_eq!(&*like.expect("it must be").label, expected, "{ms}");
        }
    }

    #[test]
    fn a_length_is_four_steps_from_its_half() {
        for length_ns in [1_000, 1_234_567, 5_000_000, 9_999_999_999] {
            assert_eq!(step(2 * length_ns), step(length_ns) + 4);
        }
        assert!((step(5_000_000) - step(4_000_000)).abs() <= REACH);
        assert!((step(5_000_000) - step(1_000_000)).abs() > FAR_REACH);
        assert_eq!((step(0), step(1)), (0, 0));
        assert_eq!(step(u64::MAX), 4 * 63 + 3);
    }
}
