//! The names that a file has for others: what it exports, and the stubs through which it calls what others export.
//!
//! The C library has several names for one address, and debug files prefer those that only its own code uses (`__libc_read`). What programs call is
//! among the exported ones. Stubs of the procedure linkage table have no symbol at all, and would count as the function that stands in front of them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};

/// The mark of a stub, behind the name of what it calls.
pub(super) const STUB: &str = "@plt";
/// Sections of stubs (System V ABI, x86-64 supplement, "Procedure Linkage Table"; `.plt.sec` has those that a call may lead to under CET).
const STUB_SECTIONS: [&str; 3] = [".plt", ".plt.sec", ".plt.got"];
const STUB_BYTES: u64 = 16;
/// `.plt.got` of files without CET has short ones.
const SHORT_STUB_BYTES: u64 = 8;

/// What is known of the names of a file. Large libraries have hundreds of thousands, so tables are made when they are first asked for.
#[derive(Debug)]
pub(super) struct Linkage {
    path: PathBuf,
    /// Where stubs are.
    stub_sections: Vec<Range<u64>>,
    exported: OnceCell<HashMap<u64, String>>,
    stubs: OnceCell<HashMap<u64, String>>,
}

impl Linkage {
    /// Looks at a file; there is nothing in one that is no ELF file.
    pub(super) fn of(path: &Path) -> Self {
        let sections = with_file(path, |file| {
            let sections = stub_sections(file);
            sections
                .map(|section| section.address()..section.address() + section.size())
                .collect()
        });
        Self {
            path: path.to_owned(),
            stub_sections: sections.unwrap_or_default(),
            exported: OnceCell::new(),
            stubs: OnceCell::new(),
        }
    }

    /// The name that others call the function by that begins at an address.
    pub(super) fn exported(&self, start: u64) -> Option<&str> {
        let find = || with_file(&self.path, exported).unwrap_or_default();
        let found = self.exported.get_or_init(find).get(&start);
        found.map(String::as_str)
    }

    /// The stub at an address: where it begins, and the name of what it calls, with the mark.
    pub(super) fn stub(&self, vaddr: u64) -> Option<(u64, String)> {
        let mut sections = self.stub_sections.iter();
        let section = sections.find(|section| section.contains(&vaddr))?;
        let find = || with_file(&self.path, stubs).unwrap_or_default();
        let stubs = self.stubs.get_or_init(find);
        [STUB_BYTES, SHORT_STUB_BYTES]
            .into_iter()
            .find_map(|bytes| {
                let start = vaddr - (vaddr - section.start) % bytes;
                let name = stubs.get(&start)?;
                Some((start, format!("{name}{STUB}")))
            })
    }
}

fn with_file<R>(path: &Path, look: impl FnOnce(&object::File<'_>) -> R) -> Option<R> {
    let file = File::open(path).ok()?;
    // SAFETY: sound unless the file is truncated meanwhile; the parser of symbols maps it as well and relies on the same.
    let mapping = unsafe { Mmap::map(&file) }.ok()?;
    let file = object::File::parse(&*mapping).ok()?;
    Some(look(&file))
}

fn stub_sections<'data, 'file>(
    file: &'file object::File<'data>,
) -> impl Iterator<Item = object::Section<'data, 'file>> {
    let names = STUB_SECTIONS.iter();
    names.filter_map(|name| file.section_by_name(name))
}

/// The plainest exported name of each address.
fn exported(file: &object::File<'_>) -> HashMap<u64, String> {
    let mut exported: HashMap<u64, &str> = HashMap::new();
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
        let Ok(name) = symbol.name() else { continue };
        let best = exported.entry(symbol.address()).or_insert(name);
        if plainness(name) < plainness(best) {
            *best = name;
        }
    }
    let exported = exported.into_iter();
    exported
        .map(|(address, name)| (address, name.to_owned()))
        .collect()
}

/// What stubs call, by their addresses: the name that the loader finds for what they jump through.
fn stubs(file: &object::File<'_>) -> HashMap<u64, String> {
    let sections = stub_sections(file);
    let jumps = sections.flat_map(|section| {
        let code = section.data().unwrap_or_default();
        targets(code, section.address())
    });
    let mut by_slot: HashMap<u64, Vec<u64>> = HashMap::new();
    for (stub, slot) in jumps {
        by_slot.entry(slot).or_default().push(stub);
    }
    let mut names = HashMap::new();
    let symbols = file.dynamic_symbol_table();
    for (slot, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let (Some(stubs), RelocationTarget::Symbol(index)) =
            (by_slot.get(&slot), relocation.target())
        else {
            continue;
        };
        let symbol = symbols.as_ref().map(|table| table.symbol_by_index(index));
        if let Some(Ok(symbol)) = symbol
            && let Ok(name) = symbol.name()
        {
            names.extend(stubs.iter().map(|stub| (*stub, name.to_owned())));
        }
    }
    names
}

/// In which order names of one address are preferred: those without underscores in front, then short ones.
fn plainness(name: &str) -> (usize, usize, &str) {
    let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
    (underscores, name.len(), name)
}

/// Where the stubs of a section begin, and the addresses through which they jump: `jmp *slot(%rip)`, `ff 25` and a distance from its end.
fn targets(code: &[u8], start: u64) -> Vec<(u64, u64)> {
    const JUMP: [u8; 2] = [0xff, 0x25];
    const JUMP_BYTES: usize = 6;
    let mut found = Vec::new();
    let mut place = 0;
    while let Some(jump) = code.get(place..place + JUMP_BYTES) {
        if jump[..2] != JUMP {
            place += 1;
            continue;
        }
        let end = start + (place + JUMP_BYTES) as u64;
        let distance = i32::from_le_bytes([jump[2], jump[3], jump[4], jump[5]]);
        let at = (place as u64) - (place as u64) % SHORT_STUB_BYTES;
        let is_long = (place as u64) % STUB_BYTES >= SHORT_STUB_BYTES;
        // The jump stands at the start of a stub, behind `endbr64` and a prefix, or (mold's) behind the symbol's number as well.
        let at = if is_long && place as u64 - at != 0 {
            at - at % STUB_BYTES
        } else {
            at
        };
        found.push((start + at, end.wrapping_add_signed(i64::from(distance))));
        place += JUMP_BYTES;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_have_the_names_that_programs_call() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().find_map(|line| {
            let path = line.split_whitespace().nth(5)?;
            path.contains("/libc.so").then_some(path)
        });
        let Some(path) = path else {
            println!("skipped: this program has no libc.so");
            return;
        };
        let linkage = Linkage::of(Path::new(path));
        linkage.exported(0);
        let exported = linkage.exported.get().unwrap();
        let has = |name: &str| exported.values().any(|one| one == name);
        for (name, internal) in [("read", "__read"), ("poll", "__poll"), ("fork", "__fork")] {
            assert!(has(name) && !has(internal), "{name}");
        }
    }

    #[test]
    fn stubs_are_known_by_what_they_jump_through() {
        let mut code = vec![0_u8; 64];
        // endbr64; jmp *0x100(%rip)
        code[0..4].copy_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa]);
        code[4..10].copy_from_slice(&[0xff, 0x25, 0x00, 0x01, 0, 0]);
        // jmp *-1(%rip), at the begin of a stub.
        code[16..22].copy_from_slice(&[0xff, 0x25, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(
            targets(&code, 0x1000),
            [(0x1000, 0x1000 + 10 + 0x100), (0x1010, 0x1016 - 1)]
        );
        // Short stubs stand eight bytes apart.
        code.fill(0x90);
        code[0..6].copy_from_slice(&[0xff, 0x25, 1, 0, 0, 0]);
        code[8..14].copy_from_slice(&[0xff, 0x25, 2, 0, 0, 0]);
        assert_eq!(targets(&code, 0x1000), [(0x1000, 0x1007), (0x1008, 0x1010)]);
    }
}
