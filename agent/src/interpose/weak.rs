//! Weak references to functions that no library of the program has, but we export.
//!
//! Programs test by a weak reference whether the version of a library at hand has a function (mpi4py does so with 200 of MPI's), and do without it
//! where the reference is null. Our exports make none of them null. So those that only we answer are set back to null before the program
//! can have looked.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::interpose::symbols;
use crate::sys::guard::{copy_c_string, read_u64};
use crate::sys::set_writable;
use crate::target::tables::Tables;

const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;
/// Relocations that put a symbol's address somewhere: a word, an entry of the global offset table, one of the linkage table.
const OF_SYMBOLS: [u32; 3] = [1, 6, 7];

/// Whether a name is one of the functions that are looked for.
type IsKnown = fn(&CStr) -> bool;

/// How many objects a caller has looked at.
#[derive(Debug)]
pub struct Seen {
    /// Objects that had been loaded and unloaded when it last looked, of all namespaces of the loader, and those that it saw.
    counts: [AtomicU64; 3],
}

impl Seen {
    /// None.
    pub const fn new() -> Self {
        Seen {
            counts: [const { AtomicU64::new(0) }; 3],
        }
    }
}

/// A look at the objects that are new.
struct Search<'a> {
    is_known: IsKnown,
    seen: &'a Seen,
    /// How many objects stand in front that were looked at; `None` before the first.
    skip: Option<u64>,
    /// How many there were up to now, or to the first that has to be looked at again.
    objects: u64,
    /// Whether none has to: another thread's `dlopen` lists objects before it fills their references in.
    is_settled: bool,
    /// Addresses of a program that was linked to stay where it is.
    program: Range<u64>,
}

/// Looks at the objects that were loaded since the last time, and sets references back to null to functions of which `is_known` holds, and that no library
/// has. Not for signal handlers.
pub fn restore(is_known: IsKnown, seen: &Seen) {
    let mut search = Search {
        is_known,
        seen,
        skip: None,
        objects: 0,
        is_settled: true,
        program: 0..0,
    };
    // SAFETY: the callback gets what is on this stack.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    if search.skip.is_some() {
        seen.counts[2].store(search.objects, Ordering::Release);
        if !search.is_settled {
            // The next look is one, whatever was loaded by then.
            seen.counts[0].store(0, Ordering::Release);
        }
    }
}

impl Search<'_> {
    /// How many objects in front need no look, if there are others. New ones stand behind those that were there; once one was unloaded, their places are unknown.
    fn begin(&self, loaded: u64, unloaded: u64) -> Option<u64> {
        let [loads, unloads, objects] = &self.seen.counts;
        let before = loads.swap(loaded, Ordering::AcqRel);
        let is_same = unloads.swap(unloaded, Ordering::AcqRel) == unloaded;
        (before != loaded).then(|| match is_same {
            true => objects.load(Ordering::Acquire),
            false => 0,
        })
    }
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a [`Search`].
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: as above; the loader's own structure and array.
    let (info, search, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info, &mut *data.cast::<Search<'_>>(), headers)
    };
    if info.dlpi_addr == 0 {
        search.program = 0..end_of(headers);
    }
    let skip = search
        .skip
        .or_else(|| search.begin(info.dlpi_adds, info.dlpi_subs));
    let Some(skip) = skip else { return 1 };
    search.skip = Some(skip.saturating_sub(1));
    search.is_settled &= skip > 0 || look(info, headers, search);
    search.objects += u64::from(search.is_settled);
    0
}

/// Looks at an object. False if that has to be done again, as its references are not filled in.
fn look(info: &libc::dl_phdr_info, headers: &[libc::Elf64_Phdr], search: &Search<'_>) -> bool {
    let bias = info.dlpi_addr;
    let of_kind = |kind| headers.iter().find(|header| header.p_type == kind);
    let Some(dynamic) = of_kind(PT_DYNAMIC) else {
        return true;
    };
    let read_only = of_kind(PT_GNU_RELRO).map_or(0..0, |header| {
        let start = bias.wrapping_add(header.p_vaddr);
        start..start.wrapping_add(header.p_memsz)
    });
    // What is in the file is an address of the object as if it lay at 0. A program that does was ready before us.
    let span = if bias == 0 { 0 } else { end_of(headers) };
    let is_as_in_file =
        |target| target < span && (target == 0 || !search.program.contains(&target));
    Tables::read(bias, bias.wrapping_add(dynamic.p_vaddr))
        .is_none_or(|tables| restore_object(&tables, &read_only, is_as_in_file, search.is_known))
}

/// Where the last segment ends, from where the object lies.
fn end_of(headers: &[libc::Elf64_Phdr]) -> u64 {
    let loaded = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    let ends = loaded.map(|header| header.p_vaddr.wrapping_add(header.p_memsz));
    ends.max().unwrap_or(0)
}

/// Sets references of an object back to null that are weak, and to functions that only we have. False if the loader has not filled them in.
fn restore_object(
    tables: &Tables,
    read_only: &Range<u64>,
    is_as_in_file: impl Fn(u64) -> bool,
    is_known: IsKnown,
) -> bool {
    let is_wanted = |symbol| {
        tables
            .weak_reference(symbol)
            .is_some_and(|at| named(at, is_known))
    };
    // Few objects have any: these need not be looked through.
    if let Some(undefined) = tables.undefined()
        && !(1..undefined).any(is_wanted)
    {
        return true;
    }
    // The loader goes through them in order, and leaves none but weak ones as they are in the file: null, or without the object's address. An object
    // whose last relocations are of weak references shows no difference: it counts as relocated.
    let strong = tables.relocations().filter(|relocation| {
        OF_SYMBOLS.contains(&relocation.kind) && tables.weak_reference(relocation.symbol).is_none()
    });
    if let Some(last) = strong.last()
        && read_u64(last.place).is_some_and(is_as_in_file)
    {
        return false;
    }
    for relocation in tables.relocations() {
        if !OF_SYMBOLS.contains(&relocation.kind) {
            continue;
        }
        let Some(name_at) = tables.weak_reference(relocation.symbol) else {
            continue;
        };
        let Some(target) = read_u64(relocation.place) else {
            continue;
        };
        let target: *const () = std::ptr::without_provenance(target as usize);
        let is_missing = |name: &CStr| is_known(name) && symbols::behind(name).is_null();
        if !target.is_null() && symbols::is_ours(target) && named(name_at, is_missing) {
            write_null(relocation.place, read_only);
        }
    }
    true
}

/// Whether something holds of the name at an address.
fn named(at: u64, holds: impl Fn(&CStr) -> bool) -> bool {
    let mut name = [0_u8; 64];
    copy_c_string(at, &mut name[..63]);
    CStr::from_bytes_until_nul(&name).is_ok_and(holds)
}

/// Sets a word of the loader's to 0, which the loader may have made read-only.
fn write_null(place: u64, read_only: &Range<u64>) {
    // SAFETY: no arguments that could be wrong.
    let page_bytes = unsafe { libc::getauxval(libc::AT_PAGESZ) };
    let down = |address: u64| address & !page_bytes.wrapping_sub(1);
    let is_read_only = (down(read_only.start)..down(read_only.end)).contains(&place);
    let page = down(place);
    // SAFETY: a whole page of the object's data; nothing but this word changes.
    if is_read_only && !unsafe { set_writable(page, page_bytes, true) } {
        return;
    }
    let word: *mut u64 = std::ptr::with_exposed_provenance_mut(place as usize);
    // SAFETY: a word that the loader has filled in, of an object that stays loaded while its references are looked at.
    unsafe { word.write_volatile(0) };
    if is_read_only {
        // SAFETY: as the loader left it.
        unsafe { set_writable(page, page_bytes, false) };
    }
}
