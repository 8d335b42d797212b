//! Names that a program has registered, and gives back as handles.
//!
//! ITT looks into its handles (`__itt_domain`, `__itt_string_handle`), NVTX does not into its own. A name has one handle for all of these, as long as the
//! process runs. Handles stand in memory of ours, without locks.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::events::texts;

/// The most names.
const HANDLES: usize = 8192;
const PROBES: usize = 16;
/// The room for their bytes.
const ROOM: usize = 1 << 20;

/// `__itt_string_handle` (ittnotify.h of ITT 3.0 and later).
#[derive(Debug)]
#[repr(C)]
pub struct StringHandle {
    pub text: *const c_char,
    wide: *const c_void,
    extra: c_int,
    more: *const c_void,
    next: *const c_void,
}

/// `__itt_domain`. The program may set the flags to 0, which switches it off.
#[derive(Debug)]
#[repr(C)]
pub struct Domain {
    flags: c_int,
    pub name: *const c_char,
    wide: *const c_void,
    extra: c_int,
    more: *const c_void,
    next: *const c_void,
}

/// One name.
#[derive(Debug)]
#[repr(C)]
pub struct Handle {
    pub string: StringHandle,
    pub domain: Domain,
}

const NOTHING: *const c_void = std::ptr::null();

impl Handle {
    /// What stands in a free place.
    const EMPTY: Handle = {
        let mut handle = Handle::new(std::ptr::null());
        handle.domain.flags = 0;
        handle
    };

    const fn new(text: *const c_char) -> Self {
        Handle {
            string: StringHandle {
                text,
                wide: NOTHING,
                extra: 0,
                more: NOTHING,
                next: NOTHING,
            },
            domain: Domain {
                flags: 1,
                name: text,
                wide: NOTHING,
                extra: 0,
                more: NOTHING,
                next: NOTHING,
            },
        }
    }
}

/// A place for a name.
#[derive(Debug)]
struct Place {
    /// 0 in a free place.
    hash: AtomicU64,
    /// Whether the handle is there.
    is_ready: AtomicBool,
    handle: UnsafeCell<Handle>,
}

// SAFETY: the handle is written once, by the thread that claimed the place, before it is said to be ready. The program may write its flags.
unsafe impl Sync for Place {}

impl Place {
    const fn new(handle: Handle) -> Self {
        Place {
            hash: AtomicU64::new(0),
            is_ready: AtomicBool::new(false),
            handle: UnsafeCell::new(handle),
        }
    }
}

// All zeros, so that the file does not hold it.
static PLACES: [Place; HANDLES] = [const { Place::new(Handle::EMPTY) }; HANDLES];
/// What there is no room for.
static OTHER: Place = Place::new(Handle::new(c"(further names)".as_ptr()));

/// The names, each with its NUL.
#[derive(Debug)]
struct Texts(UnsafeCell<[u8; ROOM]>);

// SAFETY: each byte is written once, by the thread that reserved it.
unsafe impl Sync for Texts {}

static TEXTS: Texts = Texts(UnsafeCell::new([0; ROOM]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// The handle of a name. When there are more than 8192 of them, the others share one.
pub fn of(name: *const c_char) -> *mut Handle {
    let text = texts::bytes_of(name);
    let hash = texts::hash(text) | 1;
    let home = (hash >> 40) as usize;
    for step in 0..PROBES {
        let Some(place) = PLACES.get(home.wrapping_add(step) % HANDLES) else {
            break;
        };
        let found = match place.hash.load(Ordering::Acquire) {
            0 => {
                let claimed =
                    place
                        .hash
                        .compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire);
                match claimed {
                    Ok(_) => return fill(place, text),
                    Err(found) => found,
                }
            }
            found => found,
        };
        // One that another thread is filling is passed by: two handles of a name do no harm.
        if found == hash && place.is_ready.load(Ordering::Acquire) {
            let handle = place.handle.get();
            // SAFETY: ready; its text is ours.
            let known = unsafe { CStr::from_ptr((*handle).string.text) };
            if known.to_bytes() == text {
                return handle;
            }
        }
    }
    OTHER.handle.get()
}

#[cold]
fn fill(place: &'static Place, text: &[u8]) -> *mut Handle {
    let reserved = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        let end = used.saturating_add(text.len()).saturating_add(1);
        (end <= ROOM).then_some(end)
    });
    let Ok(start) = reserved else {
        return OTHER.handle.get();
    };
    let to = TEXTS.0.get().cast::<u8>().wrapping_add(start);
    let handle = place.handle.get();
    // SAFETY: reserved above for these bytes, behind which a NUL stands already; the place is ours alone until it is ready.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
        handle.write(Handle::new(to.cast()));
    }
    place.is_ready.store(true, Ordering::Release);
    handle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_handle_with_its_text() {
        let (a, b) = (of(c"first".as_ptr()), of(c"second".as_ptr()));
        assert_ne!(a, b);
        assert_eq!(of(c"first".to_owned().as_ptr()), a);
        // SAFETY: a handle.
        let (text, name) = unsafe {
            (
                CStr::from_ptr((*a).string.text),
                CStr::from_ptr((*a).domain.name),
            )
        };
        assert_eq!((text, name), (c"first", c"first"));
        assert_eq!(size_of::<StringHandle>(), 40);
        assert_eq!(size_of::<Domain>(), 48);
    }
}
