//! Weak references to functions that no library of the program has, but we export.
//!
//! Programs test by a weak reference whether the version of a library at hand has a function (mpi4py does so with 200 of MPI's), and do without it
//! where the reference is null. Our exports make none of them null. So those that only we answer are set back to null before the program
//! can have looked.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::interpose::symbols;
use crate::sys::guard::{copy_c_string, read_u8, read_u16, read_u32, read_u64};
use crate::sys::set_writable;

const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;
const MOST_ENTRIES: u64 = 1 << 12;
const SYMBOL_BYTES: u64 = 24;
const RELOCATION_BYTES: u64 = 24;
const STB_WEAK: u8 = 2;
/// Relocations that put a symbol's address somewhere: a word, an entry of the global offset table, one of the linkage table.
#[cfg(target_arch = "x86_64")]
const OF_SYMBOLS: [u32; 3] = [1, 6, 7];
#[cfg(target_arch = "aarch64")]
const OF_SYMBOLS: [u32; 3] = [257, 1025, 1026];

/// How many objects had been loaded when the references were last looked at.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// What is asked about names.
type IsMissing = fn(&CStr) -> bool;

/// Looks at the objects that were loaded since the last time, and sets references back to null of whose name `is_missing` says that no library has it.
/// Not for signal handlers.
pub fn restore(is_missing: IsMissing) {
    let mut loaded = 0_u64;
    // SAFETY: the callback gets the number on this stack.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut loaded).cast()) };
    if SEEN.swap(loaded, Ordering::AcqRel) != loaded {
        let mut is_missing = is_missing;
        // SAFETY: the callback gets the function on this stack.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut is_missing).cast()) };
    }
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a number.
unsafe extern "C" fn count(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { *data.cast::<u64>() = (*info).dlpi_adds };
    1
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with an [`IsMissing`].
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: as above; the loader's own structure and array.
    let (info, is_missing, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info, *data.cast::<IsMissing>(), headers)
    };
    let bias = info.dlpi_addr;
    let of_kind = |kind| headers.iter().find(|header| header.p_type == kind);
    let Some(dynamic) = of_kind(PT_DYNAMIC) else {
        return 0;
    };
    let read_only = of_kind(PT_GNU_RELRO).map_or(0..0, |header| {
        let start = bias.wrapping_add(header.p_vaddr);
        start..start.wrapping_add(header.p_memsz)
    });
    if let Some(tables) = Tables::read(bias, bias.wrapping_add(dynamic.p_vaddr)) {
        for [at, bytes] in tables.relocations {
            for number in 0..bytes / RELOCATION_BYTES {
                let entry = at.wrapping_add(number.wrapping_mul(RELOCATION_BYTES));
                tables.restore(entry, &read_only, is_missing);
            }
        }
    }
    0
}

/// The tables of one object that its relocations are in.
#[derive(Debug, Default)]
struct Tables {
    bias: u64,
    symbols: u64,
    strings: u64,
    /// Tables of relocations, each with its length in bytes.
    relocations: [[u64; 2]; 2],
}

impl Tables {
    fn read(bias: u64, dynamic: u64) -> Option<Self> {
        let mut tables = Tables {
            bias,
            ..Self::default()
        };
        for number in 0..MOST_ENTRIES {
            let entry = dynamic.wrapping_add(number.wrapping_mul(16));
            let value = read_u64(entry.wrapping_add(8))?;
            // As in the other tables of symbols: an address already, or not.
            let address = if value < bias {
                bias.wrapping_add(value)
            } else {
                value
            };
            let [data, linkage] = &mut tables.relocations;
            match read_u64(entry)? {
                0 => break,
                DT_STRTAB => tables.strings = address,
                DT_SYMTAB => tables.symbols = address,
                DT_RELA => data[0] = address,
                DT_RELASZ => data[1] = value,
                DT_JMPREL => linkage[0] = address,
                DT_PLTRELSZ => linkage[1] = value,
                _ => {}
            }
        }
        (tables.symbols != 0 && tables.strings != 0).then_some(tables)
    }

    /// Sets what a relocation has filled in back to null, if it is a weak reference to a function that only we have.
    fn restore(
        &self,
        entry: u64,
        read_only: &std::ops::Range<u64>,
        is_missing: IsMissing,
    ) -> Option<()> {
        let what = read_u64(entry.wrapping_add(8))?;
        let (symbol, kind) = (what >> 32, what as u32);
        if symbol == 0 || !OF_SYMBOLS.contains(&kind) {
            return None;
        }
        let symbol = self.symbols.wrapping_add(symbol.wrapping_mul(SYMBOL_BYTES));
        let is_weak = read_u8(symbol.wrapping_add(4))? >> 4 == STB_WEAK;
        if !is_weak || read_u16(symbol.wrapping_add(6))? != 0 {
            return None;
        }
        let place = self.bias.wrapping_add(read_u64(entry)?);
        let target: *const () = std::ptr::without_provenance(read_u64(place)? as usize);
        if target.is_null() || !symbols::is_ours(target) {
            return None;
        }
        let mut name = [0_u8; 64];
        let name_at = self.strings.wrapping_add(u64::from(read_u32(symbol)?));
        copy_c_string(name_at, &mut name[..63]);
        if !is_missing(CStr::from_bytes_until_nul(&name).ok()?) {
            return None;
        }
        write_null(place, read_only);
        Some(())
    }
}

/// Sets a word of the loader's to 0, which the loader may have made read-only.
fn write_null(place: u64, read_only: &std::ops::Range<u64>) {
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
