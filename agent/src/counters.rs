//! Events that a thread counts beside its samples: one group of perf events per thread, read with each sample.
//!
//! The group is opened at the thread's start, beside its clock. Reading it is the one system call that the handler makes, and only
//! where the user asked for events: counts are in the kernel's hands, and what a processor lets programs read by themselves (`rdpmc`)
//! exists for hardware events on bare machines alone. [`read_group`] is that one place, and `tests/tests/purity.rs` knows it.

use std::ffi::c_int;

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::counting::{MOST_EVENTS, READING_WORDS, Reading};
use rsys_wire::layout::Counter;
use rsys_wire::record;
use rsys_wire::ring::DropCause;

use crate::perf::{self, Attributes};
use crate::process;
use crate::slots::{self, Slot};
use crate::sys;

/// Descriptors of a group; -1 for none.
pub type Group = [c_int; MOST_EVENTS];

/// No group.
pub const NONE: Group = [-1; MOST_EVENTS];

/// Opens and starts the events of the calling thread.
pub fn open(slot: &mut Slot) {
    let events = process::settings().counters;
    let mut first = -1;
    for (event, place) in events.as_slice().iter().zip(&mut slot.counters) {
        let attributes = Attributes::counter(event, first < 0, events.as_slice().len() > 1);
        match perf::open_out_of_the_way(&attributes, slot.tid, first) {
            Ok(fd) => {
                // Nothing is sent by it: it says that the descriptor is ours, see `read_group`.
                perf::mark(fd);
                *place = fd;
                if first < 0 {
                    first = fd;
                }
            }
            Err(error) => {
                slots::count(Counter::ThreadsWithoutCounters, 1);
                slots::set_counter(Counter::LastError, error as u64);
                // A group that lacks one would give its values to the wrong names.
                close(slot);
                return;
            }
        }
    }
    if first >= 0 {
        perf::start(first);
    }
}

/// Closes the events of a thread.
pub fn close(slot: &mut Slot) {
    for fd in slot.counters.iter_mut().rev() {
        if *fd >= 0 {
            perf::close(*fd);
            *fd = -1;
        }
    }
}

/// Records how often each event has happened up to now.
///
/// # Signal safety
/// One relaxed load where no events were asked for. Else [`read_group`] and stores into the ring.
#[inline]
pub fn record(slot: &mut Slot, time_ns: u64) {
    let Some(&first) = slot.counters.first() else {
        return;
    };
    if first < 0 {
        return;
    }
    let mut words = [0; READING_WORDS];
    let read = read_group(first, &mut words) / size_of::<u64>();
    let events = process::settings().counters.as_slice().len();
    let Some(reading) = Reading::parse(&words, read, events) else {
        // The program has closed the descriptor: it is not ours any more.
        slot.counters = NONE;
        return;
    };
    let Reading {
        enabled_ns,
        running_ns,
        values,
    } = reading;
    if !record::put_counters(slot.ring(), time_ns, enabled_ns, running_ns, values) {
        slot.ring().header().count_drop(DropCause::RingFull, 0);
    }
}

/// Reads a group. Returns the number of bytes, 0 when the descriptor is not ours any more: to read a file of the program's would
/// take from it what it is about to read.
///
/// # Signal safety
/// Two system calls, neither of which waits.
#[inline(never)]
fn read_group(fd: c_int, words: &mut [u64; READING_WORDS]) -> usize {
    if sys::signal_of(fd) != i64::from(SAMPLE_SIGNAL) {
        return 0;
    }
    sys::read(fd, words)
}
