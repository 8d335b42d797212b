//! Memory and modules of the test process itself.
#![allow(dead_code)] // Every test file uses its own part.

use std::ffi::c_void;
use std::ptr;

use rsys_unwind::{EXACT, FLAGS, Memory, ModuleTables, Modules, RuleCache, RuleSlot, SCANNED};

/// Guarded reads of this process: the kernel checks each one.
#[derive(Clone, Copy)]
pub struct OwnMemory;

impl Memory for OwnMemory {
    fn read_u64(&self, address: u64) -> Option<u64> {
        let mut word = 0_u64;
        let local = libc::iovec {
            iov_base: ptr::from_mut(&mut word).cast(),
            iov_len: 8,
        };
        let remote = libc::iovec {
            iov_base: ptr::without_provenance_mut(address as usize),
            iov_len: 8,
        };
        // SAFETY: the kernel writes eight bytes to `word` at most, and checks the remote side.
        let count = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        match count {
            8 => Some(word),
            // SAFETY: the C library's own errno.
            -1 if unsafe { *libc::__errno_location() } == libc::ENOSYS => through_a_pipe(address),
            _ => None,
        }
    }
}

/// Reads where `process_vm_readv` is not to be had, as under qemu.
fn through_a_pipe(address: u64) -> Option<u64> {
    let mut ends = [0; 2];
    let mut word = 0_u64;
    // SAFETY: the kernel checks what it reads from `address`, and writes to `ends` and `word` what they have room for.
    unsafe {
        if libc::pipe(ends.as_mut_ptr()) != 0 {
            return None;
        }
        let from = ptr::without_provenance(address as usize);
        let passed = libc::write(ends[1], from, 8) == 8
            && libc::read(ends[0], ptr::from_mut(&mut word).cast(), 8) == 8;
        libc::close(ends[0]);
        libc::close(ends[1]);
        passed.then_some(word)
    }
}

/// Unguarded reads of this process, for stacks and tables that are known to be sound.
#[derive(Clone, Copy)]
pub struct DirectMemory;

impl DirectMemory {
    fn read<T: Copy>(address: u64) -> Option<T> {
        if !(0x1000..1 << 47).contains(&address) {
            return None;
        }
        // SAFETY: the tests that use this reader walk their own sound stack, which leads to mapped memory only.
        Some(unsafe { ptr::with_exposed_provenance::<T>(address as usize).read_unaligned() })
    }
}

impl Memory for DirectMemory {
    #[inline(always)]
    fn read_u64(&self, address: u64) -> Option<u64> {
        Self::read(address)
    }
    #[inline(always)]
    fn read_u32(&self, address: u64) -> Option<u32> {
        Self::read(address)
    }
    #[inline(always)]
    fn read_u16(&self, address: u64) -> Option<u16> {
        Self::read(address)
    }
    #[inline(always)]
    fn read_u8(&self, address: u64) -> Option<u8> {
        Self::read(address)
    }
}

/// `struct dl_find_object` of glibc 2.35.
#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: *mut c_void,
    map_end: *mut c_void,
    link_map: *mut c_void,
    eh_frame: *mut c_void,
    reserved: [u64; 7],
}

unsafe extern "C" {
    fn _dl_find_object(pc: *mut c_void, result: *mut DlFindObject) -> i32;
}

/// The modules of this process, as glibc knows them.
#[derive(Clone, Copy)]
pub struct OwnModules;

impl Modules for OwnModules {
    #[inline]
    fn find(&self, pc: u64) -> Option<ModuleTables> {
        let mut found = DlFindObject {
            flags: 0,
            map_start: ptr::null_mut(),
            map_end: ptr::null_mut(),
            link_map: ptr::null_mut(),
            eh_frame: ptr::null_mut(),
            reserved: [0; 7],
        };
        // SAFETY: takes any address, and fills in the structure that it defines.
        let status =
            unsafe { _dl_find_object(ptr::without_provenance_mut(pc as usize), &mut found) };
        (status == 0).then(|| ModuleTables {
            range: found.map_start.addr() as u64..found.map_end.addr() as u64,
            eh_frame_hdr: found.eh_frame.addr() as u64,
            eh_frame: 0,
        })
    }

    fn generation(&self) -> u32 {
        1
    }
}

/// A cache that lives as long as the test process.
pub fn cache(slots: usize) -> RuleCache<'static> {
    let slots: Vec<RuleSlot> = (0..slots).map(|_| RuleSlot::new()).collect();
    RuleCache::new(Box::leak(slots.into_boxed_slice())).expect("a power of two")
}

/// The address in a frame word.
pub fn pc(word: u64) -> u64 {
    word & !FLAGS
}

/// Frame words for a message.
pub fn show(words: &[u64]) -> String {
    let texts: Vec<String> = words
        .iter()
        .map(|word| {
            format!(
                "{:#x}{}{}",
                pc(*word),
                if word & EXACT != 0 { "!" } else { "" },
                if word & SCANNED != 0 { "?" } else { "" }
            )
        })
        .collect();
    texts.join(" ")
}

/// The loaded objects in the form that framehop needs.
#[cfg(feature = "framehop")]
pub fn framehop_modules() -> Vec<rsys_unwind::FramehopModule> {
    let mut modules = Vec::new();
    // SAFETY: the callback gets the vector, for the duration of the call.
    unsafe { libc::dl_iterate_phdr(Some(add_module), ptr::from_mut(&mut modules).cast()) };
    modules
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a list of modules.
#[cfg(feature = "framehop")]
unsafe extern "C" fn add_module(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    modules: *mut c_void,
) -> i32 {
    // SAFETY: the loader describes a loaded object; it stays loaded, since the tests unload none.
    unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let loads = || {
            headers
                .iter()
                .filter(|header| header.p_type == libc::PT_LOAD)
        };
        let Some(table) = headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)
        else {
            return 0;
        };
        let slice = |start: u64, end: u64| {
            std::slice::from_raw_parts(
                ptr::with_exposed_provenance::<u8>(start as usize),
                (end - start) as usize,
            )
        };
        let base = info.dlpi_addr;
        let hdr = base + table.p_vaddr;
        let start = loads().map(|load| load.p_vaddr).min().unwrap_or(0) + base;
        let end = loads()
            .map(|load| load.p_vaddr + load.p_memsz)
            .max()
            .unwrap_or(0)
            + base;
        // The header's second field is the distance of .eh_frame from itself (pcrel sdata4).
        let distance = ptr::with_exposed_provenance::<i32>((hdr + 4) as usize).read_unaligned();
        let eh_frame = (hdr + 4).wrapping_add_signed(i64::from(distance));
        let eh_frame_end = loads()
            .map(|load| base + load.p_vaddr..base + load.p_vaddr + load.p_filesz)
            .find(|load| load.contains(&eh_frame))
            .map_or(eh_frame, |load| load.end);
        (*modules.cast::<Vec<rsys_unwind::FramehopModule>>()).push(rsys_unwind::FramehopModule {
            range: start..end,
            eh_frame_hdr_address: hdr,
            eh_frame_hdr: slice(hdr, hdr + table.p_memsz),
            eh_frame_address: eh_frame,
            eh_frame: slice(eh_frame, eh_frame_end),
        });
    }
    0
}
