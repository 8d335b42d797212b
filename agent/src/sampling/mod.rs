//! One sample: whose it is, the walk, what is new in it, and the record.

pub mod adopt;
pub mod buffers;
pub mod closing;
pub mod deferred;
pub mod framehop;
pub mod handler;
pub mod python;
pub mod seen;
pub mod slots;
pub mod stack_room;
pub mod tail;
pub mod walk;
pub mod words;
