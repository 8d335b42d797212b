//! What connects a process with the sampler: datagrams, segments of shared memory, counters.

pub mod announce;
pub mod counters;
pub mod pool;
pub mod segments;
