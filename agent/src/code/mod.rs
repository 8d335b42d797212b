//! Which code lies where, and how stacks of it are walked: loaded modules, code made at run time, unwind rules.

pub mod debug_frames;
pub mod jit;
pub mod modules;
pub mod object;
pub mod rules;
pub mod snapshot;
