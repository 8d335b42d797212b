//! The driver of the simulated GPUs, preloaded into programs: `librsys_simgpu.so`.
//!
//! The unmodified runtimes talk to a kernel driver through `/dev/kfd`, `/dev/dri/renderD*` and sysfs. This library
//! stands in front of the functions of the C library that lead there (`interpose`), answers the driver's calls
//! (`kfd`, `drm`), and one thread per process executes what programs put into their queues (`engine`). Memory and
//! doorbells need nothing special: every device descriptor is a shared memory file, and offsets for `mmap` are
//! offsets in it.
//!
//! Without [`settings::ENV_ROOT`] in the environment all calls go straight through.

#![allow(
    clippy::cast_possible_truncation,
    reason = "registers and packets are cut into 32-bit halves everywhere"
)]

mod abi;
mod account;
mod accounts;
mod board;
mod clock;
mod device;
mod drm;
mod engine;
mod faults;
mod formula;
mod interpose;
mod kernels;
mod kfd;
mod memory;
mod packet;
mod process;
mod settings;
mod simulation;
mod sys;
mod timing;
mod truth;
mod watch;
