//! Iterations of all ranks: from when to when, on which rank they end, and which of them are examined.

use std::collections::BTreeMap;

use crate::measure::job::collectives::Axis;
use crate::measure::job::iterations::{Iteration, Lane, MarkerKind, Verdict};
use rsys_traces::model::ProcessId;

/// A GPU is behind its host when the work of an iteration ends later than the iteration by this time, and by one part in this many of it.
const BEHIND_NS: u64 = 20_000;
const BEHIND_PART: u64 = 20;

/// An iteration of all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) number: u64,
    /// From the first begin on any rank to the last end on any, on the common axis.
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) ranks: u64,
    /// Where it ends.
    pub(super) last: Last,
    is_warm_up: bool,
    is_open: bool,
}

/// The rank on which an iteration ends last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) process: ProcessId,
    /// Begin and end as its trace has them.
    pub(super) times: (u64, u64),
    /// Its end is that of an operation of the GPU, or the begin of one.
    pub(super) is_of_gpu: bool,
    /// How much later than the iteration on the host its work ends, if that is where the path ends; else 0.
    pub(super) behind_ns: u64,
}

impl Span {
    pub(super) fn duration_ns(&self) -> u64 {
        self.end.abs_diff(self.begin)
    }
}

/// A rank's iterations, and its process.
pub(super) struct Of<'l> {
    pub(super) process: ProcessId,
    pub(super) axis: &'l Axis,
    pub(super) lane: &'l Lane,
}

/// All iterations, by their numbers; of ranks that end one at the same time the first counts.
pub(super) fn spans(lanes: &[Of<'_>]) -> BTreeMap<u64, Span> {
    let mut found: BTreeMap<u64, Span> = BTreeMap::new();
    for of in lanes {
        for one in &of.lane.iterations {
            let next = span(of, one);
            match found.get_mut(&one.number) {
                None => {
                    found.insert(one.number, next);
                }
                Some(known) => {
                    known.begin = known.begin.min(next.begin);
                    if next.end > known.end {
                        (known.end, known.last) = (next.end, next.last);
                    }
                    known.ranks += 1;
                    known.is_warm_up |= next.is_warm_up;
                    known.is_open |= next.is_open;
                }
            }
        }
    }
    found
}

fn span(of: &Of<'_>, one: &Iteration) -> Span {
    let (host_start_ns, host_end_ns) = one.host_ns;
    let is_of_gpu = matches!(of.lane.marker_kind, MarkerKind::Kernel | MarkerKind::Whole);
    // A host that does not wait for its GPU is ahead of it: the iteration is not over before its work is.
    let behind_ns = one.work_end_ns.saturating_sub(host_end_ns);
    let is_behind =
        !is_of_gpu && behind_ns > BEHIND_NS.max((host_end_ns - host_start_ns) / BEHIND_PART);
    let behind_ns = if is_behind { behind_ns } else { 0 };
    let end_ns = host_end_ns + behind_ns;
    Span {
        number: one.number,
        begin: of.axis.common(host_start_ns),
        end: of.axis.common(end_ns),
        ranks: 1,
        last: Last {
            process: of.process,
            times: (host_start_ns, end_ns),
            is_of_gpu,
            behind_ns,
        },
        is_warm_up: one.verdict == Verdict::WarmUp,
        is_open: one.verdict == Verdict::Open,
    }
}

/// The iterations that are examined, each with the reason, in order; and the numbers that were asked for in vain.
pub(super) fn selected(
    spans: &BTreeMap<u64, Span>,
    wanted: &[u64],
) -> (Vec<(&'static str, Span)>, Vec<u64>) {
    let mut found: BTreeMap<u64, (&'static str, Span)> = BTreeMap::new();
    let mut lost = Vec::new();
    for number in wanted {
        match spans.get(number) {
            Some(span) => drop(found.insert(*number, ("asked for", span.clone()))),
            None => lost.push(*number),
        }
    }
    if wanted.is_empty() {
        let mut usual: Vec<&Span> = spans
            .values()
            .filter(|one| !one.is_open && !one.is_warm_up)
            .collect();
        if usual.is_empty() {
            usual = spans.values().collect();
        }
        usual.sort_by_key(|one| (one.duration_ns(), std::cmp::Reverse(one.number)));
        let middle = usual.len().saturating_sub(1) / 2;
        if let (Some(median), Some(slowest)) = (usual.get(middle), usual.last()) {
            found.insert(median.number, ("median", (*median).clone()));
            found.insert(slowest.number, ("slowest", (*slowest).clone()));
        }
    }
    (found.into_values().collect(), lost)
}
