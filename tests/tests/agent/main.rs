//! The agent within a program: whatever a program does, it does as without us, and its trace is there.

mod confined;
mod descriptors;
mod ends;
mod groups;
mod handlers;
mod inherited;
mod limits;
mod masked;
mod new_source;
mod outliving;
mod purity;
mod restrictions;
mod safety;
mod signals;
mod storms;
mod survival;
mod tracees;
mod traps;
