//! How answers are written: text for people, JSON and CSV for programs. No number is computed here.

mod csv;
mod json;
mod quantity;
mod text;

pub use csv::csv;
pub use json::json;
pub use text::text;
