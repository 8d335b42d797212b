//! What can be known of processes, host and GPUs from outside: counters beside the call stacks.
//!
//! One thread ([`poller`]) reads all of it at even intervals and hands on what changed: files of
//! the kernel for each process ([`process`]) and for the host ([`host`]), sensors of GPUs
//! ([`gpu`]) and what their [`driver`] tells. Files are kept open and parsed as bytes ([`mod@file`]), and by default the thread waits
//! longer when its work becomes more than a small share of a processor. [`crate::counters`] is what
//! comes out.

mod driver;
mod fdinfo;
mod file;
mod gpu;
mod host;
mod kfd;
mod numbers;
mod poller;
mod process;
mod switches;

pub use gpu::{Choice as GpuChoice, Gpus, prepare as prepare_gpus};
pub use poller::{Choice, Monitors};
