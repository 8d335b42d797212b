//! The parts of a code object that say where its kernels came from.

use crate::sources::gpu::kernel_lines::cursor::{Cursor, text_at};

/// Larger line tables are left alone: reading one delays the program that loads its code (1 to 2 ms for each MiB).
const MOST_LINE_BYTES: usize = 1 << 20;
/// No more symbols are looked at.
const MOST_SYMBOLS: usize = 1 << 14;

const MACHINE_AMDGPU: u16 = 224;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const DYNAMIC_SYMBOLS: u32 = 11;
const COMPRESSED: u64 = 0x800;

/// A code object with a line table. All is empty that it lacks.
#[derive(Debug, Default)]
pub struct CodeObject<'a> {
    /// `.debug_line`.
    pub lines: &'a [u8],
    /// `.debug_line_str`.
    pub line_texts: &'a [u8],
    /// `.debug_str`.
    pub texts: &'a [u8],
    symbols: &'a [u8],
    symbol_names: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
struct Section {
    name: usize,
    kind: u32,
    flags: u64,
    offset: usize,
    bytes: usize,
    link: usize,
}

impl Section {
    fn at(table: &[u8], index: usize) -> Option<Section> {
        let from = index.checked_mul(SECTION_BYTES)?;
        let mut fields = Cursor(table.get(from..)?);
        let (name, kind, flags) = (fields.u32()? as usize, fields.u32()?, fields.u64()?);
        let _address = fields.u64()?;
        Some(Section {
            name,
            kind,
            flags,
            offset: fields.offset(true)?,
            bytes: fields.offset(true)?,
            link: fields.u32()? as usize,
        })
    }

    fn content<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        file.get(self.offset..self.offset.checked_add(self.bytes)?)
    }
}

impl<'a> CodeObject<'a> {
    /// The code object in these bytes, if it is one of AMD's and has a line table that may be read. Without one, only its header, its
    /// list of sections and their names were touched.
    pub fn new(file: &'a [u8]) -> Option<Self> {
        if !file.starts_with(b"\x7fELF\x02\x01") || Cursor(file.get(18..)?).u16()? != MACHINE_AMDGPU
        {
            return None;
        }
        let table = file.get(Cursor(file.get(40..)?).offset(true)?..)?;
        let mut sizes = Cursor(file.get(58..)?);
        let (entry_bytes, count, names) = (sizes.u16()?, sizes.u16()?, sizes.u16()?);
        if usize::from(entry_bytes) != SECTION_BYTES {
            return None;
        }
        let names = Section::at(table, usize::from(names))?.content(file)?;
        let mut found = CodeObject::default();
        for index in 0..usize::from(count) {
            let section = Section::at(table, index)?;
            if section.kind == DYNAMIC_SYMBOLS {
                found.symbols = section.content(file)?;
                found.symbol_names = Section::at(table, section.link)?.content(file)?;
                continue;
            }
            let place = match text_at(names, section.name)? {
                b".debug_line" => &mut found.lines,
                b".debug_line_str" => &mut found.line_texts,
                b".debug_str" => &mut found.texts,
                _ => continue,
            };
            if section.flags & COMPRESSED != 0 {
                return None;
            }
            *place = section.content(file)?;
        }
        (1..=MOST_LINE_BYTES)
            .contains(&found.lines.len())
            .then_some(found)
    }

    /// The functions that it exports, which are its kernels: address, size in bytes, and the place of the name.
    pub fn functions(&self) -> impl Iterator<Item = (u64, u64, usize)> {
        const FUNCTION: u8 = 2;
        let symbols = self.symbols.chunks_exact(SYMBOL_BYTES).take(MOST_SYMBOLS);
        symbols.filter_map(|symbol| {
            let mut fields = Cursor(symbol);
            let (name, kind) = (fields.u32()? as usize, fields.u8()? & 15);
            let (_other, section) = (fields.u8()?, fields.u16()?);
            let (address, bytes) = (fields.u64()?, fields.u64()?);
            (kind == FUNCTION && section != 0).then_some((address, bytes, name))
        })
    }

    /// The name of a function, by its place.
    pub fn name(&self, place: usize) -> Option<&'a [u8]> {
        text_at(self.symbol_names, place)
    }
}
