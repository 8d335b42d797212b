//! Hardware counters of GPUs. Those of single kernels are recorded in the program, by its own queues: [`kernels`] says to the agent which. Those of whole
//! GPUs are read here, by AMD's `libhsa-amd-aqlprofile64`: the library writes the commands that start and read counters, and a queue of
//! our own on each GPU executes them.
//!
//! As for the SMI libraries, runtime and library live in a process of their own, the [`reader`]: the profiled program is not touched, and what goes wrong
//! there ends there.

mod device;
pub mod events;
pub mod kernels;
mod library;
pub mod reader;
