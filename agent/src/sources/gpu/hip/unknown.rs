//! Calls whose arguments are not known, because they are newer than the table: whether they give GPUs work is found out when they do.
//!
//! HIP asks about each operation while the call that makes it is under way. Until a call was seen to make one, its first few calls get a launch
//! stack on suspicion; from then on all do.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::events;
use crate::sources::gpu::hip::table::MOST_CALLS;
use crate::sources::gpu::hip::work;
use crate::sources::gpu::hip_functions;
use crate::sys::text::Text;

/// Launch stacks on suspicion, for each number of a call.
const TRIALS: u8 = 16;
/// The call works.
const WORKS: u8 = u8::MAX;

/// What was seen of each number: how often it was called, as far as that counts, or [`WORKS`].
static SEEN: [AtomicU8; MOST_CALLS] = [const { AtomicU8::new(0) }; MOST_CALLS];

/// Whether a call that begins may give GPUs work.
pub fn may_work(op: u32) -> bool {
    let Some(seen) = SEEN.get(op as usize) else {
        return false;
    };
    match seen.load(Ordering::Relaxed) {
        WORKS => true,
        // Threads that count at once may lose a count, which is no harm.
        trials if trials < TRIALS => {
            let next = trials + 1;
            _ = seen.compare_exchange(trials, next, Ordering::Relaxed, Ordering::Relaxed);
            true
        }
        _ => false,
    }
}

/// A call that is under way gives GPUs work.
pub fn works(op: u32) {
    work::note_work(0);
    let is_new = SEEN
        .get(op as usize)
        .is_some_and(|seen| seen.swap(WORKS, Ordering::Relaxed) != WORKS);
    // SAFETY: takes any number and returns null or a constant string.
    let name =
        || unsafe { Some(hip_functions::api_name::get()?(op)).filter(|name| !name.is_null()) };
    if is_new && let Some(name) = name() {
        let mut buffer = [0_u8; 96];
        let mut key = Text::new(&mut buffer);
        key.put(b"hip call ");
        // SAFETY: as above.
        key.put(unsafe { CStr::from_ptr(name) }.to_bytes());
        events::fact(key.bytes(), b"gives GPUs work; its arguments are not known");
    }
}
