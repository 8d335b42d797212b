//! Texts that come again are recorded once.
//!
//! A table without locks: a text that was seen twice gets an entry with its key, and its bytes are kept beside, for equal hashes do not make
//! equal texts. What does not fit, or comes for the first time, travels with its event.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rsys_wire::event::{Arg, Key, Value};

use crate::events;
use crate::sys::recent::Recent;

const ENTRIES: usize = 4096;
const ENTRY_BITS: u32 = ENTRIES.trailing_zeros();
const PROBES: usize = 8;
/// No longer text gets an entry.
const LONGEST_KEPT: usize = 512;
const ROOM: usize = 1 << 20;
/// No more of a text is recorded.
const LONGEST: usize = 4096;

/// A text that was recorded.
#[derive(Debug)]
struct Entry {
    /// 0 in a free entry.
    hash: AtomicU64,
    /// Where its bytes begin in [`KEPT`] (0–31), and how many there are (32–63).
    place: AtomicU64,
    /// Not used until the bytes are there.
    key: KeyOnce,
}

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        hash: AtomicU64::new(0),
        place: AtomicU64::new(0),
        key: KeyOnce::new(),
    }
}; ENTRIES];

/// Hashes of texts that were seen once, lately.
static SEEN: Recent<ENTRIES> = Recent::new();

/// The bytes of the texts, one after another.
#[derive(Debug)]
struct Kept(UnsafeCell<[u8; ROOM]>);

// SAFETY: each byte is written once, by the thread that reserved it, before an entry leads there.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new([0; ROOM]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// A text of ours that is recorded when it is first needed, once in each process.
#[derive(Debug)]
pub struct StaticText {
    text: &'static str,
    key: KeyOnce,
}

impl StaticText {
    /// A text that was not recorded yet.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        StaticText {
            text,
            key: KeyOnce::new(),
        }
    }

    /// What it says.
    #[inline]
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// Its key; the text is recorded now if that was not done before.
    #[inline]
    pub fn key(&self) -> u64 {
        self.key.of(self.text.as_bytes())
    }
}

/// The key of a text that is recorded once in each process: a child of fork has a trace of its own.
#[derive(Debug)]
struct KeyOnce {
    /// The key in the lower bits, [`events::generation`] above; 0 before the first use.
    word: AtomicU64,
}

impl KeyOnce {
    const KEY_BITS: u32 = 48;

    const fn new() -> Self {
        KeyOnce {
            word: AtomicU64::new(0),
        }
    }

    /// The key of the text, which is always the same one. Two threads at once may record it twice, which is no harm.
    #[inline]
    fn of(&self, text: &[u8]) -> u64 {
        let known = self.word.load(Ordering::Acquire);
        if known >> Self::KEY_BITS == events::generation() {
            known & ((1 << Self::KEY_BITS) - 1)
        } else {
            self.record(text)
        }
    }

    #[cold]
    fn record(&self, text: &[u8]) -> u64 {
        let key = events::text(text);
        let word = events::generation() << Self::KEY_BITS | key;
        self.word.store(word, Ordering::Release);
        key
    }

    /// Whether it was recorded, in this process or in its parent.
    #[inline]
    fn is_used(&self) -> bool {
        self.word.load(Ordering::Acquire) != 0
    }
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

/// The key of a text, which is recorded now if it has none: for short texts that come again.
#[inline]
pub fn key_of(text: &[u8]) -> u64 {
    match key(text) {
        0 => events::text(text),
        key => key,
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
                return if SEEN.put(hash) {
                    0
                } else {
                    add(entry, hash, text)
                };
            }
            found if found == hash => {
                // Another thread is filling the entry.
                if !entry.key.is_used() {
                    return 0;
                }
                if same(entry.text(), text) {
                    return entry.key.of(text);
                }
            }
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
    // SAFETY: reserved above for these bytes, and no other thread writes there.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len()) };
    entry
        .place
        .store(start as u64 | (text.len() as u64) << 32, Ordering::Relaxed);
    entry.key.record(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_equal_where_all_their_bytes_are() {
        let text = b"a text of more than two words of eight bytes";
        for length in 0..text.len() {
            let mut other = *text;
            let part = &text[..length];
            assert!(same(part, &other[..length]) && hash(part) == hash(&other[..length]));
            assert!(!same(part, &text[..=length]));
            for place in 0..length {
                other[place] ^= 1;
                assert!(!same(part, &other[..length]));
                assert_ne!(hash(part), hash(&other[..length]));
                other[place] ^= 1;
            }
        }
    }

    #[test]
    fn long_and_missing_messages_are_bounded() {
        assert_eq!(bytes_of(std::ptr::null()), b"(null)");
        let long = std::ffi::CString::new(vec![b'x'; 3 * LONGEST]).unwrap_or_default();
        assert_eq!(bytes_of(long.as_ptr()).len(), LONGEST);
    }

    #[test]
    fn a_text_gets_an_entry_when_it_comes_for_the_second_time() {
        let text = b"comes twice";
        assert_eq!(key(text), 0);
        let second = key(text);
        assert_ne!(second, 0);
        assert_eq!(key(text), second);
        assert_eq!(key(&[b'y'; LONGEST_KEPT + 1]), 0);
    }
}
