//! What agent and sampler agree on.
//!
//! A target process owns one or more *segments*: sealed memfds that hold a header and a number of
//! rings, one ring per thread. The agent makes a segment, maps it, and sends its descriptor to the
//! sampler in one datagram ([`handshake`]) before it writes the first record, so that nothing is
//! ever recorded that the sampler does not hold a mapping of. A process that needs more rings makes
//! another segment: there is no limit on threads and nothing is ever remapped.
//!
//! * [`layout`]: the bytes of a segment, and the checks that a sampler makes before it trusts one.
//! * [`ring`]: the single-producer single-consumer ring, in whole 64-bit words.
//! * [`record`]: what the words mean.
//! * [`event`]: those of them that record what a program or a GPU did.
//! * [`sources`]: what such events come from.
//! * [`handshake`]: the datagram and the environment variables that lead to it.
//! * [`clocks`]: whose CLOCK_BOOTTIME the times are of.
//! * [`counting`]: what the threads count beside their samples.
//! * [`attach`]: what the sampler asks of an agent that it brings into a process that runs.
//! * [`adopt`]: how the sampler asks for a clock on a thread that the agent missed.
//! * [`launchers`]: the programs in which an agent sleeps, because they only start others;
//! * [`program`]: the programs that it cannot be loaded into;
//! * [`counter_library`]: AMD's library of counter commands, as both use it;
//! * [`kernel_counters`]: what is counted of each kernel, and its values; [`pattern`]: of which kernels;
//! * [`gpu`], [`release`]: who records a GPU's operations, and releases of ROCm that need care.
//!
//! Everything is little-endian and made of 64-bit words; [`VERSION`] changes with any layout.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("rsys runs on Linux on x86-64, as ROCm does");

pub mod adopt;
pub mod attach;
pub mod clocks;
pub mod counter_library;
pub mod counting;
pub mod event;
pub mod gpu;
pub mod handshake;
pub mod kernel_counters;
pub mod launchers;
pub mod layout;
pub mod name_list;
pub mod pattern;
pub mod program;
pub mod record;
pub mod release;
pub mod ring;
pub mod sources;
mod sync;
mod text;
mod words;

/// Version of every layout in this crate. Agent and sampler of different versions refuse each other.
pub const VERSION: u32 = 9;
