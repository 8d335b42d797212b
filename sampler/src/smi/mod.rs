//! AMD's SMI libraries (`librocm_smi64`, `libamd_smi`), for the GPU sensors that the kernel's files
//! do not give.
//!
//! A library may hang, crash or print whatever it likes while it is loaded, so it lives in a
//! process of its own: the [`reader`], which is this program under another name. The [`Client`]
//! never waits for it.

mod client;
mod functions;
mod library;
pub mod reader;

pub(crate) use library::pci_address;

pub use client::{Client, Reader, Standing, Wanted};
