//! From records to traces.
//!
//! The [`writer`] thread takes [`batch::Batch`]es of raw records. A [`process::ProcessTrace`] reads them: [`threads`] puts each
//! sample's stack together, [`frames`] (with [`modules`] and the resolver) knows what stands behind its addresses, [`slices`] makes
//! the timeline of it, [`mod@waits`] that of waits, [`off_cpu`] that of times off the processor, [`counters`] and [`thread_counters`] the tracks of
//! counters, [`events`] draws calls and GPU operations, and
//! [`output`] the packets. [`mod@profile`] gathers the summaries beside it. [`naming`] and [`file_names`] say what the files are called,
//! [`identity`], [`tally`] and
//! [`metadata`] what a trace says about itself.

pub mod batch;
pub mod category_names;
pub mod counters;
pub mod cpu_windows;
pub mod events;
pub mod file_names;
pub mod frames;
pub mod identity;
pub mod metadata;
pub mod modules;
pub mod naming;
pub mod numbers;
pub mod off_cpu;
pub mod output;
pub mod process;
pub mod profile;
pub mod run;
pub mod slices;
pub mod stacks;
pub mod tally;
pub mod thread_counters;
pub mod threads;
pub mod waits;
pub mod writer;
