//! Functions in the symbol tables of loaded objects: found without `dlsym`, which takes the loader's lock and clears the program's pending `dlerror`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::guard::copy_c_string;
use crate::target::tables::Tables;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
/// No symbol has this name.
const NO_NAME: &CStr = c"rsys has no such function";
/// How many objects there were at the first search.
static AT_START: AtomicU32 = AtomicU32::new(0);
/// Room for the path of an object.
pub const MOST_PATH: usize = 1024;

/// Which objects are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// All of them.
    Anywhere,
    /// Those behind ours.
    Behind,
    /// Those behind ours that were there at the first such search: none that may be unloaded.
    BehindAtStart,
    /// The one with code at this address.
    At(u64),
}

/// A search through the loaded objects.
#[derive(Debug)]
pub struct Search<'a> {
    name: &'a CStr,
    place: Where,
    /// Whether our own object was met.
    behind: bool,
    /// Objects that were met.
    met: u32,
    /// The address, or 0.
    pub found: u64,
    /// The path of the object with it.
    pub path: [u8; MOST_PATH],
}

/// The function of this name in the first library behind us that has it, or null.
#[unsafe(link_section = "rsys_start")]
pub fn behind(name: &CStr) -> *mut () {
    pointer(search(name, Where::Behind).found)
}

/// [`behind`], but in none of the libraries that the program opens for itself.
#[unsafe(link_section = "rsys_start")]
pub fn behind_at_start(name: &CStr) -> *mut () {
    if AT_START.load(Ordering::Relaxed) == 0 {
        AT_START.store(search(NO_NAME, Where::Behind).met, Ordering::Relaxed);
    }
    pointer(search(name, Where::BehindAtStart).found)
}

/// An address as a pointer.
pub fn pointer(address: u64) -> *mut () {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// An address in this library.
pub fn here() -> u64 {
    (search as fn(&'static CStr, Where) -> Search<'static> as *const ()).addr() as u64
}

/// Searches the objects in the loader's order, which for libraries of the global scope is the order of `RTLD_NEXT`.
#[unsafe(link_section = "rsys_start")]
pub fn search(name: &CStr, place: Where) -> Search<'_> {
    let mut search = Search {
        name,
        place,
        behind: false,
        met: 0,
        found: 0,
        path: [0; MOST_PATH],
    };
    // SAFETY: the callback gets the search that lives on this stack.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with what its caller here passes.
#[unsafe(link_section = "rsys_start")]
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: as `search` passes it; the loader's own structure.
    let (search, info) = unsafe { (&mut *data.cast::<Search<'_>>(), &*info) };
    let holds = |address: u64| {
        headers(info).any(|header| {
            header.p_type == PT_LOAD
                && address.wrapping_sub(info.dlpi_addr.wrapping_add(header.p_vaddr))
                    < header.p_memsz
        })
    };
    search.met = search.met.wrapping_add(1);
    let wanted = match search.place {
        Where::Anywhere => true,
        // The rest came later.
        Where::BehindAtStart if search.met > AT_START.load(Ordering::Relaxed) => return 1,
        Where::Behind | Where::BehindAtStart if search.behind => true,
        Where::Behind | Where::BehindAtStart => {
            search.behind = holds(here());
            false
        }
        Where::At(address) => holds(address),
    };
    if !wanted {
        return 0;
    }
    let dynamic = headers(info).find(|header| header.p_type == PT_DYNAMIC);
    let found = dynamic.and_then(|header| {
        let table = Tables::read(info.dlpi_addr, info.dlpi_addr.wrapping_add(header.p_vaddr))?;
        table.find(search.name)
    });
    let Some(found) = found else { return 0 };
    search.found = found;
    let name: *const c_char = info.dlpi_name;
    copy_c_string(name.addr() as u64, &mut search.path[..MOST_PATH - 1]);
    1
}

fn headers(info: &libc::dl_phdr_info) -> impl Iterator<Item = &libc::Elf64_Phdr> {
    // SAFETY: the loader's array with this many entries.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }.iter()
}
