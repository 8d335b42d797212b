//! Any bytes as unwind tables, code, stack and registers: a walk must end without a panic, within its buffer, after a bounded
//! number of reads, and read nothing but through its [`Memory`]. Run with `cargo fuzz run walk` in `unwind/`.
#![no_main]

use std::cell::Cell;

use libfuzzer_sys::fuzz_target;
use rsys_unwind::{
    CfiEngine, End, Engine, FLAGS, FrameBuffer, FramePointerEngine, Memory, ModuleTables, Modules,
    Registers, RuleCache, RuleSlot, described_functions, register,
};

const CODE: u64 = 0x40_0000;
const CODE_BYTES: u64 = 0x1000;
const HEADER: u64 = 0x50_0000;
const TABLES: u64 = 0x60_0000;
const STACK: u64 = 0x7000_0000;
const FRAMES: usize = 24;
/// A frame may read its tables once for the rule and once to evaluate it, each expression of a row, and scan the stack.
const READS_PER_FRAME: u32 = 400_000;

/// The address space: four stretches of bytes, everything else is not mapped.
struct World<'a> {
    stretches: [(u64, &'a [u8]); 4],
    has_header: bool,
    reads: Cell<u32>,
}

impl Memory for World<'_> {
    fn read_u64(&self, address: u64) -> Option<u64> {
        self.reads.set(self.reads.get() + 1);
        self.stretches.iter().find_map(|(start, bytes)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            let word = bytes.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(word.try_into().ok()?))
        })
    }
}

impl Modules for World<'_> {
    fn find(&self, pc: u64) -> Option<ModuleTables> {
        let range = CODE..CODE + CODE_BYTES;
        range.contains(&pc).then_some(ModuleTables {
            range,
            eh_frame_hdr: if self.has_header { HEADER } else { 0 },
            eh_frame: TABLES,
        })
    }

    fn generation(&self) -> u32 {
        1
    }
}

/// Takes the input apart; what it lacks is zero.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn short(&mut self) -> u64 {
        u64::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    /// An address of the code or of the stack, a small number, or anything.
    fn word(&mut self) -> u64 {
        match self.byte() & 3 {
            0 => CODE + self.short() % CODE_BYTES,
            1 => STACK + self.short() % 0x1000,
            2 => self.short(),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let options = input.byte();
    let mut registers = Registers::new(input.word(), input.word(), input.word());
    let known = input.byte();
    for (number, rare) in [
        (register::RBX, 1),
        (register::R12, 2),
        (register::R13, 4),
        (register::RAX, 8),
        (register::R10, 16),
    ] {
        if known & rare != 0 {
            registers.set(number, input.word());
        }
    }
    let (header_bytes, tables_bytes) = (usize::from(input.byte()), input.short() as usize % 2048);
    let header = input.bytes(header_bytes);
    let tables = input.bytes(tables_bytes);
    let code_bytes = input.short() as usize % 1024;
    let code = input.bytes(code_bytes);
    let mut stack = Vec::new();
    while !input.0.is_empty() && stack.len() < 4096 {
        stack.extend(input.word().to_le_bytes());
    }
    let world = World {
        stretches: [(CODE, code), (HEADER, header), (TABLES, tables), (STACK, &stack)],
        has_header: options & 1 != 0,
        reads: Cell::new(0),
    };

    let slots: [RuleSlot; 16] = [const { RuleSlot::new() }; 16];
    let mut cached = CfiEngine::new(RuleCache::new(&slots).expect("a power of two"));
    let mut first = None;
    for round in 0..4 {
        world.reads.set(0);
        let mut words = [0; FRAMES];
        let mut frames = FrameBuffer::new(&mut words);
        let end = match round {
            0 | 1 => cached.walk(&registers, &world, &world, &mut frames),
            2 => CfiEngine::without_cache().walk(&registers, &world, &world, &mut frames),
            _ => FramePointerEngine::default().walk(&registers, &world, &world, &mut frames),
        };
        assert!(end != End::Truncated || frames.len() == FRAMES);
        assert!(world.reads.get() < READS_PER_FRAME * (FRAMES as u32 + 1));
        let leaf = frames.words().first().map(|word| word & !FLAGS);
        assert_eq!(leaf, Some(registers.pc() & !FLAGS));
        // The cache changes what a walk costs, not what it finds.
        if round < 3 {
            let found = (frames.words().to_vec(), end);
            assert_eq!(*first.get_or_insert(found.clone()), found);
        }
    }
    let mut described = 0;
    described_functions(&world, TABLES, |_, _| described += 1);
    assert!(described <= tables.len());
});
