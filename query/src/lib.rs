//! SQL over the tables of the records of traces.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | a query, from its text to its rows |
//! | [`grouped`] | the groups of a table's rows, and their sums |
//! | [`order`] | rows of a table in the order of one of their columns |
//! | [`records`] | tables of a store as SQLite sees them |
//! | [`shape`] | which queries do no more than to group |
//! | [`show`] | rows as text, JSON and CSV |
//!
//! SQLite reads the columns where they are: nothing is copied into a database.

mod engine;
mod grouped;
mod order;
mod records;
mod shape;
mod show;

pub use engine::{Failure, Shown, query};
pub use show::Form;
