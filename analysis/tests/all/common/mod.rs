//! What tests share: files and what readers make of them, records made by hand, and values of answers.

mod asked;
mod files;
mod hand_made;
pub mod schema;

pub use asked::*;
pub use files::*;
pub use hand_made::*;
pub use schema::judge;
