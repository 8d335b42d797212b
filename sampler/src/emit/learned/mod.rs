//! What a process recorded that other records refer to. It is kept to the end: it may be needed at
//! any time.
//!
//! [`Learned`] holds it all: [`modules`] says which library was where and when, [`frames`] which
//! functions stand behind addresses, [`stacks`] puts stacks together of what records hold.
//! [`events`] keeps texts, stacks and labels of events, [`calls`] those calls that caused GPU
//! operations, and [`thread_numbers`] counts threads in the order of their starts.

pub mod calls;
pub mod events;
pub mod frames;
pub mod modules;
mod process;
pub mod stacks;
pub mod thread_numbers;

pub use self::process::Learned;
