//! Walks one stack: registers and a guarded memory reader in, return addresses out.
//!
//! The crate knows no signals, threads or files. A caller says what the registers were ([`Registers`]), how memory
//! may be read ([`Memory`]), which code lies where ([`Modules`]) and where the frames shall go ([`FrameBuffer`]); an [`Engine`]
//! does the rest:
//!
//! ```
//! use rsys_unwind::{CfiEngine, End, Engine, FrameBuffer, Memory, Modules, Registers};
//!
//! fn stack_of_the_interrupted_code<'buffer>(
//!     engine: &mut CfiEngine<'_>,
//!     registers: &Registers,
//!     memory: &impl Memory,
//!     modules: &impl Modules,
//!     buffer: &'buffer mut [u64; 128],
//! ) -> (&'buffer [u64], End) {
//!     let mut frames = FrameBuffer::new(buffer);
//!     let end = engine.walk(registers, memory, modules, &mut frames);
//!     (frames.into_words(), end)
//! }
//! ```
//!
//! # Engines
//!
//! - [`CfiEngine`] evaluates the complete call frame information of `.eh_frame` and is the default. Where code has none it
//!   tries the frame pointer, then the words on the stack, and says so in the frame ([`SCANNED`]).
//! - [`FramePointerEngine`] follows the frame pointers and needs tables only where these end.
//! - `FramehopEngine` (feature `framehop`) is the second opinion: the same interface over the framehop crate.
//!
//! # Signal safety
//!
//! Everything reachable from [`Engine::walk`] may run in a signal handler that interrupted any instruction of any program:
//! it does not allocate, lock, panic, recurse, use floating point or thread-local storage; every loop is bounded; it takes less than
//! 2.5 KiB of stack (a frame whose rule is cached: 400 bytes). Memory is touched through [`Memory`] only, the unwind tables included, because the library that they
//! belong to may be unmapped at any time. What the caller's `Memory` and `Modules` do is their matter. (`FramehopEngine` is
//! exempt from the limits on panics and stack: framehop decides there.)

#![no_std]

mod cfi;
pub mod debug_frame;
mod engine;
mod fallback;
mod fp;
#[cfg(feature = "framehop")]
mod framehop;
mod frames;
mod memory;
mod modules;

mod arch;

pub use self::arch::Registers;
/// Names of the registers that the walk itself cares about, by their DWARF numbers.
pub use self::arch::names as register;
pub use self::cfi::{CfiEngine, LastWalk, RuleCache, RuleSlot, WalkedAgain, described_functions};
pub use self::engine::Engine;
pub use self::fp::FramePointerEngine;
#[cfg(feature = "framehop")]
pub use self::framehop::{FRAMEHOP_STACK_BYTES, FramehopEngine, FramehopModule};
pub use self::frames::{Broken, EXACT, End, FLAGS, FrameBuffer, Full, SCANNED};
pub use self::memory::Memory;
pub use self::modules::{ModuleTables, Modules};
