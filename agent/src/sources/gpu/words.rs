//! What a thread is doing with a GPU runtime: a few words of initial-exec TLS, as in [`crate::sys::thread_words`].

/// The words of one thread.
#[derive(Debug)]
#[repr(C)]
pub struct Words {
    /// Correlation of the runtime's call that the thread is in, or 0.
    pub correlation: u64,
    /// Its launch stack, or 0.
    pub launch_stack: u64,
    /// Nesting depth of the thread in recorded runtime calls.
    pub depth: u64,
    /// Whether the thread belongs to a runtime.
    pub of_runtime: u64,
    /// Whether the thread is a helper of ours, whose calls are not recorded.
    pub is_helper: u64,
    /// Whether the HIP call that the thread is in launches one kernel that was not counted yet.
    pub is_uncounted: u64,
    /// One more than the number of the HIP call that the thread is in, if that is one whose arguments are not known, else 0.
    pub unknown_call: u64,
    /// How deep in its stack the thread was when HIP asked for a batch; see `hip/asker.rs`.
    pub batch_question: u64,
    /// The same of another question.
    pub other_question: u64,
    /// Whether the thread has another tool make a queue.
    pub making_queue: u64,
    /// Whether the thread rings for packets.
    pub ringing: u64,
    /// When the thread's outermost call began, CLOCK_BOOTTIME ns.
    pub asked_ns: u64,
    /// Whether the thread, within a call of its own, calls HIP for us: that call is not recorded.
    pub is_asking: u64,
    /// Whether the thread uses HIP's stream of its own ([`OwnStream`]).
    pub own_stream: u64,
    /// The stream whose GPU is known to be used, as `hip/work.rs` writes it, or 0.
    pub noted_stream: u64,
}

crate::thread_words! {
    /// The calling thread's words.
    pub fn words() -> *mut Words = "rsys_gpu_words"
}

/// Notes the call that the thread is in from now on; returns the one before.
#[inline]
pub fn set_call(correlation: u64) -> u64 {
    // SAFETY: the words of the calling thread, which no other thread touches; so below.
    unsafe { std::mem::replace(&mut (*words()).correlation, correlation) }
}

/// Notes when the thread has begun a call (CLOCK_BOOTTIME ns).
#[inline]
pub fn set_asked_ns(now_ns: u64) {
    // SAFETY: as above.
    unsafe { (*words()).asked_ns = now_ns }
}

/// When the thread has begun its call.
#[inline]
pub fn asked_ns() -> u64 {
    // SAFETY: as above.
    unsafe { (*words()).asked_ns }
}

/// Whether the thread calls HIP for us.
#[inline]
pub fn is_asking() -> bool {
    // SAFETY: as above.
    unsafe { (*words()).is_asking != 0 }
}

/// Notes whether the thread calls HIP for us.
#[inline]
pub fn set_asking(asking: bool) {
    // SAFETY: as above.
    unsafe { (*words()).is_asking = u64::from(asking) }
}

/// What we know of the stream that HIP makes for a thread, and destroys when the thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum OwnStream {
    /// The thread has given it no work.
    Unused = 0,
    /// The call that the thread is in is the first to do so.
    New = 1,
    /// It has, and its end is watched.
    Watched = 2,
}

/// What is known of the thread's own stream.
#[inline]
pub fn own_stream() -> OwnStream {
    // SAFETY: as above.
    match unsafe { (*words()).own_stream } {
        0 => OwnStream::Unused,
        1 => OwnStream::New,
        _ => OwnStream::Watched,
    }
}

/// Notes what is known of it.
#[inline]
pub fn set_own_stream(known: OwnStream) {
    // SAFETY: as above.
    unsafe { (*words()).own_stream = known as u64 }
}

/// The stream that the thread has noted.
#[inline]
pub fn noted_stream() -> u64 {
    // SAFETY: as above.
    unsafe { (*words()).noted_stream }
}

/// Notes a stream.
#[inline]
pub fn set_noted_stream(noted: u64) {
    // SAFETY: as above.
    unsafe { (*words()).noted_stream = noted }
}

/// Notes whether the thread's call launches one kernel that is to be counted when it is made; returns what was noted before.
#[inline]
pub fn set_uncounted(uncounted: bool) -> bool {
    // SAFETY: as above.
    unsafe { std::mem::replace(&mut (*words()).is_uncounted, u64::from(uncounted)) != 0 }
}

/// Notes the number of the thread's call, if that is one whose arguments are not known.
#[inline]
pub fn set_unknown_call(op: Option<u32>) {
    let call = op.map_or(0, |op| u64::from(op) + 1);
    // SAFETY: as above.
    unsafe { (*words()).unknown_call = call }
}

/// The number of the thread's call, if that is one whose arguments are not known.
#[inline]
pub fn unknown_call() -> Option<u32> {
    // SAFETY: as above.
    let call = unsafe { (*words()).unknown_call };
    u32::try_from(call.checked_sub(1)?).ok()
}

/// Whether the thread belongs to a runtime.
#[inline]
pub fn is_of_runtime() -> bool {
    // SAFETY: as above.
    unsafe { (*words()).of_runtime != 0 }
}

/// Whether the thread is a helper of ours.
#[inline]
pub fn is_helper() -> bool {
    // SAFETY: as above.
    unsafe { (*words()).is_helper != 0 }
}

/// The thread is a helper of ours from now on.
pub fn set_helper() {
    // SAFETY: as above.
    unsafe { (*words()).is_helper = 1 }
}

/// Whether the thread has a queue made that we see when it is there.
#[inline]
pub fn is_making_queue() -> bool {
    // SAFETY: as above.
    unsafe { (*words()).making_queue != 0 }
}

/// Notes whether it has.
#[inline]
pub fn set_making_queue(making: bool) {
    // SAFETY: as above.
    unsafe { (*words()).making_queue = u64::from(making) }
}

/// Notes whether the thread rings for packets; returns what was noted before.
#[inline]
pub fn set_ringing(ringing: bool) -> bool {
    // SAFETY: as above.
    unsafe { std::mem::replace(&mut (*words()).ringing, u64::from(ringing)) != 0 }
}
