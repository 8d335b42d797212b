//! The modules of another process, from its map and the ELF headers in its memory.

use std::ops::Range;

use rsys_unwind::ModuleTables;

/// Bytes at the start of a module in which its program headers are.
const HEADER_BYTES: usize = 4096;
/// More notes are not looked at.
const NOTE_BYTES_MAX: u64 = 4096;
/// More modules than this are not believed.
const MODULES_MAX: usize = 1 << 14;

/// A loaded object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its addresses.
    pub range: Range<u64>,
    /// Address minus address in the file.
    pub bias: u64,
    /// Address of `.eh_frame_hdr`, 0 when it has none.
    pub eh_frame_hdr: u64,
    /// Its build-id, empty when it has none.
    pub build_id: Vec<u8>,
    /// Its path, or `[vdso]`.
    pub path: String,
}

impl Module {
    /// What a walk needs of it.
    #[must_use]
    pub fn tables(&self) -> ModuleTables {
        ModuleTables {
            range: self.range.clone(),
            eh_frame_hdr: self.eh_frame_hdr,
            eh_frame: 0,
        }
    }
}

/// Reads the modules out of the text of `/proc/PID/maps`, by start. `read` fills a buffer from an
/// address and says how many bytes it got.
pub fn modules(maps: &str, mut read: impl FnMut(u64, &mut [u8]) -> usize) -> Vec<Module> {
    let mut found = Vec::new();
    for area in areas(maps).into_iter().filter(|area| area.has_code) {
        if found.len() >= MODULES_MAX {
            break;
        }
        found.extend(module(&area, &mut read));
    }
    found.sort_by_key(|module: &Module| module.range.start);
    found
}

/// The mappings of one file, from its first byte on.
#[derive(Debug)]
struct Area<'a> {
    range: Range<u64>,
    path: &'a str,
    has_code: bool,
}

fn areas(maps: &str) -> Vec<Area<'_>> {
    let mut areas: Vec<Area<'_>> = Vec::new();
    for (range, permissions, offset, path) in maps.lines().filter_map(mapping) {
        if !path.starts_with('/') && path != "[vdso]" {
            continue;
        }
        let has_code = permissions.as_bytes().get(2) == Some(&b'x');
        match areas.last_mut().filter(|area| area.path == path) {
            Some(area) if offset != 0 => {
                area.range.end = range.end;
                area.has_code |= has_code;
            }
            // What does not begin with the file's first byte has no headers that we could find.
            _ if offset == 0 => areas.push(Area {
                range,
                path,
                has_code,
            }),
            _ => {}
        }
    }
    areas
}

/// Addresses, permissions, offset and path of one line.
fn mapping(line: &str) -> Option<(Range<u64>, &str, u64, &str)> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let mut parts = rest.splitn(5, ' ');
    let permissions = parts.next()?;
    let offset = number(parts.next()?)?;
    let path = parts.nth(2)?.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Some((number(start)?..number(end)?, permissions, offset, path))
}

/// Little-endian fields of a header, by their offsets.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..offset.checked_add(N)?)?.try_into().ok()
    }

    fn u16(&self, offset: usize) -> Option<u16> {
        self.bytes(offset).map(u16::from_le_bytes)
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        self.bytes(offset).map(u32::from_le_bytes)
    }

    fn u64(&self, offset: usize) -> Option<u64> {
        self.bytes(offset).map(u64::from_le_bytes)
    }
}

fn module(area: &Area<'_>, read: &mut impl FnMut(u64, &mut [u8]) -> usize) -> Option<Module> {
    const PT_LOAD: u32 = 1;
    const PT_NOTE: u32 = 4;
    const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
    const PAGE: u64 = 4096;
    let mut header = [0; HEADER_BYTES];
    let length = read(area.range.start, &mut header);
    let fields = Fields(header.get(..length)?);
    if fields.bytes(0)? != *b"\x7fELF\x02" {
        return None;
    }
    // Fields of Elf64_Ehdr and Elf64_Phdr (elf(5)).
    let table = usize::try_from(fields.u64(0x20)?).ok()?;
    let entry_bytes = usize::from(fields.u16(0x36)?);
    let entries = usize::from(fields.u16(0x38)?);
    let mut bias = None;
    let mut eh_frame_hdr = None;
    let mut notes = Vec::new();
    for entry in (0..entries).map(|n| table.saturating_add(n * entry_bytes)) {
        let Some(kind) = fields.u32(entry) else { break };
        let offset = fields.u64(entry + 0x08)?;
        let address = fields.u64(entry + 0x10)?;
        match kind {
            PT_LOAD if offset < PAGE && bias.is_none() => {
                bias = Some(area.range.start.wrapping_sub(address & !(PAGE - 1)));
            }
            PT_NOTE => notes.push((address, fields.u64(entry + 0x28)?)),
            PT_GNU_EH_FRAME => eh_frame_hdr = Some(address),
            _ => {}
        }
    }
    let bias = bias?;
    let build_id = notes
        .into_iter()
        .find_map(|(address, bytes)| {
            let mut note = vec![0; usize::try_from(bytes.min(NOTE_BYTES_MAX)).ok()?];
            let length = read(bias.wrapping_add(address), &mut note);
            build_id(note.get(..length)?)
        })
        .unwrap_or_default();
    Some(Module {
        range: area.range.clone(),
        bias,
        eh_frame_hdr: eh_frame_hdr.map_or(0, |address| bias.wrapping_add(address)),
        build_id,
        path: area.path.to_owned(),
    })
}

/// The GNU build-id among the notes of a segment.
fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let fields = Fields(notes);
    let mut at = 0_usize;
    loop {
        let name_bytes = fields.u32(at)? as usize;
        let value_bytes = fields.u32(at + 4)? as usize;
        let kind = fields.u32(at + 8)?;
        let name = at + 12;
        let value = name.checked_add(name_bytes)?.checked_add(3)? & !3;
        let end = value.checked_add(value_bytes)?;
        if kind == NT_GNU_BUILD_ID && fields.bytes(name) == Some(*b"GNU\0") {
            return Some(notes.get(value..end)?.to_vec());
        }
        at = end.checked_add(3)? & !3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::uio::{RemoteIoVec, process_vm_readv};
    use nix::unistd::getpid;
    use proptest::prelude::*;

    #[test]
    fn mappings_of_a_file_are_one_area() {
        let maps = "\
55e000-55f000 r--p 00000000 fe:00 77 /usr/bin/my prog (deleted)
55f000-561000 r-xp 00001000 fe:00 77 /usr/bin/my prog (deleted)
561000-562000 rw-p 00000000 00:00 0 [heap]
7f0000-7f1000 r--p 00000000 fe:00 9 /usr/lib/locale
7f2000-7f3000 r--p 00000000 fe:00 8 /lib/libc.so.6
7f3000-7f4000 r-xp 00001000 fe:00 8 /lib/libc.so.6
7f4000-7f5000 rw-p 00000000 00:00 0
7f5000-7f6000 rw-p 00003000 fe:00 8 /lib/libc.so.6
7f7000-7f8000 r-xp 00000000 fe:00 8 /lib/libc.so.6
7f9000-7fa000 r-xp 00005000 fe:00 5 /dev/shm/odd
7ffe00-7ffe02 r-xp 00000000 00:00 0 [vdso]
";
        let found: Vec<_> = areas(maps)
            .iter()
            .map(|area| {
                format!(
                    "{:x}-{:x} {} {}",
                    area.range.start, area.range.end, area.path, area.has_code
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                "55e000-561000 /usr/bin/my prog true",
                "7f0000-7f1000 /usr/lib/locale false",
                "7f2000-7f6000 /lib/libc.so.6 true",
                "7f7000-7f8000 /lib/libc.so.6 true",
                "7ffe00-7ffe02 [vdso] true",
            ]
        );
    }

    #[test]
    fn our_own_modules_have_tables_and_build_ids() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let found = modules(&maps, |address, buffer| {
            let remote = [RemoteIoVec {
                base: address as usize,
                len: buffer.len(),
            }];
            process_vm_readv(getpid(), &mut [std::io::IoSliceMut::new(buffer)], &remote)
                .unwrap_or(0)
        });
        for part in ["libc.so", "[vdso]"] {
            let module = found.iter().find(|module| module.path.contains(part));
            let module = module.unwrap_or_else(|| panic!("{part}: {found:?}"));
            assert!(module.range.contains(&module.eh_frame_hdr), "{module:?}");
            assert!(!module.build_id.is_empty(), "{module:?}");
        }
        let here = our_own_modules_have_tables_and_build_ids as fn() as usize as u64;
        assert!(found.iter().any(|module| module.range.contains(&here)));
    }

    proptest! {
        #[test]
        fn any_headers_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600), maps in ".{0,200}") {
            let mut memory = b"\x7fELF\x02".to_vec();
            memory.extend(bytes);
            let read = |_: u64, buffer: &mut [u8]| {
                let length = memory.len().min(buffer.len());
                buffer[..length].copy_from_slice(&memory[..length]);
                length
            };
            std::hint::black_box(modules("1000-2000 r-xp 00000000 fe:00 5 /x", read));
            std::hint::black_box(modules(&maps, read));
        }
    }
}
