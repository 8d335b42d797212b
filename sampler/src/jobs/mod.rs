//! Runs that are a part of something larger: tasks of a job step, ranks of an MPI program.
//!
//! [`place`] says where this process stands and in which folder its step's traces belong;
//! [`record`] keeps `job.json` beside them; [`launchers`] knows the programs that start ranks.

pub mod launchers;
pub mod place;
pub mod record;
