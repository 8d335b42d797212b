//! Answers from traces.
//!
//! Every question consumes the batches of records that [`rsys_traces`] reads, in one pass ([`measure`]), each makes tables ([`table`]), and tables become
//! text, JSON or CSV ([`show`]).
//!
//! | folder | holds |
//! |---|---|
//! | [`program`] | operators, ranges, places in the code: what is known of a program whatever is asked |
//! | [`containers`] | collections of small size |
//! | `joined` | what belongs to what: calls, and the operations that they caused |
//! | [`measure`] | one module for each question; none knows where the records came from |
//! | [`ranks`] | questions that compare ranks, and read the files of some twice |
//! | [`compare`] | two runs, or several of two programs: what became slower |
//! | [`advice`] | rules, which judge finished answers and say what to look at first |
//! | [`parquet`] | tables in files of that format, written and read |
//! | [`table`] | finished answers |
//! | [`show`] | how answers are written |
//!
//! A new question is a file in [`measure`] with a [`measure::Measure`]. Nothing here knows a command line.

#![forbid(unsafe_code)]

pub mod advice;
pub mod compare;
pub mod containers;
pub mod measure;
pub mod parquet;
pub mod program;
pub mod ranks;
pub mod show;
pub mod table;

mod joined;
mod pass;

pub use pass::{answers, pass, pass_counted, pass_in_order, processors};
