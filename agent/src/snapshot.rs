//! Where code lies, for C libraries without `_dl_find_object`.
//!
//! A sorted, immutable list made by `dl_iterate_phdr` outside of signal handlers and swapped in as a
//! whole. Old lists stay (a handler may be reading one); they are small, and made only when the
//! loader says that something was loaded or unloaded. The list is renewed when a thread starts or
//! ends and around `dlclose`, so a library that was just loaded is unknown until then.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::modules::{self, Object};
use crate::real;

static CURRENT: AtomicPtr<Vec<Object>> = AtomicPtr::new(std::ptr::null_mut());
/// The loader's counts of loads and unloads when the list was made.
static STAMP: AtomicU64 = AtomicU64::new(u64::MAX);
static MAKING: Mutex<()> = Mutex::new(());

/// Finds the object that contains `pc` in the list.
///
/// # Signal safety
/// Reads an immutable list.
pub fn find(pc: u64) -> Option<Object> {
    // SAFETY: lists are published complete and never freed.
    let objects = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
    let after = objects.partition_point(|object| object.start <= pc);
    objects
        .get(after.checked_sub(1)?)
        .filter(|object| pc < object.end)
        .copied()
}

/// Renews the list if the loader has changed something and the C library needs the list. Not for
/// signal handlers.
pub fn renew() {
    if real::dl_find_object::get().is_some() {
        return;
    }
    let Ok(_making) = MAKING.try_lock() else {
        return;
    };
    let mut found: (Vec<Object>, u64) = (Vec::new(), 0);
    // SAFETY: the callback matches the signature and only touches `found`.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut found).cast()) };
    let (mut objects, stamp) = found;
    if STAMP.swap(stamp, Ordering::Relaxed) == stamp {
        return;
    }
    objects.sort_unstable_by_key(|object| object.start);
    CURRENT.store(Box::into_raw(Box::new(objects)), Ordering::Release);
    modules::new_generation();
}

unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid entry, and `renew` its own object.
    let (info, (objects, stamp)) = unsafe { (&*info, &mut *found.cast::<(Vec<Object>, u64)>()) };
    *stamp = info.dlpi_adds.wrapping_add(info.dlpi_subs << 32);
    let bias = info.dlpi_addr;
    let mut object = Object {
        start: u64::MAX,
        bias,
        path: info.dlpi_name.addr() as u64,
        ..Object::default()
    };
    for index in 0..info.dlpi_phnum {
        // SAFETY: the table has dlpi_phnum entries.
        let header = unsafe { &*info.dlpi_phdr.add(usize::from(index)) };
        let address = bias.wrapping_add(header.p_vaddr);
        if header.p_type == libc::PT_LOAD {
            object.start = object.start.min(address & !4095);
            object.end = object.end.max(address.wrapping_add(header.p_memsz));
        } else if header.p_type == libc::PT_GNU_EH_FRAME {
            object.eh_frame_hdr = address;
        }
    }
    if object.start < object.end {
        objects.push(object);
    }
    0
}
