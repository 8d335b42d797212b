//! Which operations, and which times of a GPU, belong to which iteration.

use super::verdicts::median;
use crate::containers::sets::widen;
use crate::measure::gpu::gaps::{Idle, Stretch};

/// How operations of GPUs are assigned to iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assign {
    /// By their calls: to the iteration in which the host launched them. What hides communication may be of any iteration.
    #[default]
    Launch,
    /// By time: what the GPU does from the begin to the end of the iteration on the host.
    Window,
    /// The time of the GPU is cut where the first computation of each iteration begins: sums are those of the whole run.
    Partition,
}

impl Assign {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Window => "window",
            Self::Partition => "partition",
        }
    }
}

/// An operation of a GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// What it counts as; 0: nothing.
    pub(super) bits: u8,
    pub(super) is_kernel: bool,
    pub(super) name: u64,
    pub(super) link: u64,
    /// The thread that launched it plus one, 0 if that is not known, and when.
    pub(super) thread: u64,
    pub(super) launched_ns: u64,
}

/// An iteration on the axis of launches, and as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) number: Option<u64>,
    /// Launches from the first to the second time are its.
    pub(super) launches: (u64, u64),
    pub(super) shown: (u64, u64),
    pub(super) is_open: bool,
}

/// The iteration in which something was launched; the begin of an operation without a call stands for its launch.
pub(super) fn iteration_at(spans: &[Span], launched_ns: u64) -> Option<usize> {
    let behind = spans.partition_point(|span| span.launches.0 <= launched_ns);
    let last = behind.checked_sub(1)?;
    (launched_ns < spans[last].launches.1).then_some(last)
}

/// Iterations of a host that does not wait for its GPU, as the GPU has them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    /// From the end of the work before, its own or not, and not before the host has begun it, to the end of its own work.
    pub(super) shown: Vec<(u64, u64)>,
    /// How long after the begin of the next one on the host their work ends, in the median.
    pub(super) by_ns: u64,
}

/// The fewest iterations of which it is known that the host runs ahead.
const AHEAD_MIN: usize = 3;
/// The work of iterations ends this part of one after the host has begun the next: one part in this many.
const AHEAD_PART: u64 = 10;

/// Whether a host runs ahead: it begins iterations long before the work of those before them ends. `None` where it does not, or where one of them launched
/// nothing.
pub(super) fn ahead(spans: &[Span], assigned: &[(usize, Operation)]) -> Option<Ahead> {
    let mut works: Vec<Option<(u64, u64)>> = vec![None; spans.len()];
    for (place, one) in assigned.iter().filter(|(_, one)| one.thread != 0) {
        if let Some(work) = works.get_mut(*place) {
            widen(work, (one.start_ns, one.end_ns));
        }
    }
    let works: Vec<(u64, u64)> = works.into_iter().collect::<Option<_>>()?;
    let in_order = |one: &(u64, u64), next: &(u64, u64)| one.0 < next.0 && one.1 < next.1;
    if works.len() < AHEAD_MIN || !works.is_sorted_by(in_order) {
        return None;
    }
    let pairs = works.windows(2);
    let mut periods: Vec<u64> = pairs.map(|pair| pair[1].0 - pair[0].0).collect();
    // Where the host waits for the GPU before it goes on, whatever its marker is around, this is nothing.
    let behind = spans[1..].iter().zip(&works);
    let mut behind: Vec<u64> = behind
        .map(|(next, work)| work.1.saturating_sub(next.launches.0))
        .collect();
    let by_ns = median(&mut behind);
    if AHEAD_PART * by_ns < median(&mut periods) {
        return None;
    }
    // What lies between iterations, as an evaluation, is in none.
    let between = assigned.iter().filter(|(place, _)| *place >= spans.len());
    let mut between: Vec<(u64, u64)> = between.map(|(_, one)| (one.start_ns, one.end_ns)).collect();
    between.sort_unstable();
    let mut between = between.into_iter().peekable();
    let mut before_ns = 0;
    let shown = spans.iter().zip(&works).map(|(span, work)| {
        while let Some(other) = between.next_if(|other| other.0 < work.0) {
            before_ns = before_ns.max(other.1);
        }
        let begin_ns = before_ns.max(span.launches.0).min(work.1);
        before_ns = before_ns.max(work.1);
        (begin_ns, work.1)
    });
    Some(Ahead {
        shown: shown.collect(),
        by_ns,
    })
}

/// Times of a GPU, each with its iteration, or the number of iterations for those of none; in order, side by side.
pub(super) type Pieces = Vec<((u64, u64), usize)>;

/// The times of the GPU between the begin and the end of each iteration on the host, and the others from its first operation to its last.
pub(super) fn windows(spans: &[Span], whole: (u64, u64)) -> Pieces {
    let (mut pieces, mut now_ns) = (Pieces::new(), whole.0);
    let none = spans.len();
    for (place, span) in spans.iter().enumerate() {
        let (start_ns, end_ns) = span.shown;
        if now_ns < start_ns.min(whole.1) {
            pieces.push(((now_ns, start_ns.min(whole.1)), none));
        }
        pieces.push(((start_ns, end_ns), place));
        now_ns = now_ns.max(end_ns);
    }
    if now_ns < whole.1 {
        pieces.push(((now_ns, whole.1), none));
    }
    pieces
}

/// The time of a GPU, cut where the first computation of each iteration begins. An iteration without computation has none.
pub(super) fn partition(firsts: &[Option<u64>], whole: (u64, u64)) -> Pieces {
    let (mut pieces, mut now_ns, mut place) = (Pieces::new(), whole.0, firsts.len());
    for (next, first_ns) in firsts.iter().enumerate() {
        let Some(first_ns) = first_ns else { continue };
        let first_ns = (*first_ns).max(now_ns);
        if now_ns < first_ns {
            pieces.push(((now_ns, first_ns), place));
        }
        (now_ns, place) = (first_ns, next);
    }
    if now_ns < whole.1 {
        pieces.push(((now_ns, whole.1), place));
    }
    pieces
}

/// The idle times of a GPU within a time.
pub(super) fn idle_within(stretches: &[Stretch], (from_ns, to_ns): (u64, u64)) -> Vec<Idle> {
    let mut found = Vec::new();
    let mut now_ns = from_ns;
    let mut idle = |start_ns: u64, end_ns: u64, next: Option<Stretch>| {
        if start_ns < end_ns {
            found.push(Idle {
                start_ns,
                end_ns,
                next,
            });
        }
    };
    let first = stretches.partition_point(|one| one.end_ns <= from_ns);
    for next in &stretches[first..] {
        if now_ns >= to_ns {
            break;
        }
        idle(now_ns, next.start_ns.min(to_ns), Some(*next));
        now_ns = now_ns.max(next.end_ns);
    }
    idle(now_ns, to_ns, None);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start_ns: u64, end_ns: u64) -> Span {
        Span {
            number: None,
            launches: (start_ns, end_ns),
            shown: (start_ns, end_ns),
            is_open: false,
        }
    }

    #[test]
    fn what_is_launched_between_iterations_is_of_none() {
        let spans = [span(10, 20), span(20, 30), span(40, 50)];
        let found = [9, 10, 19, 20, 30, 39, 40, 50].map(|at| iteration_at(&spans, at));
        assert_eq!(
            found,
            [None, Some(0), Some(0), Some(1), None, None, Some(2), None]
        );
    }

    #[test]
    fn pieces_stand_side_by_side() {
        let spans = [span(10, 20), span(25, 30)];
        assert_eq!(
            windows(&spans, (5, 28)),
            [((5, 10), 2), ((10, 20), 0), ((20, 25), 2), ((25, 30), 1)]
        );
        let firsts = [Some(10), None, Some(8), Some(30)];
        assert_eq!(
            partition(&firsts, (5, 40)),
            [((5, 10), 4), ((10, 30), 2), ((30, 40), 3)]
        );
        assert_eq!(partition(&[None], (5, 40)), [((5, 40), 1)]);
    }
}
