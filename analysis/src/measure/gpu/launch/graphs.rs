//! Launches of graphs: one call, many operations. All that is said of a launch is said of them once.

use std::collections::BTreeMap;

use super::delays::Delays;
use super::depth::Depth;
use super::join::{Call, Operation};
use rsys_traces::model::entry;
use rsys_traces::model::{Activity, DeviceId, OpKind, TextId, ThreadId};

/// What a launch of a graph ran on a GPU.
#[derive(Debug, Clone, Copy)]
struct Ran {
    call: Call,
    start_ns: u64,
    end_ns: u64,
    nodes: u64,
    busy_ns: u64,
}

/// Launches of graphs, by thread and start of the call, and by GPU.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    ran: BTreeMap<(ThreadId, u64, TextId, DeviceId), Ran>,
    /// Calls, whether anything is known to have run for them or not.
    calls: u64,
}

/// Launches of graphs by one call.
#[derive(Debug, Default)]
pub(super) struct OfCall {
    pub(super) launches: u64,
    pub(super) nodes: u64,
    pub(super) busy_ns: u64,
    /// From the call to the end of the last node, in three parts.
    pub(super) delays: Delays,
}

impl Graphs {
    /// Takes in a call that launches a graph.
    pub(super) fn call(&mut self) {
        self.calls += 1;
    }

    /// Takes in a node.
    pub(super) fn node(&mut self, operation: &Operation, call: Call) {
        let key = (call.thread, call.start_ns, call.name, operation.device);
        let ran = self.ran.entry(key).or_insert(Ran {
            call,
            start_ns: operation.start_ns,
            end_ns: operation.end_ns,
            nodes: 0,
            busy_ns: 0,
        });
        ran.start_ns = ran.start_ns.min(operation.start_ns);
        ran.end_ns = ran.end_ns.max(operation.end_ns);
        ran.nodes += 1;
        ran.busy_ns += operation.duration_ns();
    }

    /// All launches by their calls; each GPU's queue gets every launch as one operation.
    pub(super) fn by_call(&self, depths: &mut Vec<Depth>) -> BTreeMap<TextId, OfCall> {
        let mut calls: BTreeMap<TextId, OfCall> = BTreeMap::new();
        for ((.., device), ran) in &self.ran {
            let whole = Operation {
                start_ns: ran.start_ns,
                end_ns: ran.end_ns,
                device: *device,
                name: ran.call.name,
                kind: OpKind::Kernel,
                activity: Activity::Compute,
                direction: TextId::EMPTY,
                bytes: 0,
            };
            let of_call = calls.entry(ran.call.name).or_default();
            of_call.launches += 1;
            of_call.nodes += ran.nodes;
            of_call.busy_ns += ran.busy_ns;
            of_call.delays.add_launch(&whole, ran.call);
            let depth = entry(depths, device.index());
            depth.add(ran.call.end_ns.min(ran.start_ns), ran.start_ns, ran.end_ns);
        }
        calls
    }

    /// How many launches ran nothing that was recorded.
    pub(super) fn without_nodes(&self) -> u64 {
        let mut ran: Vec<(ThreadId, u64)> = self.ran.keys().map(|key| (key.0, key.1)).collect();
        ran.dedup();
        self.calls.saturating_sub(ran.len() as u64)
    }
}
