//! When each thread was off the processor, to the microsecond: the kernel's own records of context
//! switches.
//!
//! [`rings`] holds one perf event per processor. They are opened on our own thread before the
//! target is made, which inherits them with all its descendants, and begin to record when it
//! executes its program. On large machines a ring is opened for each thread instead, when it is found. [`Intervals`] makes times off the processor of the records, and [`Watch`]
//! says whose they are. What a thread waited for in such a time is seen by [`crate::waits`].

mod intervals;
pub mod rings;
mod watch;

pub use intervals::{Interval, Intervals};
pub use rings::{OffCpu, ThreadRings};
pub use watch::{OffCpuInterval, OffCpuIntervals, Watch};
