use rsys_wire::layout::Counter;
use rsys_wire::record::{self, Clock};
use rsys_wire::ring::DropCause;
use std::sync::atomic::{Ordering, fence};

use crate::channel::counters;
use crate::clocks::clock::ThreadClock;
use crate::sampling::slots::{self, Slot};
use crate::sampling::words;
use crate::state;
use crate::sys;

/// Begins to record the calling thread: makes its clocks with `prepare`, opens its counters, records its start.
pub fn start_recording(slot: &mut Slot, prepare: impl FnOnce(&mut ThreadClock) -> Clock) {
    let clock = prepare(&mut slot.clock);
    slot.counters.open(slot.clock.tid);
    let time_ns = sys::boottime_ns();
    record_start(slot, clock, time_ns);
    slot.clock.start(time_ns);
    Slot::vacate(slot);
    // Who takes the clocks from all threads has seen these, or we see that.
    fence(Ordering::SeqCst);
    if !state::is_active() {
        slot.clock.stop();
        slot.counters.close();
    }
}

/// Begins to record another thread of this process from its slot, by a timer alone: it is interrupted when it has used the processor, never in a
/// system call.
pub fn record_other(slot: &mut Slot) {
    let tid = slot.clock.tid;
    slot.clock.cpu_base_ns = sys::cpu_ns_of_thread(tid);
    let clock = slot.clock.prepare_timer();
    let time_ns = sys::boottime_ns();
    record_start_of(slot, clock, time_ns, &sys::name_of_thread(tid));
    slot.clock.start(time_ns);
    Slot::vacate(slot);
    counters::count(Counter::ThreadsAdopted, 1);
}

/// Records that the thread begins, and with which clocks.
pub fn record_start(slot: &Slot, clock: Clock, time_ns: u64) {
    record_start_of(slot, clock, time_ns, &sys::thread_name());
}

fn record_start_of(slot: &Slot, clock: Clock, time_ns: u64, name: &[u8; 16]) {
    let routine = slot.start.addr() as u64;
    let written = record::put_thread_start(
        slot.ring(),
        time_ns,
        slot.clock.tid,
        clock as u64,
        name,
        routine,
    );
    if !written {
        slot.ring().header().count_drop(DropCause::RingFull, 0);
    }
    counters::count(Counter::ThreadsSampled, 1);
}

/// Gives the interrupted thread a clock, at the sampler's request. Runs in the signal handler, once
/// per such thread, and does make system calls: there is no other way to reach the thread.
///
/// The thread's TLS is not touched: a raw `clone` may share its creator's.
#[inline(never)]
pub extern "C" fn adopt_self() {
    if !state::may_set_up() {
        return;
    }
    let tid = sys::gettid();
    // SAFETY: a thread that has a slot of its own needs no other; words shared with the creator
    // name the creator's.
    if unsafe { words::slot().as_ref() }.is_some_and(|slot| slot.clock.tid == tid) {
        return;
    }
    let Some(slot) = slots::claim_in_handler() else {
        counters::count_unattributed();
        return;
    };
    // SAFETY: claimed just now.
    let state = unsafe { &mut *slot };
    state.clock.tid = tid;
    state.adopted.store(true, Ordering::Relaxed);
    state.start = std::ptr::null_mut();
    start_recording(state, ThreadClock::prepare_timer);
    counters::count(Counter::ThreadsAdopted, 1);
}
