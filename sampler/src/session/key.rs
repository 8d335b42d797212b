//! What identifies a process during a run.

/// A program in a process: an exec makes another of it, an id that is used again too.
pub type ProcessKey = u32;
