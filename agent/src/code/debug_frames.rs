//! How to leave code that `.eh_frame` does not describe: by the `.debug_frame` of its file, which the loader leaves there.
//!
//! A module is read once, when a walk first comes to code of it without a description. The result stays in memory: a handler may be
//! reading it.

use std::sync::atomic::{AtomicU64, Ordering};

use rsys_unwind::debug_frame;

use crate::code::modules;
use crate::code::object::Object;
use crate::sys::{self, guard};

/// Maximum number of modules.
const MODULES_MAX: usize = 64;
/// Larger sections are not read, and no more than this in all.
const SECTION_BYTES_MAX: u64 = 64 << 20;
const BYTES_MAX: u64 = 256 << 20;
/// Sections of a file that are looked through.
const SECTIONS_MAX: u16 = 512;
const NAME: &[u8; 13] = b".debug_frame\0";
/// Of the headers of a module, by which it is known.
const IDENTITY_WORDS: u64 = 64;

/// A module that was read.
struct Place {
    /// Where it begins; 0: the place is free.
    start: AtomicU64,
    /// What its headers say; 0: it is being read.
    identity: AtomicU64,
    /// Address of its table, or 0.
    table: AtomicU64,
}

static PLACES: [Place; MODULES_MAX] = [const {
    Place {
        start: AtomicU64::new(0),
        identity: AtomicU64::new(0),
        table: AtomicU64::new(0),
    }
}; MODULES_MAX];
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The address of a table like `.eh_frame_hdr`, made of the `.debug_frame` of a module's file; 0 if it has none.
///
/// # Signal safety
/// Guarded reads and atomics; for a new module, once, what [`load`] does.
pub fn table_of(object: &Object) -> u64 {
    let identity = identity(object);
    for place in &PLACES {
        let claimed =
            place
                .start
                .compare_exchange(0, object.start, Ordering::AcqRel, Ordering::Acquire);
        match claimed {
            Ok(_) => {
                let table = load(object).unwrap_or(0);
                place.table.store(table, Ordering::Relaxed);
                place.identity.store(identity, Ordering::Release);
                if table != 0 {
                    // Who came meanwhile has noted that there is nothing.
                    modules::forget_rules();
                }
                return table;
            }
            Err(start) if start == object.start => {
                match place.identity.load(Ordering::Acquire) {
                    0 => return 0,
                    known if known == identity => return place.table.load(Ordering::Relaxed),
                    // What was there before.
                    _ => {}
                }
            }
            Err(_) => {}
        }
    }
    0
}

/// A number by which a module is known from others that are loaded to the same place.
fn identity(object: &Object) -> u64 {
    let words = (0..IDENTITY_WORDS).map(|word| object.start.wrapping_add(word.wrapping_mul(8)));
    let hash = words.fold(object.end, |hash, address| {
        let word = guard::read_u64(address).unwrap_or(0);
        (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    hash | 1
}

/// Reads the section and makes the table.
///
/// # Signal safety
/// A dozen system calls and memory of its own, once for a module.
#[cold]
#[inline(never)]
fn load(object: &Object) -> Option<u64> {
    // The program itself has no name.
    let is_program = object.path == 0 || guard::read_u8(object.path) == Some(0);
    let path = if is_program {
        c"/proc/self/exe".as_ptr()
    } else {
        std::ptr::with_exposed_provenance(object.path as usize)
    };
    let file = sys::open_at(libc::AT_FDCWD, path).ok()?;
    let table = section(file, object).and_then(|(offset, bytes)| read(file, offset, bytes, object));
    sys::close(file);
    table
}

/// Little-endian fields of a header.
fn u16_at(bytes: &[u8; 64], at: usize) -> u16 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u16::from_le_bytes(*field))
}

fn u32_at(bytes: &[u8; 64], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u32::from_le_bytes(*field))
}

fn u64_at(bytes: &[u8; 64], at: usize) -> u64 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u64::from_le_bytes(*field))
}

fn header(file: i32, offset: u64) -> Option<[u8; 64]> {
    let mut header = [0; 64];
    (sys::pread(file, &mut header, offset) == header.len()).then_some(header)
}

/// Offset and length of the section in the module's file.
fn section(file: i32, object: &Object) -> Option<(u64, u64)> {
    // Fields of Elf64_Ehdr and Elf64_Shdr by their offsets (elf(5)).
    const SHT_PROGBITS: u32 = 1;
    let elf = header(file, 0)?;
    // Another file may be there by now.
    let is_same = (0..8).all(|word: usize| {
        let at = object.start.wrapping_add(8_u64.wrapping_mul(word as u64));
        guard::read_u64(at) == Some(u64_at(&elf, word.wrapping_mul(8)))
    });
    if !is_same {
        return None;
    }
    let (table, entry) = (u64_at(&elf, 0x28), u64::from(u16_at(&elf, 0x3a)));
    let of = |number: u16| {
        header(
            file,
            table.wrapping_add(entry.wrapping_mul(u64::from(number))),
        )
    };
    let names = u64_at(&of(u16_at(&elf, 0x3e))?, 0x18);
    for number in 0..u16_at(&elf, 0x3c).min(SECTIONS_MAX) {
        let section = of(number)?;
        // Neither loaded nor compressed.
        if u32_at(&section, 4) != SHT_PROGBITS || u64_at(&section, 8) != 0 {
            continue;
        }
        let mut name = [0; NAME.len()];
        let at = names.wrapping_add(u64::from(u32_at(&section, 0)));
        if sys::pread(file, &mut name, at) == name.len() && name == *NAME {
            return Some((u64_at(&section, 0x18), u64_at(&section, 0x20)));
        }
    }
    None
}

/// Makes the table of a section, and returns its address.
fn read(file: i32, offset: u64, bytes: u64, object: &Object) -> Option<u64> {
    if bytes == 0
        || bytes > SECTION_BYTES_MAX
        || BYTES.fetch_add(bytes, Ordering::Relaxed) > BYTES_MAX
    {
        return None;
    }
    let bytes = usize::try_from(bytes).ok()?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let raw = sys::mmap(bytes, flags, -1).ok()?;
    // SAFETY: just mapped with this size, zeroed; unmapped below, after its last use.
    let section = unsafe { std::slice::from_raw_parts_mut(raw, bytes) };
    let table = (sys::pread(file, section, offset) == bytes)
        .then(|| convert(section, object))
        .flatten();
    // SAFETY: `section` is not used any more, and what was made of it is elsewhere.
    unsafe { sys::munmap(raw.cast(), bytes) };
    table
}

fn convert(section: &[u8], object: &Object) -> Option<u64> {
    let room = debug_frame::bytes_for(section)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let made = sys::mmap(room, flags, -1).ok()?;
    // SAFETY: just mapped with this size, zeroed, and not published yet.
    let out = unsafe { std::slice::from_raw_parts_mut(made, room) };
    let at = made.addr() as u64;
    let functions = debug_frame::convert(section, object.bias, at, out);
    if functions == 0 {
        // SAFETY: `out` is not used any more.
        unsafe { sys::munmap(made.cast(), room) };
        return None;
    }
    Some(at.wrapping_add(debug_frame::TABLE_OFFSET))
}
