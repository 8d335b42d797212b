//! rsys-sample: runs a program, collects its samples, writes Perfetto traces.
//!
//! [`cli`] reads what the user asks for and [`plan`] makes a run of it, which [`profile`](mod@profile) carries out: [`launch`] starts
//! the target with the agent in it, [`session`] takes the agents' shared memory, [`collect`] empties it, [`waits`] looks at threads
//! that are blocked, [`offcpu`] takes the kernel's records of context switches, [`windows`] knows what is to be kept, [`monitors`] reads counters, [`emit`] makes traces of it all with the names that [`resolve`] and, for Python, [`python`] find, and [`summary`]
//! says what became of it. [`jobs`] knows the larger whole: ranks, steps, launchers.

pub mod cli;
pub mod collect;
pub mod counting;
pub mod emit;
pub mod jobs;
pub mod launch;
pub mod monitors;
pub mod offcpu;
mod os;
pub mod plan;
mod proc;
pub mod profile;
pub mod python;
pub mod resolve;
pub mod session;
pub mod smi;
pub mod summary;
pub mod terminal;
pub mod waits;
pub mod windows;
pub mod words;
