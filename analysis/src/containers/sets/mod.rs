//! Sets of times: unions of half-open intervals that arrive nearly in order, and what several of them have in common.

pub(crate) mod in_order;
mod runs;
mod sweep;
mod union;

pub use runs::{IntervalSet, Intervals};
pub use sweep::{Segment, sweep};
pub(crate) use union::Union;

/// Makes a span of time reach over another one as well.
pub(crate) fn widen(span: &mut Option<(u64, u64)>, (start_ns, end_ns): (u64, u64)) {
    let (first_ns, last_ns) = span.get_or_insert((start_ns, end_ns));
    (*first_ns, *last_ns) = (start_ns.min(*first_ns), end_ns.max(*last_ns));
}
