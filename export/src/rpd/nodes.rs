//! Numbers of processes and GPUs, which leave room for nodes.

use std::collections::HashMap;

use crate::run::{Node, Process, Run};

/// From one node to the next.
pub(super) const GPU_STRIDE: u64 = 1000;
pub(super) const PID_STRIDE: u64 = 10_000_000;

/// The numbers of nodes.
#[derive(Debug)]
pub(super) struct Nodes<'r>(HashMap<Node<'r>, u64>);

impl<'r> Nodes<'r> {
    pub(super) fn of(run: &'r Run<'_>) -> Self {
        Self(run.nodes().into_iter().zip(0..).collect())
    }

    fn node(&self, process: &Process) -> u64 {
        self.0.get(&process.node()).copied().unwrap_or(0)
    }

    /// The number of a process.
    pub(super) fn pid(&self, process: &Process) -> u64 {
        process.pid + self.node(process) * PID_STRIDE
    }

    /// The number of a GPU.
    pub(super) fn gpu(&self, process: &Process, device: u64) -> u64 {
        device + self.node(process) * GPU_STRIDE
    }
}
