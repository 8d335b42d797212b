//! The functions by which programs take places for packets.

use crate::sources::gpu::hsa::abi::Queue;
use crate::sources::gpu::hsa::queues;
use crate::sources::gpu::hsa::table;
use crate::sources::gpu::words;

/// Notes which call took the places of packets.
#[inline]
fn note(queue: *const Queue, first: u64, count: u64) {
    // SAFETY: the thread's own words.
    let correlation = unsafe { (*words::words()).correlation };
    if correlation == 0 || !crate::sources::gpu::hsa::is_recording() {
        return;
    }
    if let Some(tags) = queues::tags(queue) {
        for index in first..first.wrapping_add(count.min(u64::from(u16::MAX))) {
            tags.set(index, correlation);
        }
    }
}

macro_rules! write_indices {
    ($($name:ident;)*) => {
        $(
            /// # Safety
            /// As the runtime's function has it: the queue exists.
            unsafe extern "C" fn $name(queue: *const Queue, count: u64) -> u64 {
                let Some(real) = table::$name::get() else {
                    return 0;
                };
                // SAFETY: the caller's own arguments.
                let index = unsafe { real(queue, count) };
                note(queue, index, count);
                index
            }
        )*

        /// Puts ours in front of the functions by which programs take places for packets.
        pub fn start(tables: &table::Tables) {
            $( table::$name::wrap(tables, $name); )*
        }
    };
}

write_indices! {
    add_write_index_scacq_screl;
    add_write_index_scacquire;
    add_write_index_relaxed;
    add_write_index_screlease;
}
