//! Traces as batches of records.
//!
//! Data flows one way: a file becomes batches of records ([`read`]), whose names, processes, GPUs and call stacks a [`model`] holds. Nothing here knows what
//! is asked of them.
//!
//! | folder | holds |
//! |---|---|
//! | [`model`] | what ran where: processes, threads, GPUs, queues, names, call stacks, and the records of a batch |
//! | [`perfetto`] | the packets of a Perfetto trace as events with times, tracks and sequences, without decoding whole messages |
//! | [`read`] | one reader for each kind of file |
//! | [`words`] | numbers in sentences |
//! | [`work`] | what an operator has to do: operations and bytes, from its name and shapes |
//!
//! A new format is a folder in [`read`] with a [`read::Reader`].

#![forbid(unsafe_code)]

pub mod model;
pub mod perfetto;
pub mod read;
pub mod words;
pub mod work;
