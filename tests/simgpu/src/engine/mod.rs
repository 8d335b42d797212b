//! What executes the queues: one thread per process, for all its GPUs.
//!
//! Time is simulated exactly and does not depend on when the thread gets to run. A packet starts at the later of the
//! moment that it was seen and the end of what it has to wait for; its end is its start plus its duration. Its effects
//! (data, signals, events) come as soon as that end has passed. So a late thread makes completions late, but neither
//! kernels longer nor gaps between them wider.
//!
//! - `worker`: the loop, `idle`: how it rests; `arrivals`: when packets were seen.
//! - `packets`: queues of AQL packets; `fault`: what goes wrong there.
//! - `copies`, `copy_packet`: queues of the copy engines.
//! - `signal`: how completion is told.

mod arrivals;
mod context;
mod copies;
mod copy_packet;
mod counters;
mod fault;
mod idle;
mod packets;
mod scratch;
mod signal;
mod worker;

pub use worker::start;
