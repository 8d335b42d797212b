//! The modules of the process as a walk sees them, and the reports to the sampler of those that it does not know yet.
//!
//! The sampler learns of a module when the first stack leads into it: the walk asks for it, and the handler writes a module record in
//! front of the sample.

use rsys_unwind::{ModuleTables, Modules};
use rsys_wire::record::{self, Module};
use rsys_wire::ring::Producer;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::code::debug_frames;
use crate::code::jit;
use crate::code::modules;
use crate::code::object::Object;
use crate::sampling::python;
use crate::sys;
use crate::sys::guard;

/// How many modules one stack may show for the first time.
pub const MOST_NEW: usize = 64;

/// How many modules the process-wide table of reported ones holds.
pub const REPORTED: usize = 4096;

pub const PAGE_BITS: u32 = 12;

pub const START_BITS: u32 = 48 - PAGE_BITS;

/// Modules that were reported: generation above, page of the start below. Open addressing, never
/// emptied; what belongs to an older generation is overwritten.
pub static TABLE: [AtomicU64; REPORTED] = [const { AtomicU64::new(0) }; REPORTED];

pub fn key(start: u64, generation: u32) -> u64 {
    u64::from(generation) << START_BITS | (start >> PAGE_BITS & ((1 << START_BITS) - 1))
}

/// Set when a module could not be reported while its rules were cached already: from then on the
/// modules of every stack are looked up.
pub static UNREPORTED: AtomicBool = AtomicBool::new(false);

/// Whether the cache of rules may hide a module that was not reported to the sampler.
///
/// # Signal safety
/// One relaxed load.
#[inline]
pub fn some_unreported() -> bool {
    UNREPORTED.load(Ordering::Relaxed)
}

/// The place of a key, and whether it stands there already.
pub fn place(key: u64) -> Option<(&'static AtomicU64, bool)> {
    let home = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    for step in 0..64_usize {
        let entry = TABLE.get(home.wrapping_add(step) % REPORTED)?;
        let value = entry.load(Ordering::Relaxed);
        if value == key {
            return Some((entry, true));
        }
        if value >> START_BITS != key >> START_BITS {
            return Some((entry, false));
        }
    }
    None
}

/// The modules of the process as one walk sees them. It notes those that the sampler has not been
/// told of, in memory of the slot.
#[derive(Debug)]
pub struct Seen {
    rules: u32,
    libraries: u32,
    new: *mut Object,
    count: Cell<usize>,
}

impl Seen {
    /// For one walk; `new` must have room for [`MOST_NEW`] objects and belong to the caller.
    #[inline]
    pub fn new(new: *mut Object) -> Self {
        Seen {
            rules: modules::rules_generation(),
            libraries: modules::libraries_generation(),
            new,
            count: Cell::new(0),
        }
    }

    /// Notes the object of an address that no walk asked for.
    ///
    /// # Signal safety
    /// As [`modules::find`].
    pub fn note(&self, pc: u64) {
        if let Some(object) = modules::find(pc) {
            self.remember(&object);
        }
    }

    fn remember(&self, object: &Object) {
        let reported = place(key(object.start, self.libraries)).is_some_and(|(_, there)| there);
        let count = self.count.get();
        if reported {
            return;
        }
        for index in 0..count {
            // SAFETY: below `count`, so written before; see `new`.
            if unsafe { (*self.new.wrapping_add(index)).start } == object.start {
                return;
            }
        }
        if count < MOST_NEW {
            // SAFETY: `new` has room for MOST_NEW.
            unsafe { self.new.wrapping_add(count).write(*object) };
        }
        self.count.set(count.wrapping_add(1));
    }

    /// Writes a record for each new module. What cannot be written now is noted again from later
    /// stacks; see [`some_unreported`].
    ///
    /// # Signal safety
    /// Guarded reads of the module's headers, stores into the ring.
    #[inline]
    pub fn report(&self, ring: &Producer<'_>, time_ns: u64) {
        let count = self.count.get();
        if count != 0 {
            self.report_new(ring, time_ns, count);
        }
    }

    /// The same at the present time, which is looked at only if there are any.
    #[inline]
    pub fn report_now(&self, ring: &Producer<'_>) {
        let count = self.count.get();
        if count != 0 {
            self.report_new(ring, sys::boottime_ns(), count);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_new(&self, ring: &Producer<'_>, time_ns: u64, count: usize) {
        let mut complete = count <= MOST_NEW;
        for index in 0..count.min(MOST_NEW) {
            // SAFETY: below `count`.
            let object = unsafe { *self.new.wrapping_add(index) };
            let key = key(object.start, self.libraries);
            match place(key) {
                Some((_, true)) => {}
                Some((entry, false)) if report(ring, time_ns, &object) => {
                    entry.store(key, Ordering::Relaxed);
                }
                // A full neighbourhood: reported again and again, which costs but loses nothing.
                None => complete &= report(ring, time_ns, &object),
                Some(_) => complete = false,
            }
        }
        if !complete {
            UNREPORTED.store(true, Ordering::Relaxed);
        }
    }
}

impl Modules for Seen {
    #[inline]
    fn find(&self, pc: u64) -> Option<ModuleTables> {
        let Some(object) = modules::find(pc) else {
            return jit::find(pc);
        };
        self.remember(&object);
        if object.eh_frame_hdr == 0
            && let Some(registered) = jit::find(pc)
        {
            return Some(registered);
        }
        Some(ModuleTables {
            range: object.start..object.end,
            eh_frame_hdr: object.eh_frame_hdr,
            eh_frame: 0,
        })
    }

    #[inline]
    fn generation(&self) -> u32 {
        self.rules
    }

    fn more_tables(&self, pc: u64) -> u64 {
        modules::find(pc).map_or(0, |object| debug_frames::table_of(&object))
    }
}

pub const MOST_PATH: usize = 1024;

pub const MOST_BUILD_ID: usize = 32;

pub fn report(ring: &Producer<'_>, time_ns: u64, object: &Object) -> bool {
    // Each with a stack frame of its own: a program's alternate stack may be small.
    report_module(ring, time_ns, object) && python::inspect(ring, time_ns, object)
}

#[inline(never)]
pub fn report_module(ring: &Producer<'_>, time_ns: u64, object: &Object) -> bool {
    let mut path = [0_u8; MOST_PATH];
    let path_bytes = guard::copy_c_string(object.path, &mut path);
    let mut build_id = [0_u8; MOST_BUILD_ID];
    let build_id_bytes = build_id_of(object, &mut build_id).unwrap_or(0);
    record::put_module(
        ring,
        &Module {
            time_ns,
            start: object.start,
            end: object.end,
            bias: object.bias,
            build_id: build_id.get(..build_id_bytes).unwrap_or(&[]),
            path: path.get(..path_bytes).unwrap_or(&[]),
        },
    )
}

/// Copies the GNU build-id out of the mapped notes; returns its length.
pub fn build_id_of(object: &Object, buffer: &mut [u8; MOST_BUILD_ID]) -> Option<usize> {
    const PT_NOTE: u32 = 4;
    const NT_GNU_BUILD_ID: u32 = 3;
    const GNU: u32 = u32::from_le_bytes(*b"GNU\0");
    // Fields of Elf64_Ehdr and Elf64_Phdr by their offsets (elf(5)).
    let header = object.start;
    if guard::read_u32(header)? != u32::from_le_bytes(*b"\x7fELF") {
        return None;
    }
    let table = header.wrapping_add(guard::read_u64(header.wrapping_add(0x20))?);
    let entry_bytes = u64::from(guard::read_u16(header.wrapping_add(0x36))?);
    let entries = u64::from(guard::read_u16(header.wrapping_add(0x38))?.min(64));
    for entry in (0..entries).map(|n| table.wrapping_add(n.wrapping_mul(entry_bytes))) {
        if guard::read_u32(entry)? != PT_NOTE {
            continue;
        }
        let mut note = object
            .bias
            .wrapping_add(guard::read_u64(entry.wrapping_add(0x10))?);
        let bytes = guard::read_u64(entry.wrapping_add(0x28))?.min(4096);
        let end = note.wrapping_add(bytes);
        // At most a hundred notes: each is twelve bytes or more.
        for _ in 0..100 {
            if note.wrapping_add(12) > end {
                break;
            }
            let name_bytes = guard::read_u32(note)?;
            let value_bytes = guard::read_u32(note.wrapping_add(4))?;
            let kind = guard::read_u32(note.wrapping_add(8))?;
            let name = note.wrapping_add(12);
            let value = name.wrapping_add(u64::from(name_bytes).wrapping_add(3) & !3);
            if kind == NT_GNU_BUILD_ID && name_bytes == 4 && guard::read_u32(name)? == GNU {
                let length = (value_bytes as usize).min(MOST_BUILD_ID);
                for (offset, to) in buffer.iter_mut().take(length).enumerate() {
                    *to = guard::read_u8(value.wrapping_add(offset as u64))?;
                }
                return Some(length);
            }
            note = value.wrapping_add(u64::from(value_bytes).wrapping_add(3) & !3);
        }
    }
    None
}
