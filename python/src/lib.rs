//! Reads the Python frames of a thread, of the calling one or of one that sleeps elsewhere: a guarded memory reader in, frames and code objects out.
//!
//! The crate knows no signals, rings or files. The story of one sample:
//!
//! 1. [`Interpreter::find`] looks at a loaded module once: is it a CPython, and of which version? [`layout`] has one table for each
//!    version from 3.8 to 3.12; from 3.13 on the interpreter has a table of its offsets ([`debug_offsets`]).
//! 2. [`thread::find`] finds the thread state of the calling thread: in thread-specific storage, or in the interpreter's list.
//! 3. [`stack::walk`] follows the chain of frames from the innermost outwards and makes one word of each: which code object,
//!    which instruction, and whether the interpreter's C function was entered there.
//!    Another process finds it by [`outside`], with a reader of foreign memory; all else is the same.
//! 4. [`code::Code`] describes a code object that is new, and [`thread_name`] the name that `threading` gave to the thread.
//!
//! The chain belongs to the thread that reads it, or that sleeps while it is read, so it stands still. What is half-way through a change, or not what the tables say,
//! is refused: a code object must have the type of code objects, a thread state the thread's own id, and every read is guarded.
//!
//! # Signal safety
//!
//! Everything here may run in a signal handler: no allocation, lock, panic, system call or thread-local storage, and every loop is
//! bounded. Memory is touched through [`rsys_unwind::Memory`] only.

#![no_std]

pub mod code;
pub mod debug_offsets;
mod interpreter;
pub mod layout;
pub mod outside;
pub mod stack;
pub mod symbols;
pub mod text;
pub mod thread;
pub mod thread_name;

pub use self::interpreter::{Found, Interpreter};
