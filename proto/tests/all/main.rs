//! What is written as a Perfetto trace.

mod blocks;
mod common;
mod contents;
mod files;
mod slices;
