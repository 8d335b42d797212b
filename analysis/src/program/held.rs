//! Calls that copy aside and are held by their copies nevertheless, as those of pageable memory are.

use rsys_traces::model::Effect;

/// An asynchronous copy whose call took less has not held its thread, whatever its times say.
const HELD_NS: u64 = 20_000;

/// Whether a call that copies aside has waited for its own copy: it returned only when that had ended, if the trace has it.
#[inline]
pub(crate) fn is_held(
    effect: Effect,
    (start_ns, end_ns): (u64, u64),
    copied_ns: Option<u64>,
) -> bool {
    effect == Effect::CopiesAside
        && end_ns - start_ns >= HELD_NS
        && copied_ns.is_some_and(|copied_ns| copied_ns <= end_ns)
}
