//! Damaged tables, damaged stacks, random registers: a walk ends, in bounded time, within its buffer, without a panic.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use rsys_unwind::{
    CfiEngine, End, Engine, FrameBuffer, FramePointerEngine, Memory, ModuleTables, Modules,
    Registers, RuleCache, RuleSlot, register,
};

const CODE: u64 = 0x40_0000;
const HDR: u64 = 0x50_0000;
const EH_FRAME: u64 = 0x60_0000;
const STACK: u64 = 0x7000_0000;

/// Four regions of bytes, and a count of the reads.
struct World {
    regions: [(u64, Vec<u8>); 4],
    reads: Cell<u32>,
    header: bool,
}

impl Memory for World {
    fn read_u64(&self, address: u64) -> Option<u64> {
        self.reads.set(self.reads.get() + 1);
        self.regions.iter().find_map(|(start, bytes)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            let word = bytes.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(word.try_into().ok()?))
        })
    }
}

impl Modules for World {
    fn find(&self, pc: u64) -> Option<ModuleTables> {
        let range = CODE..CODE + 0x1000;
        range.contains(&pc).then_some(ModuleTables {
            range,
            eh_frame_hdr: if self.header { HDR } else { 0 },
            eh_frame: EH_FRAME,
        })
    }

    fn generation(&self) -> u32 {
        7
    }
}

fn check(world: &World, registers: &Registers, limit: usize) -> Result<(), TestCaseError> {
    let slots: Vec<RuleSlot> = (0..16).map(|_| RuleSlot::new()).collect();
    let mut cached = CfiEngine::new(RuleCache::new(&slots).unwrap());
    for round in 0..4 {
        // A guard word behind the buffer's end must survive.
        let mut words = vec![0xa5a5; limit + 1];
        let mut frames = FrameBuffer::new(&mut words[..limit]);
        world.reads.set(0);
        let end = match round {
            0 => CfiEngine::without_cache().walk(registers, world, world, &mut frames),
            1 | 2 => cached.walk(registers, world, world, &mut frames),
            _ => FramePointerEngine::default().walk(registers, world, world, &mut frames),
        };
        let count = frames.len();
        prop_assert!(count <= limit);
        prop_assert!(end != End::Truncated || count == limit);
        prop_assert_eq!(words[limit], 0xa5a5);
        // A frame may read the tables, each expression of a row, and scan the stack.
        prop_assert!(
            world.reads.get() < 400_000 * (limit as u32 + 1),
            "{}",
            world.reads.get()
        );
    }
    Ok(())
}

/// Stack words that are often addresses of code or of the stack.
fn stack_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0_u64..0x1000).prop_map(|offset| CODE + offset),
        (0_u64..0x1000).prop_map(|offset| STACK + (offset & !7)),
        0_u64..256,
        any::<u64>(),
    ]
}

fn registers() -> impl Strategy<Value = Registers> {
    (
        prop_oneof![4 => (0_u64..0x1000).prop_map(|offset| CODE + offset), 1 => any::<u64>()],
        prop_oneof![4 => (0_u64..0x800).prop_map(|offset| STACK + offset), 1 => any::<u64>()],
        vec(stack_word(), 16),
    )
        .prop_map(|(pc, sp, values)| {
            let mut registers = Registers::new(pc, sp, 0);
            for (number, value) in values.iter().enumerate() {
                if number as u8 != register::RSP {
                    registers.set(number as u8, *value);
                }
            }
            registers
        })
}

/// One CIE and FDEs with random instructions: what a random byte string would hardly ever be.
fn plausible_eh_frame() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        Just(0x0c_u8),
        Just(0x0e),
        Just(0x0f),
        Just(0x10),
        Just(0x0a),
        Just(0x0b),
        Just(0x86),
        Just(0x90),
        Just(0x16),
        Just(0x05),
        Just(0x41),
        any::<u8>(),
    ];
    let expression = prop_oneof![
        Just(0x77_u8),
        Just(0x76),
        Just(0x06),
        Just(0x2f),
        Just(0x28),
        Just(0x12),
        any::<u8>()
    ];
    let byte = prop_oneof![2 => opcode, 1 => expression, 2 => 0_u8..20];
    (
        vec(byte.clone(), 0..24),
        vec(vec(byte, 0..64), 1..6),
        prop::sample::select(vec![&b"zR\0"[..], b"zRS\0", b"zPLR\0", b"\0"]),
    )
        .prop_map(|(initial, programs, augmentation)| {
            let mut cie = vec![0, 0, 0, 0, 1];
            cie.extend(augmentation);
            cie.extend([1, 0x78, 16]);
            match augmentation {
                b"zPLR\0" => cie.extend([7, 0x03, 0, 0, 0, 0, 0x1b, 0x1b]),
                b"\0" => {}
                _ => cie.extend([1, 0x1b]),
            }
            cie.extend(initial);
            let mut section = Vec::new();
            section.extend((cie.len() as u32).to_le_bytes());
            section.extend(cie);
            let count = programs.len() as u64;
            for (index, program) in programs.into_iter().enumerate() {
                let at = section.len() as u32;
                let mut fde = Vec::new();
                fde.extend((at + 4).to_le_bytes());
                let start = CODE + 0x1000 / count * index as u64;
                if augmentation == b"\0" {
                    fde.extend(start.to_le_bytes());
                    fde.extend((0x1000_u64 / count).to_le_bytes());
                } else {
                    let field = EH_FRAME + u64::from(at) + 8;
                    fde.extend((start.wrapping_sub(field) as u32).to_le_bytes());
                    fde.extend((0x1000_u32 / count as u32).to_le_bytes());
                    fde.push(0);
                }
                fde.extend(program);
                section.extend((fde.len() as u32).to_le_bytes());
                section.extend(fde);
            }
            section.extend([0; 4]);
            section
        })
}

fn world(code: Vec<u8>, hdr: Vec<u8>, eh_frame: Vec<u8>, stack: &[u64], header: bool) -> World {
    let stack = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    World {
        regions: [
            (CODE, code),
            (HDR, hdr),
            (EH_FRAME, eh_frame),
            (STACK, stack),
        ],
        reads: Cell::new(0),
        header,
    }
}

/// Code in which calls are frequent.
fn code() -> impl Strategy<Value = Vec<u8>> {
    vec(
        prop_oneof![Just(0xff_u8), Just(0xd0), Just(0xe8), Just(0), any::<u8>()],
        0x1000,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 1000 }))]

    #[test]
    fn random_bytes_as_tables(
        code in code(),
        mut hdr in vec(any::<u8>(), 0..256),
        eh_frame in vec(any::<u8>(), 0..512),
        stack in vec(stack_word(), 0..512),
        registers in registers(),
        header in any::<bool>(),
        valid_start in any::<bool>(),
        limit in 0_usize..40,
    ) {
        if valid_start && let Some(start) = hdr.get_mut(..4) {
            start.copy_from_slice(&[1, 0x1b, 0x03, 0x3b]);
        }
        check(&world(code, hdr, eh_frame, &stack, header), &registers, limit)?;
    }

    #[test]
    fn random_instructions_in_sound_tables(
        code in code(),
        eh_frame in plausible_eh_frame(),
        stack in vec(stack_word(), 0..512),
        registers in registers(),
        limit in 0_usize..40,
    ) {
        check(&world(code, Vec::new(), eh_frame, &stack, false), &registers, limit)?;
    }
}
