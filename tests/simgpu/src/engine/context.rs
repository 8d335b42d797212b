//! What all queues share while they execute.

use std::sync::atomic::Ordering;

use super::counters::Counters;
use crate::kernels::Kernels;
use crate::memory::View;
use crate::process::Process;
use crate::truth::Truth;

/// What all queues share while they execute.
#[derive(Debug)]
pub struct Context {
    /// The process.
    pub process: &'static Process,
    /// Where memory is.
    pub view: View,
    /// Kernels that were looked up.
    pub kernels: Kernels,
    /// Where everything is written down.
    pub truth: Truth,
    /// Performance counters, by GPU.
    pub counters: Vec<Counters>,
}

impl Context {
    /// Accounts for work on a GPU, for its sensors. Work in parallel counts once.
    pub fn account(&self, gpu: usize, start_ns: u64, end_ns: u64) {
        let board = &self.process.simulation.board.gpus[gpu];
        let before = board.busy_until_ns.fetch_max(end_ns, Ordering::Relaxed);
        let new = end_ns.saturating_sub(before.max(start_ns));
        board.busy_ns.fetch_add(new, Ordering::Relaxed);
    }
}
