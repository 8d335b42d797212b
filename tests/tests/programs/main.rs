//! Programs of others, of many kinds: they do what they do alone, and what is recorded is right.

mod cpython;
mod languages;
mod lock_programs;
mod old_systems;
mod sanitizers;
mod strangers;
mod stress;
mod trees;
