//! What RCCL's proxies, the threads that move its data between nodes, did.

use super::{ProcessId, TextId};

/// What a record of a proxy is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ProxyWork {
    /// One collective or message, on one channel with one peer. It comes behind its steps.
    #[default]
    Operation,
    /// A transfer of an operation.
    Step,
}

/// An operation or a step of a proxy. Those of one operation have its communicator, rank, number, channel, direction and peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyRecord {
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The process whose proxy it is.
    pub process: ProcessId,
    /// Name of the function, of an operation.
    pub name: TextId,
    /// [`super::CollectiveCall::communicator`]; empty of what is done for another process.
    pub communicator: TextId,
    /// The rank in the communicator.
    pub rank: Option<u64>,
    /// [`super::CollectiveCall::sequence`].
    pub sequence: Option<u64>,
    /// The channel.
    pub channel: u64,
    /// The rank in the communicator that data goes to or comes from.
    pub peer: Option<u64>,
    /// It sends, or it receives.
    pub is_send: bool,
    /// What it is.
    pub work: ProxyWork,
    /// Nanoseconds of a step in which the GPU's kernel was waited for.
    pub gpu_wait_ns: u64,
    /// In which the receiver's room was waited for; only of one that sends.
    pub peer_wait_ns: u64,
    /// In which the network had it, or, of one that receives, until the data was there.
    pub network_ns: u64,
    /// In which what was received was made visible to the GPU.
    pub flush_ns: u64,
}
