//! Line tables of DWARF 2 to 5 (`.debug_line`): which line each address came from.

use crate::sources::gpu::kernel_lines::cursor::{Cursor, text_at};
use crate::sources::gpu::kernel_lines::elf::CodeObject;

/// A line table of one unit.
#[derive(Debug, Clone, Copy)]
pub struct Unit<'a> {
    object: &'a CodeObject<'a>,
    version: u16,
    wide: bool,
    /// Directories and files, as the header has them.
    files: Cursor<'a>,
    program: Cursor<'a>,
    least_bytes: u8,
    line_base: i8,
    line_range: u8,
    /// Of operands of the opcodes that the standard knows, which begin at 1.
    operands: &'a [u8],
}

/// Where a row of the table stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The address of the first instruction.
    pub address: u64,
    /// The number of the file.
    pub file: u64,
    /// The line, or 0 of none.
    pub line: u64,
}

impl<'a> Unit<'a> {
    /// The next unit of `.debug_line`.
    pub fn next(object: &'a CodeObject<'a>, rest: &mut Cursor<'a>) -> Option<Self> {
        let mut length = rest.u32()? as usize;
        let wide = length == 0xffff_ffff;
        if wide {
            length = rest.offset(true)?;
        }
        let mut unit = Cursor(rest.take(length)?);
        let version = unit.u16()?;
        if !(2..=5).contains(&version) {
            return None;
        }
        if version == 5 {
            let _address_and_segment_bytes = unit.u16()?;
        }
        let header_bytes = unit.offset(wide)?;
        let mut header = Cursor(unit.take(header_bytes)?);
        let least_bytes = header.u8()?;
        if version >= 4 {
            let _operations = header.u8()?;
        }
        let _is_statement = header.u8()?;
        let line_base = header.u8()?.cast_signed();
        let line_range = header.u8()?;
        let opcode_base = header.u8()?;
        let operands = header.take(usize::from(opcode_base.checked_sub(1)?))?;
        (line_range != 0).then_some(Unit {
            object,
            version,
            wide,
            files: header,
            program: unit,
            least_bytes,
            line_base,
            line_range,
            operands,
        })
    }

    /// Calls `see` with each row, in the order of the table, but for those that end a sequence.
    pub fn rows(&self, mut see: impl FnMut(Row)) -> Option<()> {
        const FIRST: Row = Row {
            address: 0,
            file: 1,
            line: 1,
        };
        let opcode_base = u8::try_from(self.operands.len()).ok()?.checked_add(1)?;
        let mut program = self.program;
        let mut row = FIRST;
        let least = u64::from(self.least_bytes);
        let forward = |row: &mut Row, count: u64| {
            row.address = row.address.wrapping_add(count.wrapping_mul(least));
        };
        while let Some(opcode) = program.u8() {
            if opcode >= opcode_base {
                let steps = opcode - opcode_base;
                forward(&mut row, u64::from(steps / self.line_range));
                let lines = i64::from(self.line_base) + i64::from(steps % self.line_range);
                row.line = row.line.wrapping_add_signed(lines);
                see(row);
                continue;
            }
            match opcode {
                0 => {
                    let bytes = usize::try_from(program.unsigned()?).ok()?;
                    let mut extended = Cursor(program.take(bytes)?);
                    match extended.u8()? {
                        1 => row = FIRST,
                        2 => row.address = extended.u64()?,
                        _ => {}
                    }
                }
                1 => see(row),
                2 => {
                    let count = program.unsigned()?;
                    forward(&mut row, count);
                }
                3 => row.line = row.line.wrapping_add_signed(program.signed()?),
                4 => row.file = program.unsigned()?,
                8 => forward(&mut row, u64::from((255 - opcode_base) / self.line_range)),
                9 => row.address = row.address.wrapping_add(u64::from(program.u16()?)),
                other => {
                    for _ in 0..*self.operands.get(usize::from(other) - 1)? {
                        program.unsigned()?;
                    }
                }
            }
        }
        Some(())
    }

    /// The path of a file in three parts, of which the first ones may be empty: each counts from the one before, if it is relative.
    pub fn file(&self, number: u64) -> Option<[&'a [u8]; 3]> {
        let mut rest = self.files;
        if self.version < 5 {
            return self.file_up_to_4(number);
        }
        let directories = rest;
        self.skip_entries(&mut rest)?;
        let (name, directory) = self.entry(rest, number)?;
        // The first is that of the compilation.
        let (root, _) = self.entry(directories, 0)?;
        let within = match directory {
            0 => &[],
            other => self.entry(directories, other)?.0,
        };
        Some([root, within, name])
    }

    fn file_up_to_4(&self, number: u64) -> Option<[&'a [u8]; 3]> {
        let directories = self.files;
        let mut rest = directories;
        while !rest.text()?.is_empty() {}
        let mut left = number.checked_sub(1)?;
        loop {
            let name = rest.text()?;
            let directory = rest.unsigned()?;
            let (_changed, _bytes) = (rest.unsigned()?, rest.unsigned()?);
            if name.is_empty() {
                return None;
            }
            if left > 0 {
                left -= 1;
                continue;
            }
            let mut directories = directories;
            let mut within: &[u8] = &[];
            // Number 0 is the directory of the compilation, which stands elsewhere.
            for _ in 0..directory {
                within = directories.text().filter(|text| !text.is_empty())?;
            }
            return Some([&[], within, name]);
        }
    }

    /// Of a table of version 5: its format, its length, and where its entries begin.
    fn table(mut rest: Cursor<'a>) -> Option<(&'a [u8], u64, Cursor<'a>)> {
        let fields = rest.u8()?;
        let format = rest.0;
        for _ in 0..fields {
            let (_what, _form) = (rest.unsigned()?, rest.unsigned()?);
        }
        let format = format.get(..format.len().checked_sub(rest.0.len())?)?;
        let count = rest.unsigned()?;
        Some((format, count, rest))
    }

    /// Passes a table of version 5 by.
    fn skip_entries(&self, rest: &mut Cursor<'a>) -> Option<()> {
        let (format, count, mut entries) = Self::table(*rest)?;
        for _ in 0..count {
            self.read_entry(format, &mut entries)?;
        }
        *rest = entries;
        Some(())
    }

    /// An entry of a table of version 5: its path, and the number of its directory.
    fn entry(&self, table: Cursor<'a>, number: u64) -> Option<(&'a [u8], u64)> {
        let (format, count, mut entries) = Self::table(table)?;
        if number >= count {
            return None;
        }
        for _ in 0..number {
            self.read_entry(format, &mut entries)?;
        }
        self.read_entry(format, &mut entries)
    }

    fn read_entry(&self, format: &'a [u8], entries: &mut Cursor<'a>) -> Option<(&'a [u8], u64)> {
        const PATH: u64 = 1;
        const DIRECTORY: u64 = 2;
        let mut format = Cursor(format);
        let (mut path, mut directory): (&[u8], u64) = (&[], 0);
        // A table without fields would be passed by for as long as its count says.
        if format.0.is_empty() {
            return None;
        }
        while !format.0.is_empty() {
            let (what, form) = (format.unsigned()?, format.unsigned()?);
            let mut number = 0;
            let mut text: &[u8] = &[];
            match form {
                0x08 => text = entries.text()?,
                0x1f => text = text_at(self.object.line_texts, entries.offset(self.wide)?)?,
                0x0e => text = text_at(self.object.texts, entries.offset(self.wide)?)?,
                0x0b => number = u64::from(entries.u8()?),
                0x05 => number = u64::from(entries.u16()?),
                0x06 => number = u64::from(entries.u32()?),
                0x07 => number = entries.u64()?,
                0x0f => number = entries.unsigned()?,
                0x1e => drop(entries.take(16)?),
                0x09 => {
                    let bytes = usize::try_from(entries.unsigned()?).ok()?;
                    entries.take(bytes)?;
                }
                _ => return None,
            }
            match what {
                PATH => path = text,
                DIRECTORY => directory = number,
                _ => {}
            }
        }
        Some((path, directory))
    }
}
