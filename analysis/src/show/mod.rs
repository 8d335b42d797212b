//! How answers are written: text, Markdown, a page and pictures for people, JSON and CSV for programs. No number is computed here.

mod csv;
mod json;
mod markdown;
mod page;
mod pictures;
mod quantity;
mod terminal;
mod text;

pub use csv::csv;
pub use json::json;
pub use markdown::markdown;
pub use page::page;
pub use pictures::{Picture, pictures};
pub use terminal::{ToTerminal, printable};
pub use text::{text, text_within};
