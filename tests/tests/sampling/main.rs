//! Samples and counters: as many as asked for, with whole stacks, in their true shares.

mod accounts;
mod completeness;
mod judges;
mod monitors;
mod names;
mod rate;
mod shares;
mod split;
mod stacks;
mod thread_names;
