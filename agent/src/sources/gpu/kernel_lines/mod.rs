//! Which source lines kernels came from, as the line tables of their code objects say: those of Triton's and `torch.compile`'s kernels name
//! Python files, those of programs that were compiled with `-g` or `-gline-tables-only` theirs.
//!
//! A table is read when the program loads its code object, on the thread that does: the bytes may be gone afterwards. Only what is small is read
//! ([`elf`]).

mod cursor;
mod elf;
mod table;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::events;
use crate::events::texts;
use crate::sources::gpu::kernel_lines::cursor::Cursor;
use crate::sources::gpu::kernel_lines::elf::CodeObject;
use crate::sources::gpu::kernel_lines::table::Unit;
use crate::sys::lock::Lock;
use crate::sys::text::Text;

/// Kernels of a code object that are looked up, and names that are kept.
const MOST_OF_ONE: usize = 1024;
const PLACES: usize = 4096;
const PROBES: usize = 32;
/// What is said of one name.
const TEXT_BYTES: usize = 384;

/// A kernel of the code object that is being read.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    from: u64,
    to: u64,
    name: usize,
    /// Offset of its unit in the line table.
    unit: usize,
    file: u64,
    /// 0: not found yet.
    line: u64,
}

impl Kernel {
    const NONE: Kernel = Kernel {
        from: 0,
        to: 0,
        name: 0,
        unit: 0,
        file: 0,
        line: 0,
    };
}

/// What is known of kernels of a name.
#[derive(Debug)]
struct Known {
    /// Hash of the name; 0 in a free place.
    name: AtomicU64,
    /// Key of the text.
    all: AtomicU64,
    /// Key of what the executable that was loaded last says.
    latest: AtomicU64,
    executable: AtomicU64,
    /// Only for the holder of [`BUSY`].
    text: UnsafeCell<([u8; TEXT_BYTES], usize)>,
}

// SAFETY: the text is touched by the holder of the lock alone, everything else is atomic.
unsafe impl Sync for Known {}

static KNOWN: [Known; PLACES] = [const {
    Known {
        name: AtomicU64::new(0),
        all: AtomicU64::new(0),
        latest: AtomicU64::new(0),
        executable: AtomicU64::new(0),
        text: UnsafeCell::new(([0; TEXT_BYTES], 0)),
    }
}; PLACES];

/// [`events::generation`] of the keys; 0: nothing is known.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Held while a line table is read.
static BUSY: Lock = Lock::new();

/// Only for the holder of [`BUSY`].
struct Reading(UnsafeCell<[Kernel; MOST_OF_ONE]>);

// SAFETY: see there.
unsafe impl Sync for Reading {}

static READING: Reading = Reading(UnsafeCell::new([Kernel::NONE; MOST_OF_ONE]));

fn places(hash: u64) -> impl Iterator<Item = &'static Known> {
    let home = (hash >> 20) as usize;
    (0..PROBES).filter_map(move |step| KNOWN.get(home.wrapping_add(step) % PLACES))
}

fn find(name: &[u8]) -> Option<&'static Known> {
    let generation = GENERATION.load(Ordering::Acquire);
    if generation == 0 || generation != events::generation() {
        return None;
    }
    let hash = texts::hash(name) | 1;
    places(hash)
        .map_while(|known| match known.name.load(Ordering::Acquire) {
            0 => None,
            found => Some((known, found == hash)),
        })
        .find_map(|(known, is_it)| is_it.then_some(known))
}

/// The key of the lines that kernels of this name came from, or 0. Where code objects say different things, the text has them all.
pub fn of_name(name: &[u8]) -> u64 {
    find(name).map_or(0, |known| known.all.load(Ordering::Relaxed))
}

/// The key of the line that the kernel of this name in an executable came from, or 0. Where executables say different things, valid until another one has
/// loaded such a kernel.
pub fn in_executable(executable: u64, name: &[u8]) -> u64 {
    let Some(known) = find(name) else { return 0 };
    let is_it = || known.executable.load(Ordering::Acquire) == executable;
    if !is_it() {
        return 0;
    }
    let latest = known.latest.load(Ordering::Acquire);
    if is_it() { latest } else { 0 }
}

/// An executable is about to be destroyed: the next one may have its handle.
pub fn forget(executable: u64) {
    for known in known_places() {
        let order = Ordering::Relaxed;
        // Fails where it is another's.
        known
            .executable
            .compare_exchange(executable, 0, order, order)
            .ok();
    }
}

/// Nobody reads a line table in the child of a fork.
pub fn after_fork_in_child() {
    BUSY.break_open();
}

/// The places, of which none was touched before a first line was known.
fn known_places() -> &'static [Known] {
    match GENERATION.load(Ordering::Acquire) {
        0 => &[],
        _ => &KNOWN,
    }
}

/// A code object was loaded into an executable: learns where its kernels came from.
pub fn learn(executable: u64, file: &[u8]) {
    if let Some(object) = CodeObject::new(file) {
        BUSY.with(|| {
            each(&object, |name, place| {
                note(executable, name, place);
            });
        });
    }
}

/// Reads the line tables of a code object, and calls `tell` with the name of each kernel that they have and its `file:line`. Called by the
/// holder of [`BUSY`].
fn each(object: &CodeObject<'_>, mut tell: impl FnMut(&[u8], &[u8])) {
    // SAFETY: only the holder of the lock gets here.
    let kernels = unsafe { &mut *READING.0.get() };
    let mut count = 0;
    for ((from, bytes, name), kernel) in object.functions().zip(kernels.iter_mut()) {
        *kernel = Kernel {
            from,
            to: from.saturating_add(bytes),
            name,
            ..Kernel::NONE
        };
        count += 1;
    }
    let Some(kernels) = kernels.get_mut(..count) else {
        return;
    };
    kernels.sort_unstable_by_key(|kernel| kernel.from);
    let mut rest = Cursor(object.lines);
    loop {
        let unit_at = object.lines.len() - rest.0.len();
        let Some(unit) = Unit::next(object, &mut rest) else {
            break;
        };
        // What is damaged ends its unit only.
        let _ = unit.rows(|row| {
            let after = kernels.partition_point(|kernel| kernel.from <= row.address);
            let kernel = after.checked_sub(1).and_then(|at| kernels.get_mut(at));
            if let Some(kernel) = kernel
                && kernel.line == 0
                && row.address < kernel.to
            {
                (kernel.unit, kernel.file, kernel.line) = (unit_at, row.file, row.line);
            }
        });
    }
    // Lists of files are long, and neighbours mostly come from the same one.
    let mut last = None;
    for kernel in kernels.iter().filter(|kernel| kernel.line != 0) {
        let mut buffer = [0; TEXT_BYTES / 2];
        let file = (kernel.unit, kernel.file);
        let parts = match last {
            Some((known, parts)) if known == file => parts,
            _ => parts_of(object, file),
        };
        last = Some((file, parts));
        if let Some(name) = object.name(kernel.name)
            && let Some(place) = parts.and_then(|parts| place(parts, kernel.line, &mut buffer))
        {
            tell(name, place);
        }
    }
}

/// The path of a file of a unit, as [`Unit::file`] has it.
fn parts_of<'a>(object: &'a CodeObject<'a>, (unit, file): (usize, u64)) -> Option<[&'a [u8]; 3]> {
    let mut rest = Cursor(object.lines.get(unit..)?);
    Unit::next(object, &mut rest)?.file(file)
}

/// `file:line`; `None` if it does not fit.
fn place<'a>(parts: [&[u8]; 3], line: u64, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let room = buffer.len();
    let mut text = Text::new(buffer);
    // From the last part that is absolute on.
    let is_absolute = |part: &&[u8]| part.first() == Some(&b'/');
    let from = parts.iter().rposition(is_absolute).unwrap_or(0);
    for (at, part) in parts.iter().enumerate().skip(from) {
        text.put(part);
        if at + 1 < parts.len() && !part.is_empty() {
            text.put(b"/");
        }
    }
    text.put(b":");
    text.number(line);
    Some(text.into_bytes()).filter(|text| text.len() < room)
}

/// Keeps what an executable says of a kernel. Called by the holder of [`BUSY`].
fn note(executable: u64, name: &[u8], said: &[u8]) -> Option<()> {
    let generation = events::generation();
    if GENERATION.load(Ordering::Relaxed) != generation {
        for known in known_places() {
            known.name.store(0, Ordering::Relaxed);
        }
        GENERATION.store(generation, Ordering::Release);
    }
    let hash = texts::hash(name) | 1;
    let is_fit = |name: u64| name == 0 || name == hash;
    let known = places(hash).find(|known| is_fit(known.name.load(Ordering::Relaxed)))?;
    // SAFETY: only the holder of the lock gets here.
    let (kept, used) = unsafe { &mut *known.text.get() };
    if known.name.load(Ordering::Relaxed) == 0 {
        *used = 0;
    }
    let old = kept.get(..*used)?;
    if old == said {
        known.executable.store(executable, Ordering::Release);
        return Some(());
    }
    let latest = events::text(said);
    let mut buffer = [0; TEXT_BYTES];
    let all = join(old, said, &mut buffer);
    if all != old {
        let key = if all == said {
            latest
        } else {
            events::text(all)
        };
        kept.get_mut(..all.len())?.copy_from_slice(all);
        *used = all.len();
        known.all.store(key, Ordering::Relaxed);
    }
    // `in_executable` reads the executable before and after the line, and takes neither if it changed.
    known.executable.store(0, Ordering::Release);
    known.latest.store(latest, Ordering::Release);
    known.executable.store(executable, Ordering::Release);
    known.name.store(hash, Ordering::Release);
    Some(())
}

/// Both texts, unless the first has the second already, as far as there is room for whole ones.
fn join<'a>(old: &[u8], said: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    const OR: &[u8] = b" or ";
    const MORE: &[u8] = b" or others";
    let has = |part: &[u8]| {
        old.windows(part.len())
            .enumerate()
            .any(|(at, window)| window == part && is_whole(old, at, part.len(), OR))
    };
    let room = buffer.len();
    let mut text = Text::new(buffer);
    text.put(old);
    if old.is_empty() {
        text.put(said);
    } else if !has(said) && !old.ends_with(MORE) {
        if old.len() + OR.len() + said.len() + MORE.len() <= room {
            text.put(OR);
            text.put(said);
        } else {
            text.put(MORE);
        }
    }
    text.into_bytes()
}

/// Whether a part of a text stands between the separators, or at its ends.
fn is_whole(text: &[u8], at: usize, length: usize, separator: &[u8]) -> bool {
    let before = text.get(..at).unwrap_or(&[]);
    let after = text.get(at + length..).unwrap_or(&[]);
    (before.is_empty() || before.ends_with(separator))
        && (after.is_empty() || after.starts_with(separator))
}

#[cfg(test)]
mod tests;
