//! Which kernels the nodes of graphs have that the program changes between launches.
//!
//! HIP 7 reads the names of a launch's kernels when it reports the launch, a moment after the program may know that it is over. A node that has
//! another kernel by then gives the launch a wrong name, so the change waits (`tests/tests/gpu/hip.rs`:
//! `nodes_that_change_keep_their_names`). Most programs change arguments only: nothing waits then.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::signals::faults;
use crate::sources::gpu::hip::arguments::Arguments;
use crate::sources::gpu::hip::end;

const PLACES: usize = 4096;
/// Of `hipKernelNodeParams`: behind the work-group's size and `extra`.
const FUNCTION: u64 = 24;

#[derive(Debug)]
struct Node {
    key: AtomicU64,
    function: AtomicU64,
}

static NODES: [Node; PLACES] = [const {
    Node {
        key: AtomicU64::new(0),
        function: AtomicU64::new(0),
    }
}; PLACES];
/// Graphs that were destroyed or changed as a whole: what is known of nodes from before counts no more.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A graph goes, or all its nodes change.
pub fn forget() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// `hipGraphExecKernelNodeSetParams` is about to be done.
pub fn before_change(data: *const c_void) {
    let arguments = Arguments::Record(data);
    let [Some(graph), Some(node), Some(parameters)] = [16, 24, 32].map(|at| arguments.u64(at))
    else {
        return;
    };
    let function = faults::read_u64(parameters.wrapping_add(FUNCTION)).unwrap_or(0);
    if changes(graph, node, function) {
        end::before_graph_goes();
    }
}

/// Notes the kernel of a node; returns whether it may have been another one.
fn changes(graph: u64, node: u64, function: u64) -> bool {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = [node, GENERATION.load(Ordering::Relaxed)]
        .iter()
        .fold(graph, |mixed, word| {
            (mixed ^ word).wrapping_mul(MIX).rotate_left(31)
        });
    let key = mixed | 1;
    let Some(place) = NODES.get((mixed >> 20) as usize % PLACES) else {
        return true;
    };
    let is_known = place.key.swap(key, Ordering::Relaxed) == key;
    place.function.swap(function, Ordering::Relaxed) != function || !is_known
}
