//! What several unions have in common, from left to right.

use super::runs::Intervals;

/// A stretch of time in which the same sets hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Begin.
    pub start_ns: u64,
    /// End, behind the begin.
    pub end_ns: u64,
    /// Bit `n` is set where set number `n` holds; 0 between two stretches where none does.
    pub sets: u32,
}

/// Cuts the time from the first begin to the last end of `sets` into segments, and hands over each in order.
pub fn sweep(mut sets: Vec<Intervals<'_>>, mut take: impl FnMut(Segment)) {
    let mut current: Vec<Option<(u64, u64)>> = sets.iter_mut().map(Iterator::next).collect();
    let mut now_ns = match current.iter().flatten().map(|one| one.0).min() {
        Some(first_ns) => first_ns,
        None => return,
    };
    loop {
        let (mut holding, mut next_ns) = (0, u64::MAX);
        for (number, one) in current.iter().enumerate() {
            if let Some((start_ns, end_ns)) = *one {
                if start_ns <= now_ns {
                    holding |= 1 << number;
                    next_ns = next_ns.min(end_ns);
                } else {
                    next_ns = next_ns.min(start_ns);
                }
            }
        }
        if next_ns == u64::MAX {
            return;
        }
        take(Segment {
            start_ns: now_ns,
            end_ns: next_ns,
            sets: holding,
        });
        now_ns = next_ns;
        for (one, set) in current.iter_mut().zip(&mut sets) {
            if one.is_some_and(|(_, end_ns)| end_ns <= now_ns) {
                *one = set.next();
            }
        }
    }
}
