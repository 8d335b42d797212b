//! What tests share: files and what readers make of them, records made by hand, and values of answers.

#![allow(dead_code, unused_imports, reason = "no test file needs all of it")]

mod asked;
mod files;
mod hand_made;
mod schema;

pub use asked::*;
pub use files::*;
pub use hand_made::*;
pub use schema::judge;
