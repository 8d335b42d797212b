//! `rsys-report` works on traces that are written: it merges those of many processes into one, checks whether they are complete, and
//! finishes those that a killed profiler left.
//!
//! - `cli` reads the command line.
//! - [`files`] finds the traces that are meant; [`survey`] takes a first look at one; [`metadata`] reads what it says about itself.
//! - [`mod@merge`] with [`clocks`], [`mod@check`] and [`mod@recover`] are the three verbs.

pub mod check;
pub mod clocks;
pub mod files;
pub mod merge;
pub mod metadata;
pub mod recover;
pub mod survey;

mod cli;
mod draft;
mod manual;
mod timeline;
mod words;

use std::ffi::OsString;

pub use cli::command;

/// Does what the arguments (with the program's name) say, and tells the exit code: 0 for success, 1 when something was found or failed,
/// 2 for a wrong command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    cli::run(arguments)
}
