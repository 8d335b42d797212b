//! rsys-sample: runs a program, collects its samples, writes Perfetto traces.
//!
//! [`cli`] reads what the user asks for and [`plan`] makes a run of it, which
//! [`profile`](mod@profile) carries out:
//!
//! - [`launch`] starts the target with the agent in it; [`session`] takes the agents' shared
//!   memory, and [`identity`] says whose it is.
//! - [`collect`] empties that memory. [`waits`] looks at threads that are blocked, [`offcpu`] takes
//!   the kernel's records of context
//!   switches, [`monitors`] (with [`smi`]) reads [`counters`].
//! - [`emit`] makes traces of it all, with the names that [`resolve`] and, for Python, [`python`]
//!   find. [`run`] is what all traces have
//!   in common, [`windows`] knows which times are to be kept.
//! - [`dump`] prints the stacks of processes that run, once; [`attach`] brings the agent into one.
//! - [`summary`] says what became of it. [`jobs`] knows the larger whole: ranks, steps, launchers.
//!
//! `floors.toml` says who may use whom.

// A module's page names the private files that it is made of.
#![allow(rustdoc::private_intra_doc_links)]

pub mod attach;
pub mod cli;
pub mod collect;
pub mod counters;
pub mod dump;
pub mod emit;
pub mod gpu_counters;
pub mod identity;
pub mod jobs;
pub mod kernel_counters;
pub mod launch;
pub mod monitors;
pub mod offcpu;
mod os;
pub mod plan;
mod procfs;
pub mod profile;
pub mod python;
pub mod resolve;
pub mod run;
pub mod session;
pub mod smi;
pub mod summary;
pub mod terminal;
pub mod waits;
pub mod windows;
pub mod words;
