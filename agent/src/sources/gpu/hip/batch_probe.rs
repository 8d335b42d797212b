//! Who asks whether operations are wanted.
//!
//! HIP asks when it makes an operation, and when one has ended. HIP 6 also asks once for each batch of operations that has ended, in its
//! handler of the batch's last signal. Told yes, it looks at the signals of the whole batch first. They are complete; but a program that has
//! synchronised and goes on launching uses them for its next operations at once. Then HIP waits for those in the batch's stead, and
//! now and then for one that it never hears of: no operation of the batch is told. `tests/workloads/gpu/hip_graphs.cpp` shows it without us.
//! Told no, HIP passes over that look, and reports all operations, because whether it does was decided when they were made.
//!
//! So this one question is answered with no. It is known by its stack: HIP's function that asks us, called by HIP's handler, which
//! the HSA runtime calls. A thread of the runtime's asks from few depths of its stack, so each is looked at once.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::events;
use crate::sources::gpu::hip_functions;
use crate::sources::gpu::threads;
use crate::sources::gpu::words::{self, Words};

/// Where HIP's function that asks returns to, as a thread that launches has seen it; 0 when none has asked yet.
static ASKED_FROM: AtomicU64 = AtomicU64::new(0);

/// Whether the question that is being answered is about a batch.
#[inline(always)]
pub fn is_about_batch() -> bool {
    if words::is_of_runtime() {
        return is_about_batch_in_runtime();
    }
    if ASKED_FROM.load(Ordering::Relaxed) == 0 {
        note_asker();
    }
    false
}

#[cold]
#[inline(never)]
fn note_asker() {
    let [asker] = events::callers();
    ASKED_FROM.store(asker, Ordering::Relaxed);
}

#[inline(never)]
fn is_about_batch_in_runtime() -> bool {
    let local = 0_u8;
    let depth = (&raw const local).addr() as u64;
    // SAFETY: the words of the calling thread, which no other thread touches.
    let words = unsafe { &mut *words::words() };
    if depth == words.batch_question {
        return true;
    }
    depth != words.other_question && look(depth, words)
}

#[cold]
#[inline(never)]
fn look(depth: u64, words: &mut Words) -> bool {
    let [asker, handler, caller] = events::callers();
    let known = ASKED_FROM.load(Ordering::Relaxed);
    if asker == 0 || known == 0 {
        return false;
    }
    let is_batch = hip_functions::is_late()
        && asker == known
        && threads::is_in_hip(handler)
        && threads::is_in_hsa(caller);
    if is_batch {
        words.batch_question = depth;
    } else {
        words.other_question = depth;
    }
    is_batch
}
