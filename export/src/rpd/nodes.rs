//! Numbers of processes and GPUs, which leave room for hosts.

use std::collections::{BTreeSet, HashMap};

use crate::run::{Process, Run};

/// From one host to the next.
pub(super) const GPU_STRIDE: u64 = 1000;
pub(super) const PID_STRIDE: u64 = 10_000_000;

/// The numbers of hosts.
#[derive(Debug)]
pub(super) struct Nodes(HashMap<String, u64>);

impl Nodes {
    pub(super) fn of(run: &Run<'_>) -> Self {
        let hosts = run.processes().map(|(_, process)| process.host.clone());
        let hosts: BTreeSet<String> = hosts.collect();
        Self(hosts.into_iter().zip(0..).collect())
    }

    fn node(&self, process: &Process) -> u64 {
        self.0.get(&process.host).copied().unwrap_or(0)
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
