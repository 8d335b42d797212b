//! Names of events that are a place in the code: what happens, and the address of the call that makes it happen. Each is recorded once, and
//! the sampler finds its function and line as those of a sample's frame.

use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event;

use crate::code::modules;
use crate::events;
use crate::events::rings;
use crate::events::texts::StaticText;
use crate::sampling::seen::Seen;

const ENTRIES: usize = 4096;
const PROBES: usize = 16;
const KEY_BITS: u32 = 48;

/// A place that was recorded.
#[derive(Debug)]
struct Entry {
    /// Of text, address and generation of libraries; 0 in a free entry.
    hash: AtomicU64,
    /// The key in the lower bits, [`events::generation`] above; 0 until it was recorded.
    word: AtomicU64,
}

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        hash: AtomicU64::new(0),
        word: AtomicU64::new(0),
    }
}; ENTRIES];

/// The key of a name: what happens at the call that returns to `address`. With address 0, what happens alone.
#[inline]
pub fn place(what: &'static StaticText, address: u64) -> u64 {
    if address == 0 {
        return what.key();
    }
    let hash = hash_of(what, address);
    let home = (hash >> 40) as usize;
    for step in 0..PROBES {
        let Some(entry) = TABLE.get(home.wrapping_add(step) % ENTRIES) else {
            break;
        };
        let found = entry.hash.load(Ordering::Relaxed);
        if found == hash {
            let word = entry.word.load(Ordering::Acquire);
            if word >> KEY_BITS == events::generation() {
                return word & ((1 << KEY_BITS) - 1);
            }
            return record(Some(entry), what, address);
        }
        if found == 0 {
            break;
        }
    }
    add(hash, home, what, address)
}

#[inline]
fn hash_of(what: &'static StaticText, address: u64) -> u64 {
    // The same address means something else when libraries come and go.
    let place = address ^ u64::from(modules::libraries_generation()) << 48;
    let text = std::ptr::from_ref(what).addr() as u64;
    let mixed = (place ^ text.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29) | 1
}

#[cold]
#[inline(never)]
fn add(hash: u64, home: usize, what: &'static StaticText, address: u64) -> u64 {
    let mine = (0..PROBES)
        .filter_map(|step| TABLE.get(home.wrapping_add(step) % ENTRIES))
        .find(|entry| {
            let taken = entry
                .hash
                .compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok() || taken == Err(hash)
        });
    record(mine, what, address)
}

/// Records it. Two threads at once may do so twice, which is no harm; where the table is full it is recorded with each use.
#[cold]
#[inline(never)]
fn record(entry: Option<&Entry>, what: &'static StaticText, address: u64) -> u64 {
    let key = events::next_correlation();
    let done = rings::put_in(|ring| {
        let seen = Seen::new(ring.new_modules.get().cast());
        seen.note(address);
        seen.report_now(ring.producer());
        ring.put_or_wait(&|ring| event::put_place(ring, key, address, what.text().as_bytes()))
    });
    if let Some(entry) = entry.filter(|_| done) {
        let word = events::generation() << KEY_BITS | key;
        entry.word.store(word, Ordering::Release);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: StaticText = StaticText::new("one");
    static TWO: StaticText = StaticText::new("two");

    #[test]
    fn places_differ_by_text_and_by_address() {
        let hashes = [
            hash_of(&ONE, 0x40_1000),
            hash_of(&TWO, 0x40_1000),
            hash_of(&ONE, 0x40_1001),
        ];
        for (place, hash) in hashes.iter().enumerate() {
            assert!(*hash != 0 && !hashes[..place].contains(hash));
        }
        assert_eq!(hash_of(&ONE, 0x40_1000), hashes[0]);
    }
}
