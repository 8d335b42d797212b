//! From records to traces.
//!
//! The [`writer`] thread takes [`batch::Batch`]es of raw records and hands them to the
//! [`process::ProcessTrace`] of each process. What the records refer to is [`learned`]: modules,
//! code, texts, stacks. The others are drawn with it ([`drawing`]): slices, samples, waits,
//! counters, calls and GPU operations. [`output`] makes packets of that for a sink. Beside the
//! trace, [`mod@profile`] gathers summaries and [`account`] counts; [`outcome`] is what is left of
//! a process at its end. [`host_counters`] finds the trace that shows what is read of the machine,
//! and [`cpu_windows`] follows windows of CPU time.

pub mod account;
pub mod batch;
pub mod cpu_windows;
pub mod digest;
pub mod drawing;
pub mod host_counters;
pub mod learned;
pub mod outcome;
pub mod output;
pub mod overview;
pub mod process;
pub mod profile;
mod thread_name;
mod tools;
pub mod writer;
