//! What a job makes of what its ranks read.
//!
//! Parts are put together (`gathering`, `recordings`), ranks matched by communicator and number (`matching`, `by_order`) on one axis of time (`clocks`), and every operation
//! judged (`judging`). Ranks that stand out (`stragglers`) are read again beside some that do not (`found`), and what they did more of is the `cause`. What the job would gain
//! without them is found by going through its collectives once more (`replay`).

mod by_order;
pub(super) mod cause;
pub(super) mod clocks;
pub(super) mod found;
pub(super) mod gathering;
mod identity;
mod judging;
pub(super) mod last_arrivals;
pub(super) mod lateness_map;
mod matching;
pub(super) mod proxy_waits;
mod recordings;
pub(super) mod records;
pub(super) mod replay;
mod segments;
pub(super) mod stragglers;
