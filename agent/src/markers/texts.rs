//! Messages that come again are told once.
//!
//! A table without locks: a text that was seen twice gets an entry with its key, and its bytes are kept beside, for equal hashes do not make
//! equal texts. What does not fit, or comes for the first time, travels with its event.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rsys_wire::event::{Arg, Key, Value};

use crate::events;

const ENTRIES: usize = 4096;
const ENTRY_BITS: u32 = ENTRIES.trailing_zeros();
const PROBES: usize = 8;
/// No longer text gets an entry.
const LONGEST_KEPT: usize = 512;
const ROOM: usize = 1 << 20;
/// No more of a text is recorded.
const LONGEST: usize = 4096;

/// A text that was told.
#[derive(Debug)]
struct Entry {
    /// 0 in a free entry.
    hash: AtomicU64,
    /// Where its bytes begin in [`KEPT`] (0–31), and how many there are (32–63).
    place: AtomicU64,
    /// 0 until it was told.
    key: AtomicU64,
    /// When it was told; see [`GENERATION`].
    generation: AtomicU32,
}

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        hash: AtomicU64::new(0),
        place: AtomicU64::new(0),
        key: AtomicU64::new(0),
        generation: AtomicU32::new(0),
    }
}; ENTRIES];

/// Hashes of texts that were seen once, lately.
static SEEN: [AtomicU32; ENTRIES] = [const { AtomicU32::new(0) }; ENTRIES];

/// The bytes of the texts, one after another.
#[derive(Debug)]
struct Kept(UnsafeCell<[u8; ROOM]>);

// SAFETY: each byte is written once, by whoever reserved it, before an entry leads there.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new([0; ROOM]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Keys hold in one process: a child of fork tells its texts anew.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Forgets what was told.
pub fn forget_told() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A text of ours that is told when it is first needed.
#[derive(Debug)]
pub struct Told {
    text: &'static str,
    key: AtomicU64,
    generation: AtomicU32,
}

impl Told {
    /// A text that nobody was told yet.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Told {
            text,
            key: AtomicU64::new(0),
            generation: AtomicU32::new(0),
        }
    }

    /// Its key.
    #[inline]
    pub fn key(&self) -> u64 {
        key_of(self.text.as_bytes(), &self.key, &self.generation)
    }
}

/// The key of a text that may have been told: two threads at once may tell it twice, which is no harm.
#[inline]
fn key_of(text: &[u8], key: &AtomicU64, generation: &AtomicU32) -> u64 {
    let now = GENERATION.load(Ordering::Relaxed);
    if generation.load(Ordering::Acquire) == now {
        return key.load(Ordering::Relaxed);
    }
    let told = events::text(text);
    key.store(told, Ordering::Relaxed);
    generation.store(now, Ordering::Release);
    told
}

/// Calls `then` with the key of a message, or with 0 and the message as an argument.
#[inline]
pub fn named<R>(message: *const c_char, then: impl FnOnce(u64, &[Arg<'_>]) -> R) -> R {
    let text = bytes_of(message);
    match key(text) {
        0 => then(0, &[(Key::Name, Value::Text(text))]),
        key => then(key, &[]),
    }
}

/// The bytes of a message, as many as are recorded.
pub fn bytes_of<'a>(message: *const c_char) -> &'a [u8] {
    if message.is_null() {
        return b"(null)";
    }
    // SAFETY: a C string of the caller's, which outlives the call.
    let text = unsafe { CStr::from_ptr(message) }.to_bytes();
    text.get(..LONGEST).unwrap_or(text)
}

/// A hash of 64 bits, for tables and for the names of communicators.
pub fn hash(text: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(FACTOR);
        mixed ^ (mixed >> 29)
    };
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [0_u8; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    let hash = words.iter().fold(text.len() as u64 ^ FACTOR, |hash, word| {
        mix(hash, u64::from_le_bytes(*word))
    });
    mix(mix(hash, u64::from_le_bytes(last)), FACTOR)
}

/// Whether two texts are equal. Short ones are compared faster here than by a call of `memcmp`.
fn same(a: &[u8], b: &[u8]) -> bool {
    let (a_words, a_rest) = a.as_chunks::<8>();
    let (b_words, b_rest) = b.as_chunks::<8>();
    let words = a_words.iter().zip(b_words);
    let rest = a_rest.iter().zip(b_rest);
    a.len() == b.len()
        && words.fold(0, |difference, (a, b)| {
            difference | (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b))
        }) == 0
        && rest.fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// The key of a text, or 0 when it has none.
fn key(text: &[u8]) -> u64 {
    if text.len() > LONGEST_KEPT {
        return 0;
    }
    let hash = hash(text) | 1;
    let home = (hash >> (u64::BITS - ENTRY_BITS)) as usize;
    for step in 0..PROBES {
        let Some(entry) = TABLE.get(home.wrapping_add(step) % ENTRIES) else {
            break;
        };
        match entry.hash.load(Ordering::Acquire) {
            0 => {
                return if is_new(hash) {
                    0
                } else {
                    add(entry, hash, text)
                };
            }
            // While another thread fills the entry, its key is 0.
            found if found == hash => match entry.key.load(Ordering::Acquire) {
                0 => return 0,
                _ if same(entry.text(), text) => {
                    return key_of(text, &entry.key, &entry.generation);
                }
                _ => {}
            },
            _ => {}
        }
    }
    0
}

impl Entry {
    fn text(&self) -> &[u8] {
        let place = self.place.load(Ordering::Relaxed);
        let start = KEPT
            .0
            .get()
            .cast::<u8>()
            .wrapping_add(place as u32 as usize);
        // SAFETY: written before the key was; see `add`.
        unsafe { std::slice::from_raw_parts(start, (place >> 32) as usize) }
    }
}

/// Whether a text was not seen lately.
fn is_new(hash: u64) -> bool {
    let mark = (hash >> 1) as u32 | 1;
    let Some(seen) = SEEN.get((hash >> 33) as usize % ENTRIES) else {
        return true;
    };
    seen.swap(mark, Ordering::Relaxed) != mark
}

#[cold]
fn add(entry: &Entry, hash: u64, text: &[u8]) -> u64 {
    let room = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        let end = used.saturating_add(text.len());
        (end <= ROOM).then_some(end)
    });
    let Ok(start) = room else { return 0 };
    let owned = entry
        .hash
        .compare_exchange(0, hash, Ordering::Acquire, Ordering::Relaxed);
    if owned.is_err() {
        return 0;
    }
    let to = KEPT.0.get().cast::<u8>().wrapping_add(start);
    // SAFETY: reserved above for these bytes, and nobody else writes there.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len()) };
    entry
        .place
        .store(start as u64 | (text.len() as u64) << 32, Ordering::Relaxed);
    let key = events::text(text);
    entry
        .generation
        .store(GENERATION.load(Ordering::Relaxed), Ordering::Relaxed);
    entry.key.store(key, Ordering::Release);
    key
}
