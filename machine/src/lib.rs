//! What this machine can count and measure, for whoever lists it (`rsys-avail`) or records it (`rsys-sample`).
//!
//! - [`perf`] asks the kernel whether it would count an event, and understands its refusals.
//! - [`events`] knows the names of events: the kernel's, those of its counting units, PAPI's and libpfm4's.
//! - [`gpu`] finds AMD GPUs and reads their sensors.
//! - [`openmp`] finds runtimes of OpenMP that can take the place of gcc's.
//! - [`names`] says how much of a file's functions have names.
//! - [`secure`] says which programs the kernel starts without the libraries that the environment names.
//! - [`rocm`] finds installed runtimes, and those that a program would load.
//!
//! No GPU runtime is touched. All of the machine is seen through [`roots::Roots`] and [`perf::Kernel`], so that tests can put other
//! machines in its place.

pub mod events;
pub mod gpu;
pub mod names;
pub mod openmp;
pub mod perf;
pub mod rocm;
pub mod roots;
pub mod secure;
