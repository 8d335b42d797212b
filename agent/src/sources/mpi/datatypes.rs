//! Sizes and names of types, kept so that each is asked for once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::events;
use crate::events::texts::StaticText;
use crate::sources::mpi::library::Library;

const ENTRIES: usize = 256;
const BEING_MADE: usize = 1;

static DERIVED: StaticText = StaticText::new("derived");

/// A type. Where two come to one place, the later one stays.
#[derive(Debug)]
struct Entry {
    handle: AtomicUsize,
    bytes: AtomicU64,
    name: AtomicU64,
}

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        handle: AtomicUsize::new(0),
        bytes: AtomicU64::new(0),
        name: AtomicU64::new(0),
    }
}; ENTRIES];

/// What is known of a type.
#[derive(Debug, Clone, Copy)]
pub struct Datatype {
    /// Its size, without gaps.
    pub bytes: u64,
    /// The key of its name.
    pub name: u64,
}

fn entry(handle: usize) -> &'static Entry {
    let place = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % ENTRIES;
    TABLE.get(place).unwrap_or(&TABLE[0])
}

/// The type with this handle.
#[inline]
pub fn find(library: &Library, handle: usize) -> Option<Datatype> {
    let entry = entry(handle);
    if entry.handle.load(Ordering::Acquire) == handle {
        let found = Datatype {
            bytes: entry.bytes.load(Ordering::Relaxed),
            name: entry.name.load(Ordering::Relaxed),
        };
        std::sync::atomic::fence(Ordering::Acquire);
        if entry.handle.load(Ordering::Relaxed) == handle {
            return Some(found);
        }
    }
    ask(library, handle)
}

#[cold]
fn ask(library: &Library, handle: usize) -> Option<Datatype> {
    if !library.may_be_type(handle) {
        return None;
    }
    let bytes = library.type_size(handle)?;
    let (name, length) = library.type_name(handle);
    let found = Datatype {
        bytes,
        name: match name.get(..length) {
            Some(name) if length > 0 => events::text(name),
            _ => DERIVED.key(),
        },
    };
    let entry = entry(handle);
    let before = entry.handle.swap(BEING_MADE, Ordering::AcqRel);
    if before != BEING_MADE {
        entry.bytes.store(found.bytes, Ordering::Relaxed);
        entry.name.store(found.name, Ordering::Relaxed);
        entry.handle.store(handle, Ordering::Release);
    }
    Some(found)
}

/// Forgets a type, before its handle can be used again.
pub fn remove(handle: usize) {
    let entry = entry(handle);
    // Another type's place is left alone.
    _ = entry
        .handle
        .compare_exchange(handle, 0, Ordering::AcqRel, Ordering::Relaxed);
}
