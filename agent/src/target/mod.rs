//! What the program brings: its environment, its C library, who traces it.

pub mod debugger;
pub mod environment;
pub mod objects;
pub mod other_libc;
pub mod real;
pub mod tables;
