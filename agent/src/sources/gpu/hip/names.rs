//! Texts that are recorded once: names of kernels, calls and copies.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::events::{self, texts};

/// Keys by the hash of what they stand for. Open addressing; what finds no place is recorded again each time.
#[derive(Debug)]
struct Table<const PLACES: usize>([(AtomicU64, AtomicU64); PLACES]);

const PROBES: usize = 64;

impl<const PLACES: usize> Table<PLACES> {
    const fn new() -> Self {
        Table([const { (AtomicU64::new(0), AtomicU64::new(0)) }; PLACES])
    }

    /// The key for a hash, made if it has none. Two threads may make one each; both are right.
    #[inline]
    fn key(&self, hash: u64, make: impl FnOnce() -> u64) -> u64 {
        let hash = hash | 1;
        for step in 0..PROBES {
            let Some((owner, key)) = self.0.get((hash >> 1) as usize % PLACES + step) else {
                break;
            };
            let mut found = owner.load(Ordering::Acquire);
            if found == 0 {
                found = match owner.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => hash,
                    Err(other) => other,
                };
            }
            if found == hash {
                let known = key.load(Ordering::Acquire);
                if known != 0 {
                    return known;
                }
                let made = make();
                key.store(made, Ordering::Release);
                return made;
            }
        }
        make()
    }
}

static TEXTS: Table<8192> = Table::new();
static KERNELS: Table<8192> = Table::new();
/// Changes when code is unloaded: the same address may be another kernel's then.
static GENERATION: AtomicU64 = AtomicU64::new(1);

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(MIX);
    mixed ^ mixed >> 29
}

/// The key of a text, which is recorded if it was not yet in this process.
pub fn key(text: &[u8]) -> u64 {
    let hash = mix(texts::hash(text), events::generation());
    TEXTS.key(hash, || events::text(text))
}

/// The key of a C string of the runtime's, or 0 for null and the empty string.
///
/// # Safety
/// Null or a valid string.
pub unsafe fn key_of(text: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    match unsafe { text_of(text) } {
        b"" => 0,
        text => key(text),
    }
}

/// The bytes of a C string of the runtime's, none for null.
///
/// # Safety
/// Null or a valid string, which outlives the result.
pub unsafe fn text_of<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// The key of the name of the kernel behind a function or handle.
///
/// # Safety
/// `name_of` must be HIP's function for such pointers, and this one must be valid as HIP's own calls require it.
pub unsafe fn kernel(
    pointer: *const c_void,
    name_of: impl FnOnce(*const c_void) -> Option<*const c_char>,
) -> u64 {
    if pointer.is_null() {
        return 0;
    }
    let generation = GENERATION.load(Ordering::Relaxed) ^ events::generation() << 48;
    let hash = mix(mix(MIX, generation), pointer.addr() as u64);
    KERNELS.key(hash, || {
        // SAFETY: HIP's answer is null or a string that lives as long as the kernel.
        name_of(pointer).map_or(0, |name| unsafe { key_of(name) })
    })
}

/// Code was unloaded.
pub fn new_generation() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
