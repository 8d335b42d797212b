//! SQL over the tables of the records of traces.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | a query, from its text to its rows |
//! | [`order`] | rows of a table in the order of one of their columns |
//! | [`records`] | tables of a store as SQLite sees them |
//! | [`show`] | rows as text, JSON and CSV |
//!
//! SQLite reads the columns where they are: nothing is copied into a database.

mod engine;
mod order;
mod records;
mod show;

pub use engine::{Failure, Shown, query};
pub use show::Form;
