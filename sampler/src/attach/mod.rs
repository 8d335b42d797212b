//! Bringing the agent into a process that runs.
//!
//! [`mod@judge`] says whether that can be, and what would help where it cannot. [`inject`] does it: it has a thread of the process stopped
//! ([`stop`], `borrow`) where it holds no lock of the loader or the allocator ([`place`]), makes it map some memory and start a new thread by code of ours
//! ([`code`]), and lets it go on as if nothing had been. The new thread loads the agent by the process's own C library ([`functions`]) and
//! serves us from then on ([`rsys_wire::attach`]). Threads that block all signals are told to let ours through ([`masks`]). A server whose
//! only thread waits with a time limit is watched until a wait of it begins ([`since`]).
//!
//! Whatever we do to a stopped thread is done by one system call that gives it other registers; from there it finds back by itself. So we may be
//! killed at any moment, and the process goes on.

mod borrow;
pub mod code;
pub mod functions;
pub mod inject;
pub mod judge;
pub mod maps;
pub mod masks;
pub mod place;
pub mod since;
pub mod stop;

pub use inject::{Attached, attach};
pub use judge::judge;
pub use masks::Masks;

/// What a second sampler is told.
pub(crate) const RECORDED: &str =
    "another rsys-sample records it already; wait for its end, or end it with Ctrl-C";

/// Why a process cannot be attached to, and what helps: one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// A refusal in these words.
    pub fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }
}
