//! Databases of SQLite whose large tables are written page by page, in the order of their row ids.
//!
//! SQLite itself makes the tables, and what comes last: indexes, small tables. What a row costs it is ten times what it costs
//! here, where nothing is looked for: rows are appended to the right end of their tree. The format is that of
//! <https://www.sqlite.org/fileformat2.html>; numbers in comments are its sections.
//!
//! | file | holds |
//! |---|---|
//! | `value`, `record` | values, and rows as bytes |
//! | `node` | a page of a tree |
//! | `tree` | trees of rows, and of indexes of numbers |
//! | `pages` | the file: pages behind each other, and roots, whose places SQLite chose |
//! | `bulk` | tables to which rows are added |

mod bulk;
mod node;
mod pages;
mod record;
#[cfg(test)]
mod tests;
mod tree;
mod value;

pub(crate) use bulk::{Bulk, Rows};
pub(crate) use value::Value;
