//! Events that a thread counts beside its samples: one group of perf events per thread, read with each sample.
//!
//! The group is opened at the thread's start, beside its clock. Reading it is the one system call that the handler makes, and only
//! where the user asked for events: counts are in the kernel's hands, and what a processor lets programs read by themselves (`rdpmc`)
//! exists for hardware events on bare machines alone. [`read_group`] is that one place, and `tests/tests/agent/purity.rs` knows it.

use std::ffi::c_int;

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::counting::{MOST_EVENTS, READING_WORDS, Reading};
use rsys_wire::layout::Counter;
use rsys_wire::record;
use rsys_wire::ring::{DropCause, Producer};

use crate::channel::counters;
use crate::clocks::perf::{self, Attributes};
use crate::state;
use crate::sys;

/// The events of one thread.
#[derive(Debug)]
pub struct Group {
    /// Descriptors of the events; -1 for none.
    descriptors: [c_int; MOST_EVENTS],
}

impl Group {
    /// No events.
    pub const NONE: Group = Group {
        descriptors: [-1; MOST_EVENTS],
    };

    /// Opens and starts the events of the calling thread, whose kernel id is `tid`.
    pub fn open(&mut self, tid: u32) {
        let events = state::settings().counters;
        let mut first = -1;
        for (event, place) in events.as_slice().iter().zip(&mut self.descriptors) {
            let attributes = Attributes::counter(event, first < 0, events.as_slice().len() > 1);
            match perf::open_out_of_the_way(&attributes, tid, first) {
                Ok(fd) => {
                    // Nothing is sent by it: it says that the descriptor is ours, see `read_group`.
                    perf::mark(fd);
                    *place = fd;
                    if first < 0 {
                        first = fd;
                    }
                }
                Err(error) => {
                    counters::count(Counter::ThreadsWithoutCounters, 1);
                    counters::set_counter(Counter::LastError, error as u64);
                    // A group that lacks one would give its values to the wrong names.
                    self.close();
                    return;
                }
            }
        }
        if first >= 0 {
            perf::start(first);
        }
    }

    /// Closes the events.
    pub fn close(&mut self) {
        for fd in self.descriptors.iter_mut().rev() {
            if *fd >= 0 {
                perf::close(*fd);
                *fd = -1;
            }
        }
    }

    /// Closes the descriptors of any thread, which may be running: it finds out that they are not its own any more.
    ///
    /// # Signal safety
    /// System calls.
    pub fn give_back(&self) {
        for fd in self.descriptors.iter().rev().filter(|fd| **fd >= 0) {
            perf::close(*fd);
        }
    }

    /// Records how often each event has happened up to now.
    ///
    /// # Signal safety
    /// One relaxed load where no events were asked for. Else [`read_group`] and stores into the ring.
    #[inline]
    pub fn record(&mut self, ring: &Producer<'_>, time_ns: u64) {
        let Some(&first) = self.descriptors.first() else {
            return;
        };
        if first < 0 {
            return;
        }
        let mut words = [0; READING_WORDS];
        let read = read_group(first, &mut words) / size_of::<u64>();
        let events = state::settings().counters.as_slice().len();
        let Some(reading) = Reading::parse(&words, read, events) else {
            // The program has closed the descriptor: it is not ours any more.
            *self = Group::NONE;
            return;
        };
        let Reading {
            enabled_ns,
            running_ns,
            values,
        } = reading;
        if !record::put_counters(ring, time_ns, enabled_ns, running_ns, values) {
            ring.header().count_drop(DropCause::RingFull, 0);
        }
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
