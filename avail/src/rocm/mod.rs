//! The tables about ROCm: `installed` lists the runtimes of this machine (`--runtimes`), `program` says what a program would load and how
//! its GPU operations would be recorded (`--for`).

pub mod installed;
pub mod program;
