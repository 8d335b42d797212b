//! The library inside the target.
