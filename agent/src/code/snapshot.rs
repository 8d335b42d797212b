//! Where code lies, for C libraries without `_dl_find_object` (glibc before 2.35).
//!
//! A sorted, immutable list made by `dl_iterate_phdr` outside of signal handlers and swapped in as a whole, when the loader says that something was
//! loaded or unloaded. Old lists are freed as soon as no thread is reading any. The list is renewed when a thread starts and after `dlclose`. What `dlopen` has added since then is found in the loader's own list, to
//! which it appends: a look-up that fails goes on behind the last object of the snapshot.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::code::modules;
use crate::code::object::Object;
use crate::sys::guard::{read_u16, read_u32, read_u64};
use crate::target::{other_libc, real};

/// The variable that makes the agent use the snapshot also where it needs none: the tests' only way to see it at work.
pub const ENV_FORCE: &str = "RSYS_AGENT_MODULE_SNAPSHOT";

/// What was loaded at one moment.
#[derive(Debug, Default)]
struct Snapshot {
    /// Sorted by address.
    objects: Vec<Object>,
    /// The loader's counts of loads and unloads.
    stamp: u64,
    /// The last entry of the loader's list (`struct link_map`), or 0.
    last_entry: u64,
}

static USED: AtomicBool = AtomicBool::new(false);
static CURRENT: AtomicPtr<Snapshot> = AtomicPtr::new(std::ptr::null_mut());
/// Threads that may be reading a list, whichever.
static READERS: AtomicU32 = AtomicU32::new(0);
/// Held by the one thread that makes a list: the lists that were in use before.
#[expect(clippy::vec_box, reason = "readers know where a list is")]
static MAKING: Mutex<Vec<Box<Snapshot>>> = Mutex::new(Vec::new());

/// More entries of the loader's list are not looked at: a damaged list may be a ring.
const MOST_ENTRIES: u32 = 4096;
/// A library has a dozen program headers.
const MOST_HEADERS: u64 = 64;

/// Decides whether look-ups use the snapshot, and makes the first one.
#[unsafe(link_section = "rsys_start")]
pub fn start(forced: bool) {
    USED.store(
        forced || real::dl_find_object::get().is_none(),
        Ordering::Relaxed,
    );
    renew();
}

/// Whether look-ups use the snapshot.
///
/// # Signal safety
/// One relaxed load.
#[inline]
pub fn is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// Finds the object that contains `pc`.
///
/// # Signal safety
/// Reads an immutable list, and the loader's list with guarded loads.
pub fn find(pc: u64) -> Option<Object> {
    // Before the list is looked for: `publish` looks at both in the opposite order.
    READERS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: published complete, and not freed while there are readers.
    let found = unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }
        .and_then(|snapshot| find_in(snapshot, pc));
    READERS.fetch_sub(1, Ordering::Release);
    found
}

fn find_in(snapshot: &Snapshot, pc: u64) -> Option<Object> {
    let after = snapshot
        .objects
        .partition_point(|object| object.start <= pc);
    let known = after
        .checked_sub(1)
        .and_then(|last| snapshot.objects.get(last));
    known
        .filter(|object| pc < object.end)
        .copied()
        .or_else(|| find_later(snapshot, pc))
}

// The start of glibc's `struct link_map` (link.h): l_addr, l_name, l_ld, l_next.
const LINK_ADDRESS: u64 = 0;
const LINK_NAME: u64 = 8;
const LINK_NEXT: u64 = 24;

/// Finds the object among those that were loaded after the snapshot was made.
#[inline(never)]
fn find_later(snapshot: &Snapshot, pc: u64) -> Option<Object> {
    let mut entry = snapshot.last_entry;
    if entry == 0 {
        return None;
    }
    for _ in 0..MOST_ENTRIES {
        entry = read_u64(entry.wrapping_add(LINK_NEXT)).filter(|next| *next != 0)?;
        let found = object_at(
            read_u64(entry.wrapping_add(LINK_ADDRESS))?,
            read_u64(entry.wrapping_add(LINK_NAME))?,
        );
        if let Some(object) = found
            && (object.start..object.end).contains(&pc)
        {
            return Some(object);
        }
    }
    None
}

/// The object whose ELF header is at `bias`, where the loader maps the header of a shared library.
fn object_at(bias: u64, path: u64) -> Option<Object> {
    // Fields of Elf64_Ehdr and Elf64_Phdr by their offsets (elf(5)).
    if read_u32(bias)? != u32::from_le_bytes(*b"\x7fELF") {
        return None;
    }
    let table = bias.wrapping_add(read_u64(bias.wrapping_add(0x20))?);
    let bytes = u64::from(read_u16(bias.wrapping_add(0x36))?);
    let count = u64::from(read_u16(bias.wrapping_add(0x38))?).min(MOST_HEADERS);
    let mut object = Object {
        bias,
        path,
        ..EMPTY
    };
    for header in (0..count).map(|number| table.wrapping_add(number.wrapping_mul(bytes))) {
        let address = read_u64(header.wrapping_add(0x10))?;
        let size = read_u64(header.wrapping_add(0x28))?;
        add_segment(&mut object, read_u32(header)?, address, size);
    }
    (object.start < object.end).then_some(object)
}

/// An object of which no segment is known yet.
const EMPTY: Object = Object {
    start: u64::MAX,
    end: 0,
    eh_frame_hdr: 0,
    bias: 0,
    path: 0,
};

/// Takes in a program header: its `p_type`, `p_vaddr` and `p_memsz`.
fn add_segment(object: &mut Object, kind: u32, address: u64, size: u64) {
    let address = object.bias.wrapping_add(address);
    if kind == libc::PT_LOAD {
        object.start = object.start.min(address & !4095);
        object.end = object.end.max(address.wrapping_add(size));
    } else if kind == libc::PT_GNU_EH_FRAME {
        object.eh_frame_hdr = address;
    }
}

/// Renews the snapshot if it is used and the loader has changed something. Not for signal handlers.
#[unsafe(link_section = "rsys_start")]
pub fn renew() {
    if !is_used() {
        return;
    }
    let Ok(mut old) = MAKING.try_lock() else {
        return;
    };
    let mut new = Snapshot {
        last_entry: last_entry(),
        ..Snapshot::default()
    };
    // SAFETY: the callback matches the signature and only touches `new`.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut new).cast()) };
    // SAFETY: only the thread that makes the next one frees it.
    let current = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    if current.is_some_and(|current| current.stamp == new.stamp) {
        return;
    }
    new.objects.sort_unstable_by_key(|object| object.start);
    publish(Box::new(new), &mut old);
    modules::new_generation();
}

/// Puts a list into use, and frees those that were in use before unless they may be read at the moment.
#[expect(clippy::vec_box, reason = "readers know where a list is")]
fn publish(new: Box<Snapshot>, old: &mut Vec<Box<Snapshot>>) {
    let before = CURRENT.swap(Box::into_raw(new), Ordering::SeqCst);
    if !before.is_null() {
        // SAFETY: made by `into_raw` here, and in use no more.
        old.push(unsafe { Box::from_raw(before) });
    }
    if READERS.load(Ordering::SeqCst) == 0 {
        old.clear();
    }
}

/// Other threads that were reading are not in the child.
pub fn after_fork_in_child() {
    READERS.store(0, Ordering::Release);
}

/// The last entry of the loader's list. Taken before the objects are listed: what comes in between is found twice, not missed.
fn last_entry() -> u64 {
    // Not by `dlsym`: that takes the loader's lock, and clears the program's pending `dlerror`.
    let debug = other_libc::loader_list();
    if debug.is_null() {
        return 0;
    }
    // `struct r_debug` (link.h): the version, then the list's first entry.
    let mut last = 0;
    let mut next = read_u64((debug.addr() as u64).wrapping_add(8));
    for _ in 0..MOST_ENTRIES {
        let Some(entry) = next.filter(|entry| *entry != 0) else {
            break;
        };
        last = entry;
        next = read_u64(entry.wrapping_add(LINK_NEXT));
    }
    last
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a snapshot of [`renew`]'s.
unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    snapshot: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid entry, and `renew` its own snapshot.
    let (info, snapshot) = unsafe { (&*info, &mut *snapshot.cast::<Snapshot>()) };
    snapshot.stamp = info.dlpi_adds.wrapping_add(info.dlpi_subs << 32);
    let mut object = Object {
        bias: info.dlpi_addr,
        path: info.dlpi_name.addr() as u64,
        ..EMPTY
    };
    for index in 0..info.dlpi_phnum {
        // SAFETY: the table has dlpi_phnum entries.
        let header = unsafe { &*info.dlpi_phdr.add(usize::from(index)) };
        add_segment(&mut object, header.p_type, header.p_vaddr, header.p_memsz);
    }
    if object.start < object.end {
        snapshot.objects.push(object);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_nobody_reads_are_freed() {
        let list = |stamp| {
            Box::new(Snapshot {
                stamp,
                ..Snapshot::default()
            })
        };
        let mut old = MAKING.lock().unwrap();
        for stamp in 0..3 {
            publish(list(stamp), &mut old);
            assert!(old.is_empty());
        }
        READERS.fetch_add(1, Ordering::SeqCst);
        publish(list(3), &mut old);
        publish(list(4), &mut old);
        assert_eq!(old.len(), 2);
        READERS.fetch_sub(1, Ordering::SeqCst);
        publish(list(5), &mut old);
        assert!(old.is_empty());
        let last = CURRENT.swap(std::ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: made by `publish`.
        drop(unsafe { Box::from_raw(last) });
    }
}
