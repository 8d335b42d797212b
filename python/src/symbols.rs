//! Finds the dynamic symbols of a loaded module by their names, in its hash table.
//!
//! Source: the ELF gABI (program header, dynamic section, `DT_HASH`) and the GNU hash section as binutils writes it.

use rsys_unwind::Memory;

/// No chain of a hash table is longer.
const CHAIN_MAX: u32 = 10_000;
const DYNAMIC_MAX: u64 = 200;

/// The tables of one module.
#[derive(Debug, Clone, Copy)]
pub struct Symbols {
    bias: u64,
    symbols: u64,
    strings: u64,
    table: Table,
}

#[derive(Debug, Clone, Copy)]
enum Table {
    Gnu(u64),
    Old(u64),
}

impl Symbols {
    /// The tables of the module whose ELF header is mapped at `start`, `bias` above the addresses in its file.
    #[must_use]
    pub fn of_module(memory: &impl Memory, start: u64, bias: u64) -> Option<Self> {
        const PT_DYNAMIC: u32 = 2;
        const DT_HASH: u64 = 4;
        const DT_STRTAB: u64 = 5;
        const DT_SYMTAB: u64 = 6;
        const DT_GNU_HASH: u64 = 0x6fff_fef5;
        if memory.read_u32(start)? != u32::from_le_bytes(*b"\x7fELF") {
            return None;
        }
        let headers = start.wrapping_add(memory.read_u64(start.wrapping_add(0x20))?);
        let header_bytes = u64::from(memory.read_u16(start.wrapping_add(0x36))?);
        let header_count = u64::from(memory.read_u16(start.wrapping_add(0x38))?.min(64));
        let dynamic = (0..header_count).find_map(|number| {
            let header = headers.wrapping_add(number.wrapping_mul(header_bytes));
            (memory.read_u32(header)? == PT_DYNAMIC)
                .then(|| memory.read_u64(header.wrapping_add(0x10)))
                .flatten()
        })?;
        let dynamic = bias.wrapping_add(dynamic);
        let (mut symbols, mut strings, mut gnu, mut old) = (None, None, None, None);
        for number in 0..DYNAMIC_MAX {
            let entry = dynamic.wrapping_add(number.wrapping_mul(16));
            let tag = memory.read_u64(entry)?;
            let value = memory.read_u64(entry.wrapping_add(8))?;
            // glibc has turned offsets into addresses; other loaders have not.
            let address = if value < start {
                value.wrapping_add(bias)
            } else {
                value
            };
            match tag {
                0 => break,
                DT_HASH => old = Some(address),
                DT_STRTAB => strings = Some(address),
                DT_SYMTAB => symbols = Some(address),
                DT_GNU_HASH => gnu = Some(address),
                _ => {}
            }
        }
        Some(Self {
            bias,
            symbols: symbols?,
            strings: strings?,
            table: gnu.map(Table::Gnu).or(old.map(Table::Old))?,
        })
    }

    /// The address of a symbol that the module defines.
    #[must_use]
    pub fn find(&self, memory: &impl Memory, name: &[u8]) -> Option<u64> {
        match self.table {
            Table::Gnu(table) => self.find_gnu(memory, table, name),
            Table::Old(table) => self.find_old(memory, table, name),
        }
    }

    fn find_gnu(&self, memory: &impl Memory, table: u64, name: &[u8]) -> Option<u64> {
        let hash = name.iter().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
        });
        let field = |number: u64| memory.read_u32(table.wrapping_add(number.wrapping_mul(4)));
        let buckets = field(0)?;
        let first = field(1)?;
        let words = field(2)?;
        let shift = field(3)?;
        let bloom = table.wrapping_add(16);
        let at = (hash >> 6).checked_rem(words)?;
        let word = memory.read_u64(bloom.wrapping_add(u64::from(at).wrapping_mul(8)))?;
        let wanted = 1_u64.wrapping_shl(hash) | 1_u64.wrapping_shl(hash.wrapping_shr(shift));
        if word & wanted != wanted {
            return None;
        }
        let bucket_table = bloom.wrapping_add(u64::from(words).wrapping_mul(8));
        let chains = bucket_table.wrapping_add(u64::from(buckets).wrapping_mul(4));
        let bucket = u64::from(hash.checked_rem(buckets)?);
        let start = memory.read_u32(bucket_table.wrapping_add(bucket.wrapping_mul(4)))?;
        for number in start..start.wrapping_add(CHAIN_MAX) {
            let place = u64::from(number.checked_sub(first)?);
            let chained = memory.read_u32(chains.wrapping_add(place.wrapping_mul(4)))?;
            if chained | 1 == hash | 1
                && let Some(address) = self.named(memory, number, name)
            {
                return Some(address);
            }
            if chained & 1 != 0 {
                break;
            }
        }
        None
    }

    fn find_old(&self, memory: &impl Memory, table: u64, name: &[u8]) -> Option<u64> {
        let hash = name.iter().fold(0_u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(*byte));
            let high = hash & 0xf000_0000;
            (hash ^ high >> 24) & !high
        });
        let field =
            |number: u32| memory.read_u32(table.wrapping_add(u64::from(number).wrapping_mul(4)));
        let buckets = field(0)?;
        let chains = buckets.wrapping_add(2);
        let mut number = field(hash.checked_rem(buckets)?.wrapping_add(2))?;
        for _ in 0..CHAIN_MAX {
            if number == 0 {
                break;
            }
            if let Some(address) = self.named(memory, number, name) {
                return Some(address);
            }
            number = field(chains.wrapping_add(number))?;
        }
        None
    }

    /// The address of a symbol, if it has this name and is defined here.
    fn named(&self, memory: &impl Memory, number: u32, name: &[u8]) -> Option<u64> {
        let symbol = self
            .symbols
            .wrapping_add(u64::from(number).wrapping_mul(24));
        let text = self
            .strings
            .wrapping_add(u64::from(memory.read_u32(symbol)?));
        let section = memory.read_u16(symbol.wrapping_add(6))?;
        let mut at = text;
        for byte in name {
            if memory.read_u8(at)? != *byte {
                return None;
            }
            at = at.wrapping_add(1);
        }
        (memory.read_u8(at)? == 0 && section != 0)
            .then(|| memory.read_u64(symbol.wrapping_add(8)))
            .flatten()
            .map(|value| value.wrapping_add(self.bias))
    }
}
