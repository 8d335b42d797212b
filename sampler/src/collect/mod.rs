//! Emptying the rings while the target runs.
//!
//! A [`Collector`] keeps the processes of a session. It takes arrivals, makes passes over all
//! rings, hands what it finds to the writer, and notices when processes end. [`sweep`] is one pass
//! over one process, [`adopt`] finds threads that no agent saw.

pub mod adopt;
mod collector;
pub mod sweep;

pub use collector::{Collector, Exited, Pass};
