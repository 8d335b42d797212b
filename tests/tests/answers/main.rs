//! What `rsys-report` answers.

mod advice;
mod bad_input;
mod cache;
mod collectives;
mod diff;
mod efficiency;
mod gaps;
mod gpus;
mod iterations;
mod kineto;
mod launch;
mod loaders;
mod mcp;
mod parts;
mod query;
mod questions;
mod report;
