//! The atomics of the ring: the machine's, or loom's when the model is checked.

#[cfg(feature = "model")]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(feature = "model"))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
