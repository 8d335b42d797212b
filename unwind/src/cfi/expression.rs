//! The evaluator of DWARF expressions in call frame information, and the shapes of them that compact rules can hold.

use super::cursor::Cursor;
use super::row::Location;
use super::row::{Cfa, Row};
use crate::Memory;
use crate::arch::Registers;

/// Expressions of compilers need five; libgcc allows 64.
const STACK_WORDS: usize = 64;
/// Bounds loops by `DW_OP_skip` and `DW_OP_bra`.
const MAX_STEPS: u32 = 1024;

struct Stack {
    words: [u64; STACK_WORDS],
    depth: usize,
}

impl Stack {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.words.get_mut(self.depth)? = value;
        self.depth = self.depth.wrapping_add(1);
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.depth = self.depth.checked_sub(1)?;
        self.words.get(self.depth).copied()
    }

    /// The word `index` places below the top.
    fn peek(&self, index: u8) -> Option<u64> {
        let at = self.depth.checked_sub(1)?.checked_sub(usize::from(index))?;
        self.words.get(at).copied()
    }
}

/// Evaluates the expression at `address` (which begins with its length) in the frame of `registers`, with `initial` on the
/// stack when the rule says so. `None` when it needs an unknown register or unreadable memory, or is damaged.
#[inline(never)]
pub(crate) fn evaluate<M: Memory>(
    memory: &M,
    registers: &Registers,
    address: u64,
    initial: Option<u64>,
) -> Option<u64> {
    let mut cursor = Cursor::new(memory, address);
    let length = cursor.uleb()?;
    let start = cursor.address();
    let mut stack = Stack {
        words: [0; STACK_WORDS],
        depth: 0,
    };
    if let Some(value) = initial {
        stack.push(value)?;
    }
    for _ in 0..MAX_STEPS {
        if cursor.address().wrapping_sub(start) >= length {
            return stack.pop();
        }
        let opcode = cursor.u8()?;
        let value = match opcode {
            // DW_OP_addr
            0x03 => cursor.u64()?,
            // DW_OP_deref
            0x06 => memory.read_u64(stack.pop()?)?,
            // DW_OP_const1u .. DW_OP_const8s
            0x08 => u64::from(cursor.u8()?),
            0x09 => i64::from(cursor.u8()?.cast_signed()).cast_unsigned(),
            0x0a => u64::from(cursor.u16()?),
            0x0b => i64::from(cursor.u16()?.cast_signed()).cast_unsigned(),
            0x0c => u64::from(cursor.u32()?),
            0x0d => i64::from(cursor.u32()?.cast_signed()).cast_unsigned(),
            0x0e | 0x0f => cursor.u64()?,
            // DW_OP_constu, DW_OP_consts
            0x10 => cursor.uleb()?,
            0x11 => cursor.sleb()?.cast_unsigned(),
            // DW_OP_dup
            0x12 => stack.peek(0)?,
            // DW_OP_drop
            0x13 => {
                stack.pop()?;
                continue;
            }
            // DW_OP_over, DW_OP_pick
            0x14 => stack.peek(1)?,
            0x15 => stack.peek(cursor.u8()?)?,
            // DW_OP_swap
            0x16 => {
                let (top, second) = (stack.pop()?, stack.pop()?);
                stack.push(top)?;
                second
            }
            // DW_OP_rot: the top becomes the third.
            0x17 => {
                let (top, second, third) = (stack.pop()?, stack.pop()?, stack.pop()?);
                stack.push(top)?;
                stack.push(third)?;
                second
            }
            // DW_OP_abs, DW_OP_neg, DW_OP_not
            0x19 => stack.pop()?.cast_signed().unsigned_abs(),
            0x1f => stack.pop()?.wrapping_neg(),
            0x20 => !stack.pop()?,
            // Operators with two operands.
            0x1a..=0x1e | 0x21 | 0x22 | 0x24..=0x27 | 0x29..=0x2e => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                binary(opcode, left, right)?
            }
            // DW_OP_plus_uconst
            0x23 => stack.pop()?.wrapping_add(cursor.uleb()?),
            // DW_OP_bra, DW_OP_skip
            0x28 | 0x2f => {
                let distance = i64::from(cursor.u16()?.cast_signed());
                if opcode == 0x2f || stack.pop()? != 0 {
                    cursor.seek(cursor.address().wrapping_add_signed(distance));
                }
                continue;
            }
            // DW_OP_lit0 .. DW_OP_lit31
            0x30..=0x4f => u64::from(opcode.wrapping_sub(0x30)),
            // DW_OP_breg0 .. DW_OP_breg31
            0x70..=0x8f => {
                let base = registers.get(opcode.wrapping_sub(0x70))?;
                base.wrapping_add_signed(cursor.sleb()?)
            }
            // DW_OP_bregx
            0x92 => {
                let base = registers.get(cursor.register()?)?;
                base.wrapping_add_signed(cursor.sleb()?)
            }
            // DW_OP_deref_size
            0x94 => {
                let size = cursor.u8()?;
                let at = stack.pop()?;
                match size {
                    1 => u64::from(memory.read_u8(at)?),
                    2 => u64::from(memory.read_u16(at)?),
                    4 => u64::from(memory.read_u32(at)?),
                    8 => memory.read_u64(at)?,
                    _ => return None,
                }
            }
            // DW_OP_nop
            0x96 => continue,
            _ => return None,
        };
        stack.push(value)?;
    }
    None
}

fn binary(opcode: u8, left: u64, right: u64) -> Option<u64> {
    let (signed_left, signed_right) = (left.cast_signed(), right.cast_signed());
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    Some(match opcode {
        0x1a => left & right,
        0x1b => signed_left.checked_div(signed_right)?.cast_unsigned(),
        0x1c => left.wrapping_sub(right),
        0x1d => left.checked_rem(right)?,
        0x1e => left.wrapping_mul(right),
        0x21 => left | right,
        0x22 => left.wrapping_add(right),
        0x24 => left.checked_shl(shift).unwrap_or(0),
        0x25 => left.checked_shr(shift).unwrap_or(0),
        0x26 => (signed_left >> shift.min(63)).cast_unsigned(),
        0x27 => left ^ right,
        // Comparisons are signed.
        0x29 => u64::from(left == right),
        0x2a => u64::from(signed_left >= signed_right),
        0x2b => u64::from(signed_left > signed_right),
        0x2c => u64::from(signed_left <= signed_right),
        0x2d => u64::from(signed_left < signed_right),
        0x2e => u64::from(left != right),
        _ => return None,
    })
}

/// A CFA that a compact rule can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CfaShape {
    /// `register + offset`.
    Register { register: u8, offset: i64 },
    /// `*(register + offset) + then`: the prologue of a function that realigns the stack keeps the CFA there (GCC's DRAP).
    Dereference {
        register: u8,
        offset: i64,
        then: i64,
    },
}

/// The shape of a row's CFA. With `pc`, the frame's exact program counter, the expression of a PLT has one too.
pub(crate) fn shape_of_cfa<M: Memory>(row: &Row, memory: &M, pc: Option<u64>) -> Option<CfaShape> {
    let address = match row.cfa {
        Cfa::Undefined => return None,
        Cfa::Register { register, offset } => return Some(CfaShape::Register { register, offset }),
        Cfa::Expression(address) => address,
    };
    let mut cursor = Cursor::new(memory, address);
    let length = cursor.uleb()?;
    let end = cursor.address().wrapping_add(length);
    let (register, offset) = based_register(&mut cursor)?;
    if cursor.address() == end {
        return Some(CfaShape::Register { register, offset });
    }
    match cursor.u8()? {
        // DW_OP_deref, and perhaps DW_OP_plus_uconst.
        0x06 => {
            let mut then = 0;
            if cursor.address() != end {
                if cursor.u8()? != 0x23 {
                    return None;
                }
                then = cursor.uleb()?.cast_signed();
            }
            (cursor.address() == end).then_some(CfaShape::Dereference {
                register,
                offset,
                then,
            })
        }
        // DW_OP_breg16 (rip) + 0, lit15, and, lit N, ge, lit3, shl, plus: eight bytes more once the stub has pushed its index,
        // which is in the instruction at N of sixteen.
        0x80 if crate::arch::RETURN_ADDRESS == 16 => {
            let pc = pc?;
            let b = [
                cursor.u8()?,
                cursor.u8()?,
                cursor.u8()?,
                cursor.u8()?,
                cursor.u8()?,
                cursor.u8()?,
                cursor.u8()?,
                cursor.u8()?,
            ];
            let [0, 0x3f, 0x1a, literal @ 0x30..=0x4f, 0x2a, 0x33, 0x24, 0x22] = b else {
                return None;
            };
            if cursor.address() != end {
                return None;
            }
            let pushed = pc & 15 >= u64::from(literal.wrapping_sub(0x30));
            let offset = offset.wrapping_add(if pushed { 8 } else { 0 });
            Some(CfaShape::Register { register, offset })
        }
        _ => None,
    }
}

/// The register and offset of an expression that is nothing else.
pub(crate) fn shape_of_location<M: Memory>(
    row: &Row,
    memory: &M,
    location: Location,
) -> Option<(u8, i64)> {
    let mut cursor = Cursor::new(memory, row.address_of(location));
    let length = cursor.uleb()?;
    let end = cursor.address().wrapping_add(length);
    let shape = based_register(&mut cursor)?;
    (cursor.address() == end).then_some(shape)
}

/// `DW_OP_breg0 .. 31`: a register and an offset.
fn based_register<M: Memory>(cursor: &mut Cursor<'_, M>) -> Option<(u8, i64)> {
    let opcode = cursor.u8()?;
    if !(0x70..=0x8f).contains(&opcode) {
        return None;
    }
    Some((opcode.wrapping_sub(0x70), cursor.sleb()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfi::testing::Bytes;
    use crate::register::{R10, RBP, RSP};

    /// An expression with its length before it.
    fn memory(expression: &[u8], then: &[u8]) -> Bytes {
        let mut bytes = [0; 256];
        bytes[0] = u8::try_from(expression.len()).unwrap();
        bytes[1..=expression.len()].copy_from_slice(expression);
        bytes[128..128 + then.len()].copy_from_slice(then);
        Bytes::new(&bytes)
    }

    fn run(expression: &[u8]) -> Option<u64> {
        let registers = Registers::new(0x40_100b, 0x1000, 0x2000);
        evaluate(&memory(expression, &[]), &registers, Bytes::BASE, None)
    }

    fn row_with_cfa_expression() -> Row {
        let mut row = Row::new(Bytes::BASE);
        row.cfa = Cfa::Expression(Bytes::BASE);
        row
    }

    /// What binutils emit for a PLT, byte by byte: the CFA is `rsp + 8`, and eight more once the stub has pushed its index.
    const PLT: &[u8] = &[
        0x77, 0x08, // breg7 (rsp) + 8
        0x80, 0x00, // breg16 (rip) + 0
        0x3f, // lit15
        0x1a, // and: where in the stub of sixteen bytes
        0x3b, // lit11: the push ends there
        0x2a, // ge: 1 when the index has been pushed
        0x33, // lit3
        0x24, // shl: 8 or 0
        0x22, // plus
    ];

    #[test]
    fn the_cfa_of_a_plt_depends_on_the_program_counter() {
        let row = row_with_cfa_expression();
        let memory = memory(PLT, &[]);
        for (pc, offset) in [
            (0x40_1000, 8),
            (0x40_1006, 8),
            (0x40_100a, 8),
            (0x40_100b, 16),
        ] {
            let registers = Registers::new(pc, 0x1000, 0);
            assert_eq!(
                evaluate(&memory, &registers, Bytes::BASE, None),
                Some(0x1000 + offset),
                "{pc:#x}"
            );
            let expected = CfaShape::Register {
                register: RSP,
                offset: offset.cast_signed(),
            };
            assert_eq!(shape_of_cfa(&row, &memory, Some(pc)), Some(expected));
        }
        assert_eq!(
            shape_of_cfa(&row, &memory, None),
            None,
            "not for return addresses"
        );
    }

    #[test]
    fn the_cfa_of_a_realigned_frame_is_read_from_memory() {
        // GCC's DRAP prologue: lea 8(%rsp),%r10; and $-64,%rsp; push -8(%r10); push %rbp; mov %rsp,%rbp; push %r10.
        let drap = [
            0x76, 0x78, // breg6 (rbp) - 8: where r10, which is the CFA, was pushed
            0x06, // deref
        ];
        let memory = memory(&drap, &0x7fff_1230_u64.to_le_bytes());
        let slot = Bytes::BASE + 128;
        let registers = Registers::new(0x40_0000, 0x1000, slot + 8);
        assert_eq!(
            evaluate(&memory, &registers, Bytes::BASE, None),
            Some(0x7fff_1230)
        );
        let shape = shape_of_cfa(&row_with_cfa_expression(), &memory, None);
        let expected = CfaShape::Dereference {
            register: RBP,
            offset: -8,
            then: 0,
        };
        assert_eq!(shape, Some(expected));
    }

    #[test]
    fn a_saved_register_may_lie_at_an_offset_from_rbp() {
        let mut row = Row::new(Bytes::BASE);
        let location = row.location_of(Bytes::BASE);
        row.set_rule(RBP, crate::cfi::RegisterRule::Expression(location));
        let at_rbp_minus_16 = memory(&[0x76, 0x70], &[]);
        assert_eq!(
            shape_of_location(&row, &at_rbp_minus_16, location),
            Some((RBP, -16))
        );
        let more = memory(&[0x76, 0x70, 0x06], &[]);
        assert_eq!(shape_of_location(&row, &more, location), None);
    }

    #[test]
    fn an_unknown_register_fails() {
        let registers = Registers::new(0, 0, 0);
        let memory = memory(&[0x7a, 0x00], &[]); // breg10 + 0
        assert_eq!(registers.get(R10), None);
        assert_eq!(evaluate(&memory, &registers, Bytes::BASE, None), None);
    }

    #[test]
    fn operators_compute() {
        let minus_one = u64::MAX;
        let cases: &[(&str, &[u8], Option<u64>)] = &[
            ("lit31", &[0x4f], Some(31)),
            ("const1s", &[0x09, 0xff], Some(minus_one)),
            ("const2u", &[0x0a, 0x34, 0x12], Some(0x1234)),
            (
                "const4s",
                &[0x0d, 0xfe, 0xff, 0xff, 0xff],
                Some(minus_one - 1),
            ),
            ("constu", &[0x10, 0x80, 0x01], Some(128)),
            ("dup, plus", &[0x33, 0x12, 0x22], Some(6)),
            (
                "over, minus",
                &[0x35, 0x33, 0x14, 0x1c],
                Some(3_u64.wrapping_sub(5)),
            ),
            ("pick 2", &[0x31, 0x32, 0x33, 0x15, 2], Some(1)),
            ("swap, minus", &[0x33, 0x35, 0x16, 0x1c], Some(2)),
            ("rot", &[0x31, 0x32, 0x33, 0x17], Some(2)),
            (
                "rot, drop: the former third",
                &[0x31, 0x32, 0x33, 0x17, 0x13],
                Some(1),
            ),
            ("neg, abs", &[0x37, 0x1f, 0x19], Some(7)),
            (
                "div is signed",
                &[0x38, 0x1f, 0x32, 0x1b],
                Some(4_u64.wrapping_neg()),
            ),
            ("div by zero", &[0x38, 0x30, 0x1b], None),
            ("mod by zero", &[0x38, 0x30, 0x1d], None),
            ("shift too far", &[0x31, 0x08, 64, 0x24], Some(0)),
            (
                "shra",
                &[0x38, 0x1f, 0x32, 0x26],
                Some(2_u64.wrapping_neg()),
            ),
            ("lt is signed", &[0x31, 0x1f, 0x31, 0x2d], Some(1)),
            ("bra over lit5", &[0x37, 0x31, 0x28, 1, 0, 0x35], Some(7)),
            ("bra not taken", &[0x37, 0x30, 0x28, 1, 0, 0x35], Some(5)),
            ("skip backwards for ever", &[0x2f, 0xfd, 0xff], None),
            ("pop of nothing", &[0x22], None),
            ("nothing", &[], None),
            ("unknown opcode", &[0xe0], None),
            ("deref of nothing mapped", &[0x30, 0x06], None),
        ];
        for (name, expression, expected) in cases {
            assert_eq!(run(expression), *expected, "{name}");
        }
    }

    #[test]
    fn the_stack_holds_64_words() {
        let mut expression = [0x31; 65];
        assert_eq!(run(&expression[..64]), Some(1));
        assert_eq!(run(&expression), None);
        expression[64] = 0x96; // nop
        assert_eq!(run(&expression), Some(1));
    }
}
