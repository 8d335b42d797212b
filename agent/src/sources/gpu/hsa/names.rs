//! Names of kernels, by the number that packets call them.
//!
//! Learned when an executable is frozen, before any packet can name its kernels; forgotten when it is destroyed, because the number
//! may then come again. Looked up without a lock.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::events;
use crate::sources::gpu::hsa::abi::{GENERIC_ERROR, SUCCESS, Status, symbol_info};
use crate::sources::gpu::hsa::agents;
use crate::sources::gpu::hsa::kernel_counters;
use crate::sources::gpu::hsa::table;
use crate::sources::gpu::kernel_lines;
use crate::state;
use crate::sys;
use crate::sys::lock::Lock;

const ENTRIES: usize = 1 << 16;
const PROBES: usize = 256;
const NAME_BYTES: usize = 64 * 1024;
/// A place whose kernel is gone.
const GONE: u64 = 1;

#[derive(Debug)]
struct Entry {
    object: AtomicU64,
    name: AtomicU64,
    /// Key of the source line that it came from, or 0.
    source: AtomicU64,
    /// Its executable, an address, and [`COUNTED`] where the kernel's counters are asked for: no word more, so that none lies in two cache lines.
    executable: AtomicU64,
}

const COUNTED: u64 = 1 << 63;
const _: () = assert!(size_of::<Entry>() == 32);

static TABLE: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
/// Held while symbols are listed: there is one buffer for names.
static BUSY: Lock = Lock::new();

/// Makes the table. Returns whether there was memory.
pub fn start() -> bool {
    if !TABLE.load(Ordering::Acquire).is_null() {
        return true;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let bytes = ENTRIES * size_of::<Entry>() + NAME_BYTES;
    let Ok(memory) = sys::mmap(bytes, flags, -1) else {
        return false;
    };
    TABLE.store(memory.cast(), Ordering::Release);
    true
}

fn entries() -> &'static [Entry] {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return &[];
    }
    // SAFETY: mapped by `start` with room for the whole table, zeroed, never unmapped.
    unsafe { std::slice::from_raw_parts(table, ENTRIES) }
}

fn places(object: u64) -> impl Iterator<Item = &'static Entry> {
    let hash = (object >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let entries = entries();
    (0..PROBES).filter_map(move |step| {
        entries.get((hash as usize).wrapping_add(step) & ENTRIES.wrapping_sub(1))
    })
}

/// The keys of a kernel's name and of the source line that it came from, each 0 if it is not known.
#[inline]
pub fn of(object: u64) -> [u64; 2] {
    find(object).map_or([0; 2], |entry| {
        [&entry.name, &entry.source].map(|key| key.load(Ordering::Relaxed))
    })
}

/// Whether the counters of a kernel are asked for, by its name. Those of one whose name is not known are not.
pub fn is_counted(object: u64) -> bool {
    find(object).is_some_and(|entry| entry.executable.load(Ordering::Relaxed) & COUNTED != 0)
}

#[inline]
fn find(object: u64) -> Option<&'static Entry> {
    for entry in places(object) {
        match entry.object.load(Ordering::Acquire) {
            0 => break,
            found if found == object => return Some(entry),
            _ => {}
        }
    }
    None
}

/// What a listing is about.
#[derive(Debug)]
struct Listing {
    executable: u64,
    name: *mut u8,
}

/// The thread that learned names at the fork is not in the child.
pub fn after_fork_in_child() {
    BUSY.break_open();
}

/// Learns the kernels of an executable that was frozen.
pub fn learn(executable: u64) {
    let (Some(iterate), false) = (
        table::executable_iterate_agent_symbols::get(),
        entries().is_empty(),
    ) else {
        return;
    };
    BUSY.with(|| {
        let name = TABLE
            .load(Ordering::Acquire)
            .wrapping_add(ENTRIES)
            .cast::<u8>();
        let mut listing = Listing { executable, name };
        agents::for_each_gpu(|agent| {
            // SAFETY: the callback gets our listing, which lives across the call. An agent without code in it has no symbols.
            unsafe {
                iterate(
                    executable,
                    agent.handle,
                    on_symbol,
                    (&raw mut listing).cast(),
                )
            };
        });
    });
}

/// # Safety
/// As the runtime calls it, with the [`Listing`] that was given to it.
unsafe extern "C" fn on_symbol(_: u64, _: u64, symbol: u64, data: *mut c_void) -> Status {
    // SAFETY: `learn` passes its listing.
    let listing = unsafe { &*data.cast::<Listing>() };
    let Some(get) = table::executable_symbol_get_info::get() else {
        return GENERIC_ERROR;
    };
    let (mut kind, mut length, mut object) = (0_u32, 0_u32, 0_u64);
    let asked = |what: u32, place: *mut c_void| {
        // SAFETY: the symbol comes from the runtime, and the places have the sizes that the specification gives.
        unsafe { get(symbol, what, place) == SUCCESS }
    };
    let is_kernel = asked(symbol_info::TYPE, (&raw mut kind).cast())
        && kind == 1
        && asked(symbol_info::KERNEL_OBJECT, (&raw mut object).cast())
        && object > GONE
        && asked(symbol_info::NAME_LENGTH, (&raw mut length).cast())
        && (length as usize) < NAME_BYTES
        && asked(symbol_info::NAME, listing.name.cast());
    if is_kernel {
        // SAFETY: the runtime has just written `length` bytes there.
        let name = unsafe { std::slice::from_raw_parts(listing.name, length as usize) };
        insert(
            object,
            listing.executable,
            name.strip_suffix(b".kd").unwrap_or(name),
        );
    }
    SUCCESS
}

fn insert(object: u64, executable: u64, name: &[u8]) {
    let known = places(object).find(|entry| entry.object.load(Ordering::Relaxed) == object);
    let free =
        || places(object).find(|entry| matches!(entry.object.load(Ordering::Relaxed), 0 | GONE));
    let Some(entry) = known.or_else(free) else {
        return;
    };
    entry.name.store(events::text(name), Ordering::Relaxed);
    let source = kernel_lines::in_executable(executable, name);
    entry.source.store(source, Ordering::Relaxed);
    let is_counted = kernel_counters::is_on() && state::settings().counted_kernels.matches(name);
    let counted = if is_counted { COUNTED } else { 0 };
    entry
        .executable
        .store(executable & !COUNTED | counted, Ordering::Relaxed);
    entry.object.store(object, Ordering::Release);
}

/// Forgets the kernels of an executable that is about to be destroyed; of all with 0.
pub fn forget(executable: u64) {
    for entry in entries() {
        let object = entry.object.load(Ordering::Relaxed);
        let known = object > GONE;
        let own = entry.executable.load(Ordering::Relaxed) & !COUNTED;
        if known && (executable == 0 || own == executable & !COUNTED) {
            entry.object.store(GONE, Ordering::Release);
        }
    }
}
