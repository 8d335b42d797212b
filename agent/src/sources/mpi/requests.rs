//! Requests: which call has made them, until they are done.
//!
//! A handle of a request can be used again as soon as it is done, and libraries give one handle to several that were done at once. So the entries of a
//! handle are told apart by the correlation of the call that made them, and the earliest goes first.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many requests there is room for at a time.
const ENTRIES: usize = 1 << 14;
const PROBES: usize = 32;
const FREE: usize = 0;
const BEING_MADE: usize = 1;

/// What is known of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request {
    /// The correlation of the call that began it; 0 of a persistent one that was not started.
    pub correlation: u64,
    /// The number of the function that made it, in the table.
    pub function: usize,
    /// Whether it stays when it is done.
    pub is_persistent: bool,
    /// Of a message that is received: the key of the communicator's identity, or 0.
    pub communicator: u64,
    /// Its number, plus one; 0 when it is not known.
    pub message: u64,
    /// From whom.
    pub peer: i32,
    /// With which tag.
    pub tag: i32,
    /// To whom: the caller's rank.
    pub rank: i32,
}

#[derive(Debug)]
struct Entry {
    handle: AtomicUsize,
    correlation: AtomicU64,
    /// Function (0–31), whether it is persistent (32).
    what: AtomicU64,
    communicator: AtomicU64,
    message: AtomicU64,
    /// Peer (0–31), tag (32–63).
    from: AtomicU64,
    rank: AtomicU64,
}

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        handle: AtomicUsize::new(FREE),
        correlation: AtomicU64::new(0),
        what: AtomicU64::new(0),
        communicator: AtomicU64::new(0),
        message: AtomicU64::new(0),
        from: AtomicU64::new(0),
        rank: AtomicU64::new(0),
    }
}; ENTRIES];

fn entries(handle: usize) -> impl Iterator<Item = &'static Entry> {
    let home = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..PROBES).filter_map(move |step| TABLE.get(home.wrapping_add(step) % ENTRIES))
}

impl Entry {
    fn read(&self) -> Request {
        let (what, from) = (
            self.what.load(Ordering::Relaxed),
            self.from.load(Ordering::Relaxed),
        );
        Request {
            correlation: self.correlation.load(Ordering::Relaxed),
            function: what as u32 as usize,
            is_persistent: what >> 32 != 0,
            communicator: self.communicator.load(Ordering::Relaxed),
            message: self.message.load(Ordering::Relaxed),
            peer: from as i32,
            tag: (from >> 32) as i32,
            rank: self.rank.load(Ordering::Relaxed) as i32,
        }
    }

    fn write(&self, request: &Request) {
        let what = request.function as u64 | u64::from(request.is_persistent) << 32;
        let from = u64::from(request.peer as u32) | u64::from(request.tag as u32) << 32;
        self.correlation
            .store(request.correlation, Ordering::Relaxed);
        self.what.store(what, Ordering::Relaxed);
        self.communicator
            .store(request.communicator, Ordering::Relaxed);
        self.message.store(request.message, Ordering::Relaxed);
        self.from.store(from, Ordering::Relaxed);
        self.rank
            .store(u64::from(request.rank as u32), Ordering::Relaxed);
    }
}

fn earliest(handle: usize) -> Option<&'static Entry> {
    entries(handle)
        .filter(|entry| entry.handle.load(Ordering::Acquire) == handle)
        .min_by_key(|entry| entry.correlation.load(Ordering::Relaxed))
}

/// Notes a request. One that finds no room is not joined with what completes it.
pub fn insert(handle: usize, request: &Request) {
    if handle <= BEING_MADE {
        return;
    }
    let free = entries(handle).find(|entry| {
        entry.handle.load(Ordering::Relaxed) == FREE
            && entry
                .handle
                .compare_exchange(FREE, BEING_MADE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    });
    if let Some(entry) = free {
        entry.write(request);
        entry.handle.store(handle, Ordering::Release);
    }
}

/// The request with this handle: the earliest, of several.
pub fn find(handle: usize) -> Option<Request> {
    Some(earliest(handle)?.read())
}

/// A persistent request starts.
pub fn start(handle: usize, begun: &Request) {
    if let Some(entry) = earliest(handle) {
        entry.write(begun);
    }
}

/// A request is done, and goes away unless it is persistent.
pub fn done(handle: usize) -> Option<Request> {
    let entry = earliest(handle)?;
    let request = entry.read();
    if request.is_persistent {
        entry.correlation.store(0, Ordering::Relaxed);
    } else {
        entry.handle.store(FREE, Ordering::Release);
    }
    (request.correlation != 0).then_some(request)
}

/// A request goes away.
pub fn remove(handle: usize) {
    if let Some(entry) = earliest(handle) {
        entry.handle.store(FREE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(correlation: u64, is_persistent: bool) -> Request {
        Request {
            correlation,
            function: 7,
            is_persistent,
            peer: -1,
            tag: 5,
            ..Request::default()
        }
    }

    #[test]
    fn equal_handles_are_done_in_their_order() {
        let handle = 0x7f00_1000;
        for correlation in [11, 12] {
            insert(handle, &request(correlation, false));
        }
        assert_eq!(find(handle), Some(request(11, false)));
        assert_eq!(done(handle), Some(request(11, false)));
        assert_eq!(done(handle), Some(request(12, false)));
        assert_eq!(done(handle), None);
    }

    #[test]
    fn persistent_requests_stay() {
        let handle = 0x7f00_2000;
        insert(handle, &request(0, true));
        assert_eq!(done(handle), None);
        start(handle, &request(20, true));
        assert_eq!(done(handle).map(|done| done.correlation), Some(20));
        assert!(find(handle).is_some_and(|known| known.is_persistent));
        remove(handle);
        assert_eq!(find(handle), None);
    }
}
