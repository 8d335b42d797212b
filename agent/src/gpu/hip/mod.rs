//! HIP as a source: calls and GPU operations as the runtime tells its tracer.

/// Takes the tracer's place in HIP, if HIP is loaded and that was not done yet.
pub fn start() {}

/// Whether HIP tells of the operations of its queues: then nobody else may.
pub fn tells_ops() -> bool {
    false
}

/// The correlation id of the HIP call that the thread is in, or 0.
pub fn current_call() -> u64 {
    0
}
