//! The board: counters and tables of the simulated machine that all its processes share.
//!
//! It lies in one shared file, made by the launcher. All fields are atomics, so no process can block another one, and
//! one that is killed leaves nothing locked.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::settings::MAX_GPUS;

/// Room for exported buffers, of all processes of a run together.
pub const MAX_EXPORTS: usize = 16_384;

/// Processes that use the GPUs at the same time; more have no accounts.
pub const MAX_PROCESSES: usize = 256;

/// Collectives that can be waited in.
pub const MAX_COLLECTIVES: usize = 4096;

/// The whole board. A file of zeros is a fresh one.
#[repr(C)]
#[derive(Debug)]
pub struct Board {
    /// Per GPU.
    pub gpus: [GpuBoard; MAX_GPUS],
    /// Per process that uses them.
    pub processes: [ProcessBoard; MAX_PROCESSES],
    /// How many exports were made.
    pub export_count: AtomicU64,
    /// Buffers that were exported to other processes.
    pub exports: [Export; MAX_EXPORTS],
    /// The collectives of all GPUs, the first of each in the first place.
    pub collectives: [Collective; MAX_COLLECTIVES],
}

/// A kernel on each of several GPUs, none of which ends before all have started.
#[repr(C)]
#[derive(Debug)]
pub struct Collective {
    /// The latest start so far, in ticks of the GPUs' clock.
    pub last_start_tick: AtomicU64,
    /// How many have started.
    pub started: AtomicU32,
}

/// What is known of one GPU on the whole machine.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct GpuBoard {
    /// The first byte of its memory file that was never given out.
    pub next_offset: AtomicU64,
    /// Bytes of device memory in use.
    pub used_bytes: AtomicU64,
    /// Nanoseconds of work accepted since the beginning, counted when it starts.
    pub busy_ns: AtomicU64,
    /// CLOCK_BOOTTIME at which the accepted work ends.
    pub busy_until_ns: AtomicU64,
    /// Dispatches started.
    pub dispatches: AtomicU64,
    /// Bytes copied to, from or within it.
    pub copied_bytes: AtomicU64,
    /// Kernels that hang.
    pub hung: AtomicU64,
    /// Kernels that ended, and their waves.
    pub kernels: AtomicU64,
    /// See `kernels`.
    pub waves: AtomicU64,
    /// Kernels of collectives that were started.
    pub collectives: AtomicU64,
    /// Not zero: the GPU is gone.
    pub vanished: AtomicU32,
}

/// One exported buffer.
#[repr(C)]
#[derive(Debug)]
pub struct Export {
    /// Where in the GPU's memory file.
    pub offset: AtomicU64,
    /// Bytes.
    pub size: AtomicU64,
    /// The runtime's own flags, given back to whoever imports.
    pub runtime_flags: AtomicU32,
    /// The kernel driver's flags.
    pub driver_flags: AtomicU32,
    /// Index of the GPU.
    pub gpu: AtomicU32,
    /// 1 when the entry is complete.
    pub ready: AtomicU32,
}

/// What one process uses; see `accounts`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ProcessBoard {
    /// Its number; 0: the entry is free.
    pub pid: AtomicU32,
    /// 1 when the entry is complete.
    pub ready: AtomicU32,
    /// When it began, in the kernel's ticks since boot: numbers are used again.
    pub began: AtomicU64,
    /// Bytes of device memory, per GPU.
    pub vram_bytes: [AtomicU64; MAX_GPUS],
    /// Nanoseconds that the copy engines worked for it, per GPU.
    pub sdma_ns: [AtomicU64; MAX_GPUS],
}
