//! How answers are written: text and a page with pictures for people, JSON and CSV for programs. No number is computed here.

mod csv;
mod json;
mod page;
mod quantity;
mod text;

pub use csv::csv;
pub use json::json;
pub use page::page;
pub use text::text;
