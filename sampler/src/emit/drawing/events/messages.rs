//! Messages between ranks: the arrow from the call that sends one to what receives it, drawn where the traces of both are merged.

use rsys_proto::shared_flow;
use rsys_wire::event::{Args, Category, Key};

use crate::emit::learned::events::EventTables;

/// The most arrows of one call: `MPI_Sendrecv` sends a message and receives one.
pub(super) const ARROWS_MAX: usize = 2;

/// The flows of the messages that a call or mark of MPI sends and receives. They have the same ids in the traces of all ranks, made of the
/// communicator, the two ranks, the tag, and the number of the message, which the agent leaves out where it is not certain. A call that only
/// begins to receive (its `correlation` is that of a request) has none: its end is a mark of its own.
pub(super) fn flows(
    category: Category,
    args: Args<'_>,
    is_request: bool,
    known: &EventTables,
) -> [Option<u64>; ARROWS_MAX] {
    if category != Category::Mpi {
        return [None; ARROWS_MAX];
    }
    let flow = |ends: [Option<u64>; 2], tag: Option<u64>, number: Option<u64>| {
        let number = number?;
        let communicator = known.text(args.number(Key::Communicator)?)?;
        let [from, to] = ends;
        Some(shared_flow(
            communicator.as_bytes(),
            &[from?, to?, tag?, number],
        ))
    };
    let number = |key| args.number(key);
    let (rank, peer) = (number(Key::Rank), number(Key::Peer));
    let sent = flow([rank, peer], number(Key::Tag), number(Key::Message));
    let source = number(Key::From).or(peer);
    let tag = number(Key::ReceivedTag).or_else(|| number(Key::Tag));
    let received = flow([source, rank], tag, number(Key::ReceivedMessage));
    if sent == received {
        // To the caller itself, by one call.
        return [None; ARROWS_MAX];
    }
    [sent, received.filter(|_| !is_request)]
}
