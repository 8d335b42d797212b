//! How to leave code that `.eh_frame` does not describe: by the `.debug_frame` of its file, as agents do it within their process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use nix::unistd::Pid;
use object::elf::{FileHeader64, SHF_COMPRESSED};
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, ReadCache};
use rsys_unwind::debug_frame;

use super::maps::Module;

/// Addresses that no process has: what was made here is found there.
const BASE: u64 = 1 << 55;
/// Each module has as many of them.
const STRIDE: u64 = 1 << 32;
/// Larger sections are not read.
const SECTION_BYTES_MAX: u64 = 64 << 20;

/// What was made for the modules of a process that were asked for.
#[derive(Debug, Default)]
pub struct DebugFrames {
    /// By the start of the module, in the order of their places.
    modules: RefCell<BTreeMap<u64, usize>>,
    tables: RefCell<Vec<Box<[u8]>>>,
}

/// Whether an address is of what was made here.
pub fn is_within(address: u64) -> bool {
    address & BASE != 0
}

impl DebugFrames {
    /// The address of the table of a module, or 0.
    pub fn table_of(&self, pid: Pid, module: &Module) -> u64 {
        let place = *self
            .modules
            .borrow_mut()
            .entry(module.range.start)
            .or_insert_with(|| {
                let mut tables = self.tables.borrow_mut();
                let place = tables.len();
                let path = format!("/proc/{pid}/root{}", module.path);
                let made = make(Path::new(&path), module.bias, address_of(place));
                tables.push(made.unwrap_or_default());
                place
            });
        match self.tables.borrow()[place].is_empty() {
            true => 0,
            false => address_of(place) + debug_frame::TABLE_OFFSET,
        }
    }

    /// The aligned word at an address.
    pub fn word(&self, address: u64) -> Option<u64> {
        let within = address.checked_sub(BASE)?;
        let tables = self.tables.borrow();
        let bytes = tables.get(usize::try_from(within / STRIDE).ok()?)?;
        let offset = (within % STRIDE) as usize;
        let word = bytes.get(offset..offset + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

fn address_of(place: usize) -> u64 {
    BASE + STRIDE * place as u64
}

/// The table of a file, to be found at an address. `None` when its section is not there, or compressed.
fn make(path: &Path, bias: u64, at: u64) -> Option<Box<[u8]>> {
    let file = File::open(path).ok()?;
    let cache = ReadCache::new(&file);
    let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
    let sections = header.sections(LittleEndian, &cache).ok()?;
    let (_, section) = sections.section_by_name(LittleEndian, b".debug_frame")?;
    let is_plain = !section.sh_flags(LittleEndian).contains(SHF_COMPRESSED);
    if !is_plain || section.sh_size(LittleEndian) > SECTION_BYTES_MAX {
        return None;
    }
    let section = section.data(LittleEndian, &cache).ok()?;
    // Whole words.
    let mut made = vec![0; debug_frame::bytes_for(section)?.next_multiple_of(8)];
    let functions = debug_frame::convert(section, bias, at, &mut made);
    (functions > 0).then(|| made.into())
}
