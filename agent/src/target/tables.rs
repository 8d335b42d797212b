//! The tables of a loaded object: its symbols, the way to them by name, and its relocations.

use std::ffi::CStr;

use crate::sys::guard::{read_u8, read_u16, read_u32, read_u64};

const DT_PLTRELSZ: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const DT_RELACOUNT: u64 = 0x6fff_fff9;
/// Set in a symbol's version when it is there for old programs only.
const VERSION_HIDDEN: u16 = 0x8000;
const SYMBOL_BYTES: u64 = 24;
const RELOCATION_BYTES: u64 = 24;
const STB_WEAK: u64 = 2;
/// No library has more dynamic entries, nor a chain of the hash table more symbols.
const MOST_ENTRIES: u64 = 1 << 12;

/// What is in the dynamic section of one object: addresses, or 0.
#[derive(Debug, Default)]
pub struct Tables {
    bias: u64,
    symbols: u64,
    strings: u64,
    hashes: u64,
    old_hashes: u64,
    versions: u64,
    /// Tables of relocations, each with its length in bytes: of data, and of the linkage table.
    relocations: [[u64; 2]; 2],
    /// How many of the relocations of data, the first ones, need no symbol.
    relative: u64,
}

/// A relocation that needs a symbol.
#[derive(Debug, Clone, Copy)]
pub struct Relocation {
    /// Its kind, which differs between processors.
    pub kind: u32,
    /// The number of the symbol.
    pub symbol: u64,
    /// The word that it fills in.
    pub place: u64,
}

impl Tables {
    /// Those of the object with a dynamic section at `dynamic`.
    #[unsafe(link_section = "rsys_start")]
    pub fn read(bias: u64, dynamic: u64) -> Option<Self> {
        let mut tables = Tables {
            bias,
            ..Self::default()
        };
        for number in 0..MOST_ENTRIES {
            let entry = dynamic.wrapping_add(number.wrapping_mul(16));
            let value = read_u64(entry.wrapping_add(8))?;
            // glibc has turned these into addresses, except where the section is read-only (the vDSO).
            let address = if value < bias {
                bias.wrapping_add(value)
            } else {
                value
            };
            let [data, linkage] = &mut tables.relocations;
            match read_u64(entry)? {
                0 => break,
                DT_STRTAB => tables.strings = address,
                DT_SYMTAB => tables.symbols = address,
                DT_GNU_HASH => tables.hashes = address,
                DT_HASH => tables.old_hashes = address,
                DT_VERSYM => tables.versions = address,
                DT_RELA => data[0] = address,
                DT_RELASZ => data[1] = value,
                DT_JMPREL => linkage[0] = address,
                DT_PLTRELSZ => linkage[1] = value,
                DT_RELACOUNT => tables.relative = value,
                _ => {}
            }
        }
        (tables.symbols != 0 && tables.strings != 0).then_some(tables)
    }

    /// The address of a function that this object defines: of its newest version, if it has several.
    #[unsafe(link_section = "rsys_start")]
    pub fn find(&self, name: &CStr) -> Option<u64> {
        if self.hashes == 0 {
            return self.find_by_old_hash(name);
        }
        let hash = name.to_bytes().iter().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
        });
        // The GNU hash table: four numbers, a Bloom filter, buckets, chains.
        let number = |at: u64, index: u64| read_u32(at.wrapping_add(index.wrapping_mul(4)));
        let buckets = u64::from(number(self.hashes, 0)?);
        let first = u64::from(number(self.hashes, 1)?);
        let filter_words = u64::from(number(self.hashes, 2)?);
        let bucket_table = self
            .hashes
            .wrapping_add(16)
            .wrapping_add(filter_words.wrapping_mul(8));
        let chain_table = bucket_table.wrapping_add(buckets.wrapping_mul(4));
        let start = u64::from(number(bucket_table, u64::from(hash).checked_rem(buckets)?)?);
        if start < first {
            return None;
        }
        let mut old = None;
        for index in start..start.wrapping_add(MOST_ENTRIES) {
            let chained = number(chain_table, index.wrapping_sub(first))?;
            if chained | 1 == hash | 1
                && let Some(address) = self.defined(index, name)
            {
                if !self.is_for_old_programs(index)? {
                    return Some(address);
                }
                old = old.or(Some(address));
            }
            if chained & 1 != 0 {
                break;
            }
        }
        old
    }

    /// The same where only the older kind of hash table is there (System V gABI, "Hash Table"): two numbers, buckets, chains.
    #[unsafe(link_section = "rsys_start")]
    fn find_by_old_hash(&self, name: &CStr) -> Option<u64> {
        let table = Some(self.old_hashes).filter(|table| *table != 0)?;
        let hash = name.to_bytes().iter().fold(0_u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(*byte));
            let top = hash & 0xf000_0000;
            (hash ^ top >> 24) & !top
        });
        let number = |index: u64| read_u32(table.wrapping_add(index.wrapping_mul(4)));
        let buckets = number(0)?;
        let bucket = u64::from(hash.checked_rem(buckets)?);
        let chains = u64::from(buckets).wrapping_add(2);
        let mut index = u64::from(number(bucket.wrapping_add(2))?);
        let mut old = None;
        for _ in 0..MOST_ENTRIES {
            if index == 0 {
                break;
            }
            if let Some(address) = self.defined(index, name) {
                if !self.is_for_old_programs(index)? {
                    return Some(address);
                }
                old = old.or(Some(address));
            }
            index = u64::from(number(chains.wrapping_add(index))?);
        }
        old
    }

    /// Whether a symbol is there for programs that were linked with an older version.
    #[unsafe(link_section = "rsys_start")]
    fn is_for_old_programs(&self, index: u64) -> Option<bool> {
        let version = match self.versions {
            0 => 0,
            versions => read_u16(versions.wrapping_add(index.wrapping_mul(2)))?,
        };
        Some(version & VERSION_HIDDEN != 0)
    }

    /// The address of a symbol if it has this name and is defined here.
    #[unsafe(link_section = "rsys_start")]
    fn defined(&self, index: u64, name: &CStr) -> Option<u64> {
        let symbol = self.symbol(index);
        let mut at = self.strings.wrapping_add(u64::from(read_u32(symbol)?));
        for byte in name.to_bytes_with_nul() {
            if read_u8(at)? != *byte {
                return None;
            }
            at = at.wrapping_add(1);
        }
        let section = read_u16(symbol.wrapping_add(6))?;
        let value = read_u64(symbol.wrapping_add(8))?;
        (section != 0 && value != 0).then(|| self.bias.wrapping_add(value))
    }

    #[unsafe(link_section = "rsys_start")]
    fn symbol(&self, index: u64) -> u64 {
        self.symbols.wrapping_add(index.wrapping_mul(SYMBOL_BYTES))
    }

    /// Where the name of a symbol is, and its address if this object defines it.
    pub fn named(&self, index: u64) -> Option<(u64, Option<u64>)> {
        let symbol = self.symbol(index);
        let name = self.strings.wrapping_add(u64::from(read_u32(symbol)?));
        let section = read_u16(symbol.wrapping_add(6))?;
        let value = read_u64(symbol.wrapping_add(8))?;
        let is_defined = section != 0 && value != 0;
        Some((name, is_defined.then(|| self.bias.wrapping_add(value))))
    }

    /// The numbers of the symbols that this object defines, as its hash table has them.
    pub fn defined_symbols(&self) -> std::ops::Range<u64> {
        self.hashed().unwrap_or(0..0)
    }

    fn hashed(&self) -> Option<std::ops::Range<u64>> {
        let number = |at: u64, index: u64| read_u32(at.wrapping_add(index.wrapping_mul(4)));
        let hashes = Some(self.hashes).filter(|hashes| *hashes != 0)?;
        let buckets = u64::from(number(hashes, 0)?);
        let first = u64::from(number(hashes, 1)?);
        let filter_bytes = u64::from(number(hashes, 2)?).wrapping_mul(8);
        let bucket_table = hashes.wrapping_add(16).wrapping_add(filter_bytes);
        let chain_table = bucket_table.wrapping_add(buckets.wrapping_mul(4));
        let mut last = 0;
        for bucket in 0..buckets {
            last = last.max(u64::from(number(bucket_table, bucket)?));
        }
        // The chain of the last symbols ends with an odd number.
        for index in last..last.wrapping_add(MOST_ENTRIES) {
            if last < first || number(chain_table, index.wrapping_sub(first))? & 1 != 0 {
                last = index;
                break;
            }
        }
        Some(first..last.wrapping_add(1))
    }

    /// Where the name of a symbol is that this object only refers to, by a weak reference.
    pub fn weak_reference(&self, index: u64) -> Option<u64> {
        // Of `Elf64_Sym`: the name's place, 4 bytes; kind and binding, 1; visibility, 1; section, 2.
        let head = read_u64(self.symbol(index))?;
        let (name, binding, section) = (head & 0xffff_ffff, head >> 36 & 0xf, head >> 48);
        (binding == STB_WEAK && section == 0).then(|| self.strings.wrapping_add(name))
    }

    /// The number of the first defined symbol, before which all undefined symbols stand, as far as the hash table says it. That holds what is
    /// defined, from some symbol on; where nothing is, linkers write that this is the first. `None` too where names do not follow the symbols, as linkers
    /// have them do, or the number cannot be right.
    pub fn undefined(&self) -> Option<u64> {
        let hashes = Some(self.hashes).filter(|hashes| *hashes != 0)?;
        let first = u64::from(read_u32(hashes.wrapping_add(4))?);
        let most = self.strings.checked_sub(self.symbols)? / SYMBOL_BYTES;
        (first > 1 && first <= most).then_some(first)
    }

    /// The relocations that need a symbol.
    pub fn relocations(&self) -> impl Iterator<Item = Relocation> {
        let [[data, data_bytes], [linkage, linkage_bytes]] = self.relocations;
        let relative = self.relative.min(data_bytes / RELOCATION_BYTES);
        let table = |at: u64, from: u64, bytes: u64| {
            (from..bytes / RELOCATION_BYTES)
                .map(move |number| at.wrapping_add(number.wrapping_mul(RELOCATION_BYTES)))
        };
        let all = table(data, relative, data_bytes).chain(table(linkage, 0, linkage_bytes));
        all.filter_map(|entry| {
            let what = read_u64(entry.wrapping_add(8))?;
            let place = read_u64(entry)?;
            (what >> 32 != 0).then(|| Relocation {
                kind: what as u32,
                symbol: what >> 32,
                place: self.bias.wrapping_add(place),
            })
        })
    }
}
