//! Parallel regions while threads are in them.
//!
//! A worker learns that its region is over when it is woken for the next one: only then does the runtime end its barrier and its implicit
//! task. Regions therefore remember when they ended, and the slices of workers end there, not where their idleness does.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Regions at once; more are recorded without their ends being known to workers.
const REGIONS: usize = 1024;

#[derive(Debug)]
struct Region {
    /// Threads in it, and one for the region itself while it goes on; 0 in a free entry.
    users: AtomicU32,
    /// When it ended (CLOCK_BOOTTIME ns), or 0.
    end_ns: AtomicU64,
    /// The address of its call.
    code: AtomicU64,
}

static TABLE: [Region; REGIONS] = [const {
    Region {
        users: AtomicU32::new(0),
        end_ns: AtomicU64::new(0),
        code: AtomicU64::new(0),
    }
}; REGIONS];

/// A region begins. Returns its number, or 0 when there are too many.
pub fn open(code: u64) -> u64 {
    let free = |region: &Region| {
        region.users.load(Ordering::Relaxed) == 0
            && region
                .users
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    };
    let Some((at, region)) = TABLE.iter().enumerate().find(|(_, region)| free(region)) else {
        return 0;
    };
    region.end_ns.store(0, Ordering::Relaxed);
    region.code.store(code, Ordering::Relaxed);
    at as u64 + 1
}

fn of(number: u64) -> Option<&'static Region> {
    TABLE.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

/// A thread enters it.
pub fn enter(number: u64) {
    if let Some(region) = of(number) {
        region.users.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread that entered it has left it.
pub fn leave(number: u64) {
    if let Some(region) = of(number) {
        region.users.fetch_sub(1, Ordering::Release);
    }
}

/// It ended at a time.
pub fn close(number: u64, end_ns: u64) {
    if let Some(region) = of(number) {
        region.end_ns.store(end_ns, Ordering::Release);
        region.users.fetch_sub(1, Ordering::Release);
    }
}

/// The address of its call, or 0.
pub fn code(number: u64) -> u64 {
    of(number).map_or(0, |region| region.code.load(Ordering::Relaxed))
}

/// When it ended; `now_ns` when it has not.
pub fn end_or(number: u64, now_ns: u64) -> u64 {
    let ended = of(number).map_or(0, |region| region.end_ns.load(Ordering::Acquire));
    if ended == 0 {
        now_ns
    } else {
        ended.min(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_known_until_its_last_thread_has_left() {
        let region = open(0x1234);
        enter(region);
        assert_eq!((code(region), end_or(region, 50)), (0x1234, 50));
        close(region, 40);
        assert_eq!(end_or(region, 50), 40);
        let next = open(0x5678);
        assert_ne!(next, region);
        leave(region);
        assert_eq!(open(0x9abc), region);
        assert_eq!((code(0), end_or(0, 7)), (0, 7));
    }
}
