//! What all traces of a run have in common.
//!
//! [`context`] is what was asked for, as far as traces differ by it; [`layout`] says where files
//! go, [`file_names`] which process has which name.

mod context;
pub mod file_names;
pub mod layout;

pub use context::{Overflow, RunContext, SwitchRecords, ThreadChoice, boot_and_host};
