//! Compressed debug information, unpacked into a file of ours.
//!
//! Distributions compress it (`SHF_COMPRESSED`, System V gABI, "Section Compression"). blazesym unpacks every section as it opens a file, into
//! memory that grows as it goes; for a C library that is more work than all that follows. Here it is unpacked by a faster decoder into room of the
//! right size, what names and lines do not need is left out, and the copy is kept for later runs.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use libdeflater::Decompressor;
use memmap2::{Mmap, MmapOptions};
use object::elf::{
    ELFCOMPRESS_ZLIB, ET_REL, FileHeader64, NT_GNU_BUILD_ID, SHF_ALLOC, SHF_COMPRESSED, SHT_NOBITS,
    SectionFlags, SectionHeader64,
};
use object::read::elf::{CompressionHeader, FileHeader, SectionHeader};
use object::{LittleEndian, ReadRef, U64, pod};

use super::cache_store::CacheStore;
use super::debug_copy::{CopyPlace, memory_file};

/// What is read of debug information is names, lines and extents of functions, and never where variables are or what macros were.
const NOT_NEEDED: [&[u8]; 6] = [
    b".debug_loc",
    b".debug_loclists",
    b".debug_macinfo",
    b".debug_macro",
    b".debug_names",
    b".debug_pubnames",
];

/// Debug information in another file, which is looked for beside this one.
const LINKS: [&[u8]; 3] = [b".gnu_debuglink", b".gnu_debugaltlink", b".debug_sup"];

/// Changes with what copies hold.
const VERSION: u32 = 1;

/// Largest compression ratio of deflate (RFC 1951): a header that claims more is damaged.
const RATIO_MAX: u64 = 1032;
/// Limit of the memory that unpacked debug information takes.
const UNPACKED_BYTES_MAX: u64 = 2 << 30;

/// Unpacked sections begin at multiples of this, which is a page of any machine: a mapping may begin there.
const FIRST_ALIGNMENT: u64 = 64 << 10;
const ALIGNMENT: u64 = 16;

const ENDIAN: LittleEndian = LittleEndian;
type Header = FileHeader64<LittleEndian>;
type Section = SectionHeader64<LittleEndian>;

/// A copy of an ELF file with its debug information as it was before it was compressed. The path is good as long as this lives.
#[derive(Debug)]
pub(super) struct Unpacked {
    /// Where it can be opened.
    pub path: PathBuf,
    _file: File,
}

/// A section that is to be unpacked.
#[derive(Debug)]
struct Packed<'data> {
    index: usize,
    bytes: &'data [u8],
    unpacked_bytes: u64,
    alignment: u64,
    /// Where it will be; `None` when it is left out.
    offset: Option<u64>,
}

impl Unpacked {
    /// Whether the file at `path` has more debug information, all of it unpacked, than memory is taken for.
    pub fn is_too_large(path: &Path) -> bool {
        let sum = || {
            let file = File::open(path).ok()?;
            // SAFETY: as in `of`.
            let mapping = unsafe { Mmap::map(&file) }.ok()?;
            let data = &*mapping;
            let sections = Header::parse(data).ok()?.sections(ENDIAN, data).ok()?;
            let mut sum = 0_u64;
            for section in sections.iter() {
                let name = sections.section_name(ENDIAN, section).ok()?;
                if name.starts_with(b".debug_")
                    && let Some((how, ..)) = section.compression(ENDIAN, data).ok()?
                {
                    sum = sum.saturating_add(how.ch_size(ENDIAN));
                }
            }
            Some(sum)
        };
        sum().is_some_and(|bytes| bytes > UNPACKED_BYTES_MAX)
    }

    /// Unpacks the debug information of the file at `path`, or takes what `store` kept of it. `None` when there is nothing to unpack, or it is packed in another way, or something
    /// is wrong with it: then the file itself says what it can.
    pub fn of(path: &Path, store: Option<&CacheStore>) -> Option<Self> {
        let mut package = path.as_os_str().to_owned();
        package.push(".dwp");
        if Path::new(&package).exists() {
            return None;
        }
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        // SAFETY: sound unless the file is truncated while it is mapped; blazesym maps it next and relies on the same.
        let mapping = unsafe { Mmap::map(&file) }.ok()?;
        let data = &*mapping;
        let header = Header::parse(data).ok()?;
        if header.e_type(ENDIAN) == ET_REL {
            return None;
        }
        let sections = header.sections(ENDIAN, data).ok()?;
        let mut table: Vec<Section> = sections.iter().copied().collect();
        let mut packed = Vec::new();
        for (index, section) in sections.iter().enumerate() {
            let name = sections.section_name(ENDIAN, section).ok()?;
            if LINKS.contains(&name) {
                return None;
            }
            if name.starts_with(b".debug_")
                && let Some((how, offset, bytes)) = section.compression(ENDIAN, data).ok()?
            {
                let unpacked_bytes = how.ch_size(ENDIAN);
                if how.ch_type(ENDIAN) != ELFCOMPRESS_ZLIB
                    || unpacked_bytes > bytes.saturating_mul(RATIO_MAX)
                {
                    return None;
                }
                packed.push(Packed {
                    index,
                    bytes: match NOT_NEEDED.contains(&name) {
                        true => &[],
                        false => data.read_bytes_at(offset, bytes).ok()?,
                    },
                    unpacked_bytes,
                    alignment: how.ch_addralign(ENDIAN),
                    offset: None,
                });
            }
        }
        if packed.is_empty() {
            return None;
        }
        let begin = (data.len() as u64).checked_next_multiple_of(FIRST_ALIGNMENT)?;
        let mut end = begin;
        for one in packed.iter_mut().filter(|one| !one.bytes.is_empty()) {
            one.offset = Some(end);
            end = end
                .checked_add(one.unpacked_bytes)?
                .checked_next_multiple_of(ALIGNMENT)?;
        }
        if end - begin > UNPACKED_BYTES_MAX {
            return None;
        }
        for one in &packed {
            let section = table.get_mut(one.index)?;
            let flags = section.sh_flags(ENDIAN).0 & !SHF_COMPRESSED.0;
            section.sh_flags = U64::new(ENDIAN, SectionFlags(flags));
            section.sh_addralign = U64::new(ENDIAN, one.alignment);
            section.sh_size = U64::new(ENDIAN, one.offset.map_or(0, |_| one.unpacked_bytes));
            if let Some(offset) = one.offset {
                section.sh_offset = U64::new(ENDIAN, offset);
            }
        }

        let build_id = sections.iter().find_map(|section| {
            let mut notes = section.notes(ENDIAN, data).ok()??;
            std::iter::from_fn(|| notes.next().ok()?)
                .find(|note| note.name() == b"GNU" && note.n_type(ENDIAN) == NT_GNU_BUILD_ID)
                .map(|note| note.desc())
        });
        // The build-id stays when a file is stripped or packed anew.
        let mut hasher = DefaultHasher::new();
        (
            VERSION,
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
        )
            .hash(&mut hasher);
        let kept = store.zip(build_id);
        let kept = kept.and_then(|(store, id)| store.copies(id, hasher.finish(), end));
        if let Some(file) = kept.as_ref().and_then(CopyPlace::open) {
            // Whole and of this layout, if it has this table.
            let mut theirs = vec![0; size_of_val(&*table)];
            let is_read = file.read_exact_at(&mut theirs, header.e_shoff(ENDIAN));
            if is_read.is_ok() && theirs == pod::bytes_of_slice(&table) {
                return Some(Self::new(file));
            }
        }

        let file = memory_file()?;
        file.set_len(end).ok()?;
        unpack(&file, begin..end, &packed)?;
        // All else stays where it is; what the program itself loads, names do not need.
        let is_packed = |index| packed.iter().any(|one| one.index == index);
        for (index, section) in sections.iter().enumerate() {
            let (offset, bytes) = (section.sh_offset(ENDIAN), section.sh_size(ENDIAN));
            let is_loaded = section.sh_flags(ENDIAN).0 & SHF_ALLOC.0 != 0;
            let is_symbols = section.sh_entsize(ENDIAN) != 0 || is_text(section);
            let is_kept = section.sh_type(ENDIAN) != SHT_NOBITS && (!is_loaded || is_symbols);
            if is_kept && !is_packed(index) {
                let bytes = data.read_bytes_at(offset, bytes).ok()?;
                file.write_all_at(bytes, offset).ok()?;
            }
        }
        let segments = header.program_headers(ENDIAN, data).ok()?;
        file.write_all_at(pod::bytes_of(header), 0).ok()?;
        file.write_all_at(pod::bytes_of_slice(segments), header.e_phoff(ENDIAN))
            .ok()?;
        file.write_all_at(pod::bytes_of_slice(&table), header.e_shoff(ENDIAN))
            .ok()?;
        if let Some(place) = kept {
            // What goes wrong costs the next run some time.
            place.keep(&file).unwrap_or_default();
        }
        Some(Self::new(file))
    }

    fn new(file: File) -> Self {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Self { path, _file: file }
    }
}

/// Whether a section holds texts, such as names.
fn is_text(section: &Section) -> bool {
    section.sh_type(ENDIAN) == object::elf::SHT_STRTAB
        || section.sh_type(ENDIAN) == object::elf::SHT_NOTE
}

/// Unpacks into the file, between two places.
fn unpack(file: &File, place: std::ops::Range<u64>, packed: &[Packed<'_>]) -> Option<()> {
    let length = usize::try_from(place.end - place.start).ok()?;
    // All pages at once: one by one they would cost as much again.
    let mut options = MmapOptions::new();
    options.offset(place.start).len(length).populate();
    // SAFETY: a memory file that is private to this process.
    let mut memory = unsafe { options.map_mut(file) }.ok()?;
    let mut decoder = Decompressor::new();
    for one in packed {
        let Some(offset) = one.offset else { continue };
        let from = usize::try_from(offset - place.start).ok()?;
        let room = memory.get_mut(from..)?;
        let room = room.get_mut(..usize::try_from(one.unpacked_bytes).ok()?)?;
        if decoder.zlib_decompress(one.bytes, room).ok()? != room.len() {
            return None;
        }
    }
    Some(())
}
