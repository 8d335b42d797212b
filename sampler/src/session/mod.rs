//! How processes become known.
//!
//! A [`socket`] in the abstract namespace takes the agents' datagrams; a [`receive`] thread turns
//! each into an [`Arrival`]: the checked and mapped [`segment`], and a descriptor that tells the
//! end of the process. Nothing here trusts the other side: what is odd is counted and refused,
//! since any program on the machine can send to the socket and every target can write into its
//! segment. [`left_out`] keeps the programs that run without an agent; [`members`] finds those that
//! belong to the run and have not announced themselves; [`presence`] tells the agents when we are gone.

pub mod key;
pub mod left_out;
pub mod members;
pub mod presence;
pub mod receive;
pub mod segment;
pub mod socket;

pub use key::ProcessKey;
pub use left_out::LeftOut;
pub use receive::{Arrival, ExitWatch, Failure, Receiver, Unstarted};
pub use segment::MappedSegment;
pub use socket::SessionSocket;
