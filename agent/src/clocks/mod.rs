//! What interrupts a thread, and what is counted along with its samples.

pub mod clock;
pub mod dither;
pub mod missing;
pub mod perf;
pub mod thread_counters;
