//! Sets of times: unions of half-open intervals that arrive nearly in order, and what several of them have in common.

pub(crate) mod in_order;
mod runs;
mod sweep;

pub use runs::{IntervalSet, Intervals};
pub use sweep::{Segment, sweep};
