//! What is recorded of each lock when the process ends.

use std::sync::atomic::Ordering;

use rsys_wire::event::{Key, Value};

use super::kind::{KINDS, Kind};
use super::table::{self, Lock};
use super::thread;
use crate::events;

/// At most this many uncontended locks have a line of their own: those that were taken most.
const UNCONTENDED: u64 = 1024;

/// What was counted of a lock, or of several.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    acquisitions: u64,
    contended: u64,
    wait_ns: u64,
    longest_ns: u64,
}

impl Sum {
    fn of(lock: &Lock) -> Self {
        let own = lock.acquisitions.load(Ordering::Relaxed);
        Sum {
            acquisitions: own.saturating_add(lock.of_threads.load(Ordering::Relaxed)),
            contended: lock.contended.load(Ordering::Relaxed),
            wait_ns: lock.wait_ns.load(Ordering::Relaxed),
            longest_ns: lock.longest_ns.load(Ordering::Relaxed),
        }
    }

    fn add(&mut self, other: Sum) {
        self.acquisitions = self.acquisitions.saturating_add(other.acquisitions);
        self.contended = self.contended.saturating_add(other.contended);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    fn record(&self, kind: Kind, address: u64) {
        let category = kind.category();
        if !events::records(category) || (self.acquisitions == 0 && self.contended == 0) {
            return;
        }
        let args = [
            (Key::Lock, Value::Pointer(address)),
            (Key::Acquisitions, Value::Uint(self.acquisitions)),
            (Key::Contended, Value::Uint(self.contended)),
            (Key::WaitNs, Value::Uint(self.wait_ns)),
            (Key::LongestNs, Value::Uint(self.longest_ns)),
        ];
        events::mark_surely(category, kind.name(), &args);
    }
}

/// Records what was counted until now. Of a lock that was recorded before, the last word counts.
pub fn record() {
    thread::sum_up();
    let least = least_acquisitions();
    let mut others = [Sum::default(); KINDS];
    for lock in table::all() {
        let Some(kind) = lock.kind() else { continue };
        let sum = Sum::of(lock);
        if lock.address() != 0 && (sum.contended > 0 || sum.acquisitions >= least) {
            sum.record(kind, lock.address());
        } else if let Some(other) = others.get_mut(kind as usize) {
            other.add(sum);
        }
    }
    for (number, sum) in (0..).zip(&others) {
        if let Some(kind) = Kind::from_number(number) {
            sum.record(kind, 0);
        }
    }
}

/// How often an uncontended lock must have been taken for a line of its own.
fn least_acquisitions() -> u64 {
    // By powers of two: there is no memory to sort in.
    let mut counts = [0_u64; 65];
    for lock in table::all() {
        let bits = u64::BITS.wrapping_sub(Sum::of(lock).acquisitions.leading_zeros());
        if let Some(count) = counts.get_mut(bits as usize) {
            *count = count.wrapping_add(1);
        }
    }
    let mut sum = 0_u64;
    for (bits, count) in counts.iter().enumerate().rev() {
        sum = sum.wrapping_add(*count);
        if sum > UNCONTENDED {
            return 1_u64.checked_shl(bits as u32).unwrap_or(u64::MAX);
        }
    }
    1
}
