//! Which code lies where, without a lock.
//!
//! glibc 2.35 and newer answer that with `_dl_find_object`, which is made for signal handlers. On
//! older ones a snapshot of `dl_iterate_phdr` stands in: see [`snapshot`].

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::code::object::Object;
use crate::code::snapshot;
use crate::sys::guard;
use crate::target::real;

/// Changes when code was unloaded; see [`rsys_unwind::Modules::generation`].
static RULES: AtomicU32 = AtomicU32::new(1);
/// Changes when a library was unloaded.
static LIBRARIES: AtomicU32 = AtomicU32::new(1);

/// Forgets every cached rule.
///
/// # Signal safety
/// One atomic addition.
pub fn forget_rules() {
    RULES.fetch_add(1, Ordering::AcqRel);
}

/// Forgets every cached rule and lets every module be reported again.
///
/// # Signal safety
/// Two atomic additions.
pub fn new_generation() {
    LIBRARIES.fetch_add(1, Ordering::AcqRel);
    forget_rules();
}

/// Changes with [`forget_rules`]; see [`rsys_unwind::Modules::generation`].
#[inline]
pub fn rules_generation() -> u32 {
    RULES.load(Ordering::Acquire)
}

/// Changes with [`new_generation`]: the same address may mean another library then.
#[inline]
pub fn libraries_generation() -> u32 {
    LIBRARIES.load(Ordering::Acquire)
}

/// glibc's `struct dl_find_object` (bits/dl_find_object.h, 2.35) on 64-bit machines.
#[derive(Debug)]
#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: u64,
    map_end: u64,
    link_map: u64,
    eh_frame: u64,
    reserved: [u64; 7],
}

const _: () = assert!(size_of::<DlFindObject>() == 96);

/// Finds the object that contains `pc`.
///
/// # Signal safety
/// `_dl_find_object` is documented as async-signal-safe; the snapshot is immutable.
#[inline]
pub fn find(pc: u64) -> Option<Object> {
    let find_object = match real::dl_find_object::known() {
        Some(find_object) if !snapshot::is_used() => find_object,
        _ => return snapshot::find(pc),
    };
    let mut found = DlFindObject {
        flags: 0,
        map_start: 0,
        map_end: 0,
        link_map: 0,
        eh_frame: 0,
        reserved: [0; 7],
    };
    let address: *mut c_void = std::ptr::without_provenance_mut(pc as usize);
    // SAFETY: `found` has the layout that glibc documents for this function.
    if unsafe { find_object(address, (&raw mut found).cast()) } != 0 {
        return None;
    }
    // `struct link_map` starts with l_addr and l_name (link.h).
    Some(Object {
        start: found.map_start,
        end: found.map_end,
        eh_frame_hdr: found.eh_frame,
        bias: guard::read_u64(found.link_map)?,
        path: guard::read_u64(found.link_map.wrapping_add(8))?,
    })
}
