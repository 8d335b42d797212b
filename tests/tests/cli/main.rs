//! What a user types, and what the terminal shows.

mod answers;
mod avail;
mod closing;
mod command_line;
mod completions;
mod demo;
mod doctor;
mod names;
mod nothing;
mod options;
mod runtimes;
mod shown;
