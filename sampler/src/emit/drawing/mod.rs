//! How records become tracks.
//!
//! [`threads`] and [`slices`] make the timeline of samples, [`mod@waits`] that of waits, [`off_cpu`] that of times off the processor,
//! [`counters`] and [`thread_counters`] the tracks of counters; [`events`] draws calls and GPU operations.

pub mod counters;
pub mod events;
pub mod off_cpu;
pub mod slices;
pub mod thread_counters;
pub mod threads;
pub mod waits;
