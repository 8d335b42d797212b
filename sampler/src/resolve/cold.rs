//! The cold part of a function in a file without symbols.
//!
//! Compilers put the code of a function that hardly ever runs far away from it, under a name of its own (`NAME.cold`), which stripped files
//! do not keep. Of most functions nobody misses it. The one that runs Python frames is different: in a build with tail calls it is its
//! cold part that calls everything else. It is known by the jumps of the function that lead into the middle of another one.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Architecture, LittleEndian, Object, ObjectSection, ObjectSymbol, ReadCache};

use super::unwind_table::Rows;
use crate::os::contains;

/// Larger tables of functions are not read.
const TABLE_BYTES_MAX: u64 = 64 << 20;
/// So is larger code.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;
/// What looks like a jump by chance hits no function twice.
const JUMPS_MIN: u32 = 2;

/// The addresses of the cold part of the function that `path`, an ELF file, exports under `name`. `None` when it has none.
pub(super) fn part(path: &Path, name: &str) -> Option<Range<u64>> {
    let cache = ReadCache::new(File::open(path).ok()?);
    // Names that are read from the file one by one cost two system calls each, and a compiler exports 30,000. Their symbols are not read before
    // it is clear that the name is there.
    let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
    let sections = header.sections(LittleEndian, &cache).ok()?;
    let (_, names) = sections.section_by_name(LittleEndian, b".dynstr")?;
    if !has_name(names.data(LittleEndian, &cache).ok()?, name) {
        return None;
    }
    let file = object::File::parse(&cache).ok()?;
    let function = file
        .dynamic_symbols()
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
    let range = function.address()..function.address().checked_add(function.size())?;
    let section = file.section_by_index(function.section_index()?).ok()?;
    let bytes = function.size();
    let code = (bytes <= FUNCTION_BYTES_MAX)
        .then(|| section.data_range(range.start, bytes).ok().flatten())
        .flatten()?;
    let header = file.section_by_name(".eh_frame_hdr")?;
    let table = (header.size() <= TABLE_BYTES_MAX)
        .then(|| header.data().ok())
        .flatten()?;
    let rows = Rows::new(table, header.address())?;
    let starts: Vec<u64> = (0..rows.count())
        .filter_map(|row| Some(rows.get(row)?.0))
        .collect();
    let targets = jumps(code, range.start, file.architecture());
    hit(
        &starts,
        targets.into_iter().filter(|target| !range.contains(target)),
    )
}

/// Whether a table of names that end with NUL has this one, alone or as the end of a longer one, as linkers share them.
fn has_name(names: &[u8], name: &str) -> bool {
    contains(names, format!("{name}\0").as_bytes()) || names.ends_with(name.as_bytes())
}

/// The function into whose middle most of the jumps lead.
fn hit(starts: &[u64], targets: impl Iterator<Item = u64>) -> Option<Range<u64>> {
    let mut hits: HashMap<usize, (u32, bool)> = HashMap::new();
    for target in targets {
        let after = starts.partition_point(|start| *start <= target);
        // What lies behind the last one has no end that is known.
        if let Some(number) = after.checked_sub(1).filter(|_| after < starts.len()) {
            let (count, inside) = hits.entry(number).or_default();
            *count += 1;
            *inside |= starts[number] != target;
        }
    }
    let best = hits
        .into_iter()
        .filter(|(_, (count, inside))| *count >= JUMPS_MIN && *inside);
    let (number, _) = best.max_by_key(|(number, (count, _))| (*count, *number))?;
    Some(starts[number]..starts[number + 1])
}

/// Where the direct jumps in `code`, which is at `address`, lead to. On x86-64 instructions have no fixed places, so what only looks like
/// one is among them.
fn jumps(code: &[u8], address: u64, architecture: Architecture) -> Vec<u64> {
    match architecture {
        Architecture::X86_64 => (0..code.len())
            .filter_map(|at| {
                let (length, distance) = match code[at..] {
                    [0xe9, a, b, c, d, ..] => (5, [a, b, c, d]),
                    [0x0f, 0x80..=0x8f, a, b, c, d, ..] => (6, [a, b, c, d]),
                    _ => return None,
                };
                let next = address.wrapping_add(at as u64).wrapping_add(length);
                Some(next.wrapping_add_signed(i64::from(i32::from_le_bytes(distance))))
            })
            .collect(),
        Architecture::Aarch64 => code
            .chunks_exact(4)
            .enumerate()
            .filter_map(|(number, bytes)| {
                let word = u32::from_le_bytes(*bytes.first_chunk()?);
                // `b`; `b.cond`; `cbz` and `cbnz`; `tbz` and `tbnz`: the distance in instructions, from which bit, of how many bits.
                let (from, bits) = if word >> 26 == 0b00_0101 {
                    (0, 26)
                } else if word >> 24 == 0b0101_0100 || word >> 25 & 0x3f == 0b01_1010 {
                    (5, 19)
                } else if word >> 25 & 0x3f == 0b01_1011 {
                    (5, 14)
                } else {
                    return None;
                };
                let top = 32 - bits;
                let distance = ((word >> from << top).cast_signed() >> top) * 4;
                let here = address.wrapping_add(number as u64 * 4);
                Some(here.wrapping_add_signed(i64::from(distance)))
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_read() {
        let x86 = [
            0x90, 0xe9, 0x10, 0, 0, 0, 0x0f, 0x84, 0xf0, 0xff, 0xff, 0xff, 0x0f, 0x05,
        ];
        assert_eq!(
            jumps(&x86, 0x1000, Architecture::X86_64),
            [0x1016, 0x1000 + 12 - 16]
        );
        let words: [u32; 6] = [
            0x1400_0004, // b +16
            0x17ff_ffff, // b -4
            0x5400_0080, // b.eq +16
            0xb4ff_ffe0, // cbz -4
            0x3607_ffe0, // tbz -4
            0x9400_0004, // bl, no jump
        ];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(
            jumps(&code, 0x1000, Architecture::Aarch64),
            [0x1010, 0x1000, 0x1018, 0x1008, 0x100c]
        );
        assert!(jumps(&code, 0x1000, Architecture::Riscv64).is_empty());
    }

    #[test]
    fn a_name_is_found_among_others() {
        let names = b"\0printf\0an_old_name\0last";
        for (name, is_there) in [
            ("printf", true),
            ("name", true),
            ("last", true),
            ("print", false),
            ("old", false),
        ] {
            assert_eq!(has_name(names, name), is_there, "{name}");
        }
    }

    #[test]
    fn the_part_is_what_is_jumped_into() {
        let starts = [0x100, 0x200, 0x300, 0x400];
        let part = |targets: &[u64]| hit(&starts, targets.iter().copied());
        assert_eq!(part(&[0x210, 0x210, 0x310]), Some(0x200..0x300));
        // Tail calls go to the begin of a function, however many; chance hits one once.
        assert_eq!(part(&[0x300, 0x300, 0x300, 0x210]), None);
        assert_eq!(part(&[0x50, 0x60, 0x410, 0x420]), None);
    }
}
