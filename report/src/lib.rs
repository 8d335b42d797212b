//! `rsys-report` works on traces that are written: it says where the time went, merges those of many processes into one, checks whether they
//! are complete, and finishes those that a killed profiler left.
//!
//! - `cli` reads the command line.
//! - [`files`] finds the traces that are meant; [`trace_info`] takes a first look at one, and `contents` counts what is in it; `block_writer` writes one.
//! - [`mod@merge`], [`mod@cut`], [`mod@check`] and [`mod@recover`] are the verbs that work on traces as they are.
//! - `view` gives traces to the Perfetto UI.
//! - `question` has the questions, `inputs` what they are asked of and how the answer is written; `ask` puts them to `rsys-analysis`, which reads the packets
//!   here as well, and `progress` shows how far that has come.
//!   `absent` says in one note what traces do not hold.
//! - `collectives` compares ranks, and reads some traces twice for that.
//! - `overlap` asks for iterations, a file at a time.
//! - `diff` compares runs.
//! - `export` writes the formats of other tools.
//! - `page` writes all answers to a page.
//! - `query` writes tables of records, and has them asked in SQL.
//! - `cache` keeps what was found out.
//! - `mcp` answers programs.

pub mod check;
pub mod cut;
pub mod files;
pub mod merge;
pub mod recover;
pub mod trace_info;

mod absent;
mod ask;
mod block_writer;
mod cache;
mod cli;
mod collectives;
mod contents;
mod diff;
mod efficiency;
mod export;
mod inputs;
mod manual;
mod mcp;
mod overlap;
mod page;
mod parts;
mod progress;
mod query;
mod question;
mod temp_output;
mod view;
mod words;
mod workbook;

use std::ffi::OsString;

pub use cli::command;

/// Does what the arguments (with the program's name) say, and returns the exit code: 0 for success, 1 when something was found or failed,
/// 2 for a wrong command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    cli::run(arguments)
}
