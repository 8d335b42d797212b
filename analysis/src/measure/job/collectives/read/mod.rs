//! What one rank read.
//!
//! Calls are joined with their kernels (`joining`), kernels without calls put in order (`unrecorded`), and calls joined with what RCCL's proxies did for them (`proxies`); what that gives of a file is a `part`. Of ranks that
//! were late, a second reading says what they did meanwhile (`activity`).

pub(super) mod activity;
pub(super) mod joining;
pub(super) mod operations;
pub(super) mod part;
pub(super) mod proxies;
mod unrecorded;
