//! Answers from traces.
//!
//! Data flows one way: a file becomes batches of records ([`read`]), every question consumes the same batches in one pass
//! ([`measure`]), each makes tables ([`table`]), and tables become text, JSON or CSV ([`show`]).
//!
//! | folder | holds |
//! |---|---|
//! | [`model`] | what ran where: processes, threads, GPUs, queues, names, call stacks, and the records of a batch |
//! | [`perfetto`] | the packets of a Perfetto trace as events with times, tracks and sequences, without decoding whole messages |
//! | [`read`] | one reader for each kind of file; none knows what is asked |
//! | [`containers`] | collections of small size |
//! | [`program`] | operators, ranges, places in the code: what is known of a program whatever is asked |
//! | [`measure`] | one module for each question; none knows where the records came from |
//! | [`ranks`] | questions that compare ranks, and read the files of some twice |
//! | [`compare`] | two runs, or several of two programs: what became slower |
//! | [`advice`] | rules, which judge finished answers and say what to look at first |
//! | [`parquet`] | tables in files of that format, written and read |
//! | [`table`] | finished answers |
//! | [`show`] | how answers are written |
//! | [`words`] | numbers in sentences |
//! | [`work`] | what an operator has to do: operations and bytes, from its name and shapes |
//!
//! A new question is a file in [`measure`] with a [`measure::Measure`]; a new format is a folder in [`read`] with a
//! [`read::Reader`]. Nothing here knows a command line.

#![forbid(unsafe_code)]

pub mod advice;
pub mod compare;
pub mod containers;
pub mod measure;
pub mod model;
pub mod parquet;
pub mod perfetto;
pub mod program;
pub mod ranks;
pub mod read;
pub mod show;
pub mod table;
pub mod words;
pub mod work;

mod pass;

pub use pass::{answers, pass, pass_counted, pass_in_order, processors};
