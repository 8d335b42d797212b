//! Standing in front of the C library's functions in a program that was loaded before us.
//!
//! A preloaded agent is found first wherever a name is looked up. One that comes later is not: the modules have the addresses of the real
//! functions in words of their own, which the loader has set. So those words get ours ([`Hooks::set`]), and the real ones again when the
//! sampler leaves ([`Hooks::take_back`]). A word is only changed if it has the very function that ours goes on to, or stands for it because
//! it was never called: functions that another library has put in front of those of the C library stay.

use std::ffi::{CStr, c_int, c_void};

use crate::interpose::symbols;
use crate::sys;
use crate::sys::guard::{self, read_u8, read_u64};
use crate::target::tables::{Relocation, Tables};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
/// R_X86_64_GLOB_DAT and R_X86_64_JUMP_SLOT of the ABI: a word with the address of a function.
const GLOBAL_DATA: u32 = 6;
const JUMP_SLOT: u32 = 7;
const PAGE: u64 = 4096;
/// No name of ours is longer.
const MOST_NAME: usize = 64;

/// One function of ours.
#[derive(Debug, Clone, Copy)]
struct Hook {
    /// Where its name is.
    name: u64,
    hash: u32,
    ours: u64,
    /// The function that it goes on to.
    real: u64,
    /// Whether the program finds that one under the name.
    is_found: bool,
}

/// All functions of ours that have a real one behind them.
#[derive(Debug)]
pub struct Hooks(Vec<Hook>);

/// What is done with the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Set,
    TakeBack,
}

impl Hooks {
    /// Looks them up. Not for signal handlers, nor while the loader's lock is held.
    pub fn find() -> Self {
        let mut own = OwnObject(None);
        // SAFETY: the callback gets the structure that lives on this stack.
        unsafe { libc::dl_iterate_phdr(Some(visit_own), (&raw mut own).cast()) };
        let Some(tables) = own.0 else {
            return Self(Vec::new());
        };
        let defined = tables.defined_symbols();
        let hooks = defined.filter_map(|index| hook(&tables, index));
        Self(hooks.collect())
    }

    /// Puts ours in the place of the real ones, in all modules that are loaded. Returns how many words were changed.
    pub fn set(&self) -> usize {
        self.visit_all(What::Set)
    }

    /// Puts the real ones back.
    pub fn take_back(&self) -> usize {
        self.visit_all(What::TakeBack)
    }

    fn visit_all(&self, what: What) -> usize {
        let mut visit = Visit {
            hooks: self,
            what,
            changed: 0,
        };
        // SAFETY: the callback gets the structure that lives on this stack.
        unsafe { libc::dl_iterate_phdr(Some(visit_module), (&raw mut visit).cast()) };
        visit.changed
    }

    fn of_name(&self, name: u64) -> Option<&Hook> {
        let hash = hash_of(name)?;
        let mut same = self.0.iter().filter(|hook| hook.hash == hash);
        same.find(|hook| is_same_text(hook.name, name))
    }
}

/// A word is about to be changed, or not.
#[derive(Debug)]
struct Visit<'a> {
    hooks: &'a Hooks,
    what: What,
    changed: usize,
}

impl Visit<'_> {
    /// Looks at one word.
    fn relocation(
        &mut self,
        tables: &Tables,
        relocation: &Relocation,
        module: &std::ops::Range<u64>,
    ) {
        if ![GLOBAL_DATA, JUMP_SLOT].contains(&relocation.kind) {
            return;
        }
        let Some((name, defined)) = tables.named(relocation.symbol) else {
            return;
        };
        let Some(hook) = self.hooks.of_name(name) else {
            return;
        };
        let Some(now) = read_u64(relocation.place) else {
            return;
        };
        // Not called yet: the word leads to the module's own linkage table, from where the loader finds what the name stands for.
        let is_unbound = relocation.kind == JUMP_SLOT && defined.is_none() && module.contains(&now);
        let new = match self.what {
            What::Set if now == hook.real || is_unbound && hook.is_found => hook.ours,
            What::TakeBack if now == hook.ours => hook.real,
            _ => return,
        };
        if Self::write(relocation.place, new) {
            self.changed += 1;
        }
    }

    /// Writes a word of a module, which is loaded and stays so meanwhile.
    fn write(place: u64, value: u64) -> bool {
        if !place.is_multiple_of(8) {
            return false;
        }
        // SAFETY: a word for the address of a function, which the functions at both have in common.
        let write = || unsafe { guard::write_u64(place, value) };
        if write() {
            return true;
        }
        // The loader has made the page read-only, and so has done with it. (One that is still writable it makes so by itself.)
        let page = place & !(PAGE - 1);
        // SAFETY: a page of data, which is then as it was.
        let is_writable = unsafe { sys::set_writable(page, PAGE, true) };
        let is_written = is_writable && write();
        if is_writable {
            // SAFETY: as above.
            unsafe { sys::set_writable(page, PAGE, false) };
        }
        is_written
    }
}

/// The tables of this library.
#[derive(Debug)]
struct OwnObject(Option<Tables>);

fn own_address() -> u64 {
    (hash_of as fn(u64) -> Option<u32> as *const ()).addr() as u64
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with an [`OwnObject`].
unsafe extern "C" fn visit_own(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says; the loader's own structure.
    let (own, info) = unsafe { (&mut *data.cast::<OwnObject>(), &*info) };
    if !range_of(info).contains(&own_address()) {
        return 0;
    }
    own.0 = tables_of(info);
    1
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a [`Visit`].
unsafe extern "C" fn visit_module(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says; the loader's own structure.
    let (visit, info) = unsafe { (&mut *data.cast::<Visit<'_>>(), &*info) };
    let module = range_of(info);
    if module.contains(&own_address()) || is_c_library(info) {
        return 0;
    }
    if let Some(tables) = tables_of(info) {
        for relocation in tables.relocations() {
            visit.relocation(&tables, &relocation, &module);
        }
    }
    0
}

/// The C library's own calls are not ours to see, as where we were preloaded.
fn is_c_library(info: &libc::dl_phdr_info) -> bool {
    if info.dlpi_name.is_null() {
        return false;
    }
    // SAFETY: the loader's own text.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    const NAMES: [&[u8]; 5] = [
        b"libc.so",
        b"libpthread.so",
        b"libdl.so",
        b"ld-linux",
        b"linux-vdso",
    ];
    NAMES.iter().any(|name| file.starts_with(name))
}

fn headers(info: &libc::dl_phdr_info) -> impl Iterator<Item = &libc::Elf64_Phdr> {
    // SAFETY: the loader's array with this many entries.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }.iter()
}

fn range_of(info: &libc::dl_phdr_info) -> std::ops::Range<u64> {
    let (mut start, mut end) = (u64::MAX, 0);
    for header in headers(info).filter(|header| header.p_type == PT_LOAD) {
        let from = info.dlpi_addr.wrapping_add(header.p_vaddr);
        start = start.min(from);
        end = end.max(from.wrapping_add(header.p_memsz));
    }
    start..end
}

fn tables_of(info: &libc::dl_phdr_info) -> Option<Tables> {
    let dynamic = headers(info).find(|header| header.p_type == PT_DYNAMIC)?;
    Tables::read(info.dlpi_addr, info.dlpi_addr.wrapping_add(dynamic.p_vaddr))
}

/// A function that we export, if a real one is behind it.
fn hook(tables: &Tables, index: u64) -> Option<Hook> {
    let (name, ours) = tables.named(index)?;
    let ours = ours?;
    let hash = hash_of(name)?;
    let text: *const std::ffi::c_char = std::ptr::with_exposed_provenance(name as usize);
    // SAFETY: a name of our own table.
    let find = |handle| unsafe { libc::dlsym(handle, text) }.addr() as u64;
    let real = find(libc::RTLD_NEXT);
    if real == 0 || real == ours || symbols::is_ours(std::ptr::without_provenance(real as usize)) {
        return None;
    }
    Some(Hook {
        name,
        hash,
        ours,
        real,
        is_found: find(libc::RTLD_DEFAULT) == real,
    })
}

fn hash_of(name: u64) -> Option<u32> {
    let mut hash = 5381_u32;
    for at in 0..MOST_NAME as u64 {
        match read_u8(name.wrapping_add(at))? {
            0 => return Some(hash),
            byte => hash = hash.wrapping_mul(33).wrapping_add(u32::from(byte)),
        }
    }
    None
}

fn is_same_text(one: u64, other: u64) -> bool {
    for at in 0..MOST_NAME as u64 {
        let bytes = (
            read_u8(one.wrapping_add(at)),
            read_u8(other.wrapping_add(at)),
        );
        match bytes {
            (Some(0), Some(0)) => return true,
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
    false
}
