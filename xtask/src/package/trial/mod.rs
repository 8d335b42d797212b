//! Packages tried as a user would: installed in a clean place, used, removed. Nothing may be left.

pub mod deb;
mod place;
mod root;
pub mod rpm;
pub mod tarball;
pub mod wheel;

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// One interpreter, one system.
    One,
    /// All that are found or can be fetched.
    Everywhere,
}
