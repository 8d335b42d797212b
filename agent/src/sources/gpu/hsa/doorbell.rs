//! Doorbells of queues whose runtime must not be shown more than a bounded number of packets at once.
//!
//! ROCr from 7.1 on hands all packets that wait in an intercepted queue to its handlers at once. Where they go on at the queue's other end, the first
//! of these releases read past the end, and those up to 7.12 copy them into a buffer of 256, however many there are. So a thread that rings with more waiting,
//! or with packets at both ends, rings several times: a packet looks as if it were not written yet while the runtime takes those before it.
//! Later packets are the runtime's as soon as they are written, so ringing for them early changes nothing for the program.
//!
//! The runtime rings by itself as well, when its own queue behind ours was full; [`crate::sources::gpu::hsa::queue_depth`] keeps that from being so.
//! (`tests/tests/gpu/hsa.rs`: `doorbells_for_many_packets_break_no_runtime`.)

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use crate::sources::gpu::hsa::abi::{INVALID, Packet, Queue};
use crate::sources::gpu::hsa::queues::{self, State};
use crate::sources::gpu::hsa::table;
use crate::sources::gpu::words;

/// Packets that the runtime is shown at once. What other threads write meanwhile has room in its buffer, too.
const PORTION: u64 = 128;

static IS_NEEDED: AtomicBool = AtomicBool::new(false);

/// Whether the runtime must not be shown too many packets.
pub fn is_needed() -> bool {
    IS_NEEDED.load(Ordering::Relaxed)
}

impl State {
    /// Rings once for each portion: the runtime never takes more than that at once, nor packets at both ends of the queue.
    fn ring(&self, queue: &Queue, ring: impl Fn()) {
        let (Some(read_index), Some(write_index)) = (
            table::queue_load_read_index_scacquire::get(),
            table::queue_load_write_index_scacquire::get(),
        ) else {
            return ring();
        };
        // A handler that rings is heard when all handlers are done.
        if words::set_ringing(true) {
            return ring();
        }
        let rung = self.bell.with(|| {
            loop {
                // SAFETY: the program rings for it, so the queue exists; so below.
                let (next, end) = unsafe { (read_index(queue), write_index(queue)) };
                let stop = stop_after(next, queue.size);
                let hidden = (stop < end).then(|| queue.hide(stop)).flatten();
                ring();
                let Some((slot, header)) = hidden else {
                    break;
                };
                slot.store(header, Ordering::Release);
                // A packet before it is not written yet: the thread that writes that one rings again.
                // SAFETY: as above.
                if unsafe { read_index(queue) } < stop {
                    break;
                }
            }
        });
        debug_assert!(rung.is_some(), "a handler does not get here");
        words::set_ringing(false);
    }
}

/// The first packet that the runtime may not be shown together with that of index `next`.
fn stop_after(next: u64, size: u32) -> u64 {
    let size = u64::from(size).max(2);
    let portion = next.saturating_add(PORTION.min(size / 2));
    let lap_end = next.saturating_add(size - next % size);
    portion.min(lap_end)
}

impl Queue {
    /// Makes the packet with this index look as if it were not written yet; its header is to be put back. `None` if it was not.
    fn hide(&self, index: u64) -> Option<(&AtomicU16, u16)> {
        let slot = index % u64::from(self.size).max(1);
        let packet = self.base.cast::<Packet>().wrapping_add(slot as usize);
        // SAFETY: a packet of the queue's ring; headers are written whole.
        let header = unsafe { AtomicU16::from_ptr((&raw mut (*packet).header).cast()) };
        if header.load(Ordering::Acquire) as u8 == INVALID {
            return None;
        }
        // What is written belongs to the runtime, and only this thread, which holds the bell, has it look.
        Some((header, header.swap(u16::from(INVALID), Ordering::AcqRel)))
    }
}

macro_rules! stores {
    ($($name:ident;)*) => {
        $(
            /// # Safety
            /// As the runtime's function has it: the signal exists.
            unsafe extern "C" fn $name(signal: u64, value: i64) {
                let Some(real) = table::$name::get() else {
                    return;
                };
                // SAFETY: the caller's own arguments.
                let store = || unsafe { real(signal, value) };
                match queues::with_doorbell(signal) {
                    Some((state, queue)) => state.ring(queue, store),
                    None => store(),
                }
            }
        )*

        /// Puts ours in front of the functions by which programs ring.
        pub fn start(tables: &table::Tables) {
            IS_NEEDED.store(true, Ordering::Relaxed);
            $( table::$name::wrap(tables, $name); )*
        }
    };
}

stores! {
    signal_store_relaxed;
    signal_store_screlease;
    signal_silent_store_relaxed;
    signal_silent_store_screlease;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_end_at_the_ends_of_the_queue() {
        assert_eq!(stop_after(0, 4096), 128);
        assert_eq!(stop_after(128, 4096), 256);
        assert_eq!(stop_after(4000, 4096), 4096);
        assert_eq!(stop_after(4096, 4096), 4224);
        assert_eq!(stop_after(5 * 4096 + 4095, 4096), 6 * 4096);
        // A small queue: never the slot of the first packet itself.
        assert_eq!(stop_after(64, 64), 96);
        assert_eq!(stop_after(7, 2), 8);
        assert_eq!(stop_after(u64::MAX, 4096), u64::MAX);
    }
}
