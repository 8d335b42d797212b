//! Tables of the records of traces: one row for each kernel, call, sample and so on.
//!
//! | module | holds |
//! |---|---|
//! | [`catalog`] | which tables there are, what their columns mean, and what stored numbers those are made of |
//! | [`record`] | the records of a pass over traces become stored columns |
//! | [`store`] | the file of columns |
//! | [`view`] | columns as the catalog has them, from a store |
//!
//! A store holds numbers only: records refer to rows of other tables and to texts. What a column such as the name of a record's process is,
//! is looked up when it is asked for. Nothing here knows SQL.

#![forbid(unsafe_code)]

pub mod catalog;
pub mod record;
pub mod store;
pub mod view;
