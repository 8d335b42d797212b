//! Compact rules: what nearly all rows of call frame information come down to, in two words.
//!
//! ```text
//! word 0:  kind 0..3 | register of the CFA 3..8 | offset 8..40 | offset after the dereference 40..56 | return address slot 56..64
//! word 1:  six slots of ten bits: rbx rbp r12 r13 r14 r15
//! slot:    index -256..255 in bits 0..9, in words from the CFA, or from rbp's value when bit 9 is set; 0: the register is unchanged
//! bit 60 of word 1: some slot is relative to rbp
//! ```
//!
//! The slots relative to rbp are those of functions that realign the stack (GCC's DRAP): there the distance between CFA and save area
//! is not a constant.

use super::{CfaShape, Kind, RegisterRule, Row, Rule, Simple, shape_of_cfa, shape_of_location};
use crate::Memory;
use crate::arch::names::{R12, R13, R14, R15, RBP, RBX, RIP, RSP};
use crate::arch::{CALLEE_SAVED, REGISTER_COUNT, Registers, calls};
use crate::frames::Broken;

const SLOTS: [u8; 6] = [RBX, RBP, R12, R13, R14, R15];
const SLOT_BITS: u32 = 10;
const FROM_RBP: u64 = 1 << 9;
const SOME_FROM_RBP: u64 = 1 << 60;

/// Where the callee-saved registers of a frame were saved by its callees; 0: nowhere, they are in the registers.
///
/// Most of them are saved and restored by frame after frame without being needed: a walk notes where they are, and reads one when
/// a CFA asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Saved([u64; SLOTS.len()]);

impl Saved {
    /// The value of a register in the frame.
    #[inline(always)]
    fn get<M: Memory>(&self, register: u8, registers: &Registers, memory: &M) -> Option<u64> {
        let Self([rbx, rbp, r12, r13, r14, r15]) = *self;
        let location = match register {
            RSP => return Some(registers.sp()),
            RBP => rbp,
            RBX => rbx,
            R12 => r12,
            R13 => r13,
            R14 => r14,
            R15 => r15,
            _ => 0,
        };
        if location == 0 {
            return registers.get(register);
        }
        memory.read_u64(location)
    }

    /// The frame pointer in the frame.
    #[inline]
    pub(crate) fn frame_pointer<M: Memory>(
        &self,
        registers: &Registers,
        memory: &M,
    ) -> Option<u64> {
        self.get(RBP, registers, memory)
    }

    /// Reads all saved registers.
    #[inline(never)]
    pub(crate) fn load<M: Memory>(&mut self, registers: &mut Registers, memory: &M) {
        for (register, location) in SLOTS.into_iter().zip(&mut self.0) {
            if *location != 0 {
                match memory.read_u64(*location) {
                    Some(value) => registers.set(register, value),
                    None => registers.forget(register),
                }
                *location = 0;
            }
        }
    }
}

const _: () = assert!(REGISTER_COUNT == 17 && SLOTS.len() * SLOT_BITS as usize <= 64);

/// Packs a row, or says `None` when it does not fit. `pc` is the frame's program counter when that is exact.
pub(crate) fn pack<M: Memory>(row: &Row, memory: &M, pc: Option<u64>) -> Option<Rule> {
    let (kind, register, offset, offset2) = match shape_of_cfa(row, memory, pc)? {
        CfaShape::Register { register, offset } => (Kind::Register, register, offset, 0),
        CfaShape::Dereference {
            register,
            offset,
            then,
        } => (Kind::Dereference, register, offset, then),
    };
    if usize::from(register) >= REGISTER_COUNT {
        return None;
    }
    let offset = i32::try_from(offset).ok()?.cast_unsigned();
    let offset2 = i16::try_from(offset2).ok()?.cast_unsigned();
    let return_slot = match row.rule(RIP) {
        RegisterRule::Offset(offset) if offset & 7 == 0 => i8::try_from(offset >> 3).ok()?,
        _ => return None,
    };
    match row.rule(RSP) {
        RegisterRule::Unspecified => {}
        RegisterRule::ValueOffset(0) => {}
        _ => return None,
    }
    let mut slots = 0;
    let mut some_from_rbp = 0;
    let mut shift = 0_u32;
    for register in SLOTS {
        let slot = match row.rule(register) {
            RegisterRule::Unspecified | RegisterRule::Same => 0,
            RegisterRule::Offset(offset) => match index(offset)? {
                0 => return None,
                index => index,
            },
            RegisterRule::Expression(location) => {
                let (base, offset) = shape_of_location(row, memory, location)?;
                if base != RBP {
                    return None;
                }
                some_from_rbp = SOME_FROM_RBP;
                index(offset)? | FROM_RBP
            }
            _ => return None,
        };
        slots |= slot << (shift & 63);
        shift = shift.wrapping_add(SLOT_BITS);
    }
    let word = kind as u64
        | u64::from(register) << 3
        | u64::from(offset) << 8
        | u64::from(offset2) << 40
        | u64::from(return_slot.cast_unsigned()) << 56;
    Some(Rule([word, slots | some_from_rbp]))
}

/// Bytes to a nine-bit index of words.
fn index(offset: i64) -> Option<u64> {
    let index = offset >> 3;
    let fits = offset & 7 == 0 && (-256..256).contains(&index);
    fits.then_some(index.cast_unsigned() & 0x1ff)
}

/// The CFA and the return address by a packed rule.
#[inline(always)]
pub(crate) fn cfa_and_return_address<M: Memory>(
    rule: Rule,
    registers: &Registers,
    saved: &Saved,
    memory: &M,
) -> Result<(u64, u64), Broken> {
    let Rule([word, _]) = rule;
    let base = saved
        .get((word >> 3 & 31) as u8, registers, memory)
        .ok_or(Broken::UnknownRegister)?;
    let offset = i64::from((word >> 8) as u32 as i32);
    let mut cfa = base.wrapping_add_signed(offset);
    if rule.kind() == Kind::Dereference {
        let then = i64::from((word >> 40) as u16 as i16);
        cfa = memory
            .read_u64(cfa)
            .ok_or(Broken::UnreadableStack)?
            .wrapping_add_signed(then);
    }
    let at = return_slot(rule).wrapping_add(cfa);
    let return_address = memory.read_u64(at).ok_or(Broken::UnreadableStack)?;
    Ok((cfa, return_address))
}

/// Where the return address lies from the CFA, in bytes.
#[inline(always)]
pub(crate) fn return_slot(rule: Rule) -> u64 {
    let Rule([word, _]) = rule;
    (word.cast_signed() >> 56 << 3).cast_unsigned()
}

/// The CFA of a frame that a rule addresses by the frame pointer, with this value.
pub(crate) fn cfa_at_frame_pointer(rule: Rule, fp: u64) -> Option<u64> {
    let Rule([word, _]) = rule;
    let offset = i64::from((word >> 8) as u32 as i32);
    let by_pointer = word >> 3 & 31 == u64::from(RBP) && rule.kind() == Kind::Register;
    by_pointer.then(|| fp.wrapping_add_signed(offset))
}

/// Where the CFA of a frame probably is that is addressed by a register which is not known: above what the function at `start` saved
/// and took off the stack pointer. Ended by zero.
pub(crate) fn likely_cfas<M: Memory>(
    rule: Rule,
    sp: u64,
    memory: &M,
    start: u64,
    size: u64,
) -> [u64; 5] {
    let Rule([_, mut slots]) = rule;
    let mut lowest = return_slot(rule).cast_signed();
    for _ in SLOTS {
        // Nine bits, sign-extended, times eight.
        let offset = (slots << 55).cast_signed() >> 55 << 3;
        if slots & FROM_RBP == 0 {
            lowest = lowest.min(offset);
        }
        slots >>= SLOT_BITS;
    }
    let [a, b, c, d] = calls::frame_sizes(memory, start, size);
    let saved = sp.wrapping_add(lowest.unsigned_abs());
    let above = |taken: u64| match taken {
        0 => 0,
        taken => saved.wrapping_add(taken),
    };
    match above(a) {
        0 => [saved, 0, 0, 0, 0],
        first => [first, above(b), above(c), above(d), saved],
    }
}

/// Whether the CFA is computed from the stack pointer, so that it cannot leave the stack that the frame is on.
#[inline(always)]
pub(crate) fn stays_on_stack(rule: Rule) -> bool {
    let Rule([word, _]) = rule;
    word >> 3 & 31 == u64::from(RSP) && rule.kind() == Kind::Register
}

/// A packed rule that is as simple, of kind [`Kind::Register`].
#[inline(always)]
pub(crate) fn simple(rule: Rule) -> Option<Simple> {
    const FP_SHIFT: u32 = 64 - 9 - SLOT_BITS;
    let Rule([word, slots]) = rule;
    let register = (word >> 3 & 31) as u8;
    (matches!(register, RSP | RBP) && slots & SOME_FROM_RBP == 0).then_some(Simple {
        by_fp: register == RBP,
        offset: i64::from((word >> 8) as u32 as i32).cast_unsigned(),
        return_slot: return_slot(rule),
        // Nine bits, sign-extended, times eight.
        fp_slot: ((slots << FP_SHIFT).cast_signed() >> 55 << 3).cast_unsigned(),
    })
}

/// Replaces the registers by the caller's: callee-saved ones from their slots, `rsp` by the CFA, the others unknown.
#[inline(always)]
pub(crate) fn apply<M: Memory>(
    rule: Rule,
    cfa: u64,
    return_address: u64,
    registers: &mut Registers,
    saved: &mut Saved,
    memory: &M,
) {
    let Rule([_, slots]) = rule;
    if slots & SOME_FROM_RBP != 0 {
        apply_from_rbp(slots, cfa, registers, saved, memory);
    } else {
        // Without branches on which registers are saved: no processor could predict them.
        let mut shift = 64 - 9_u32;
        for location in &mut saved.0 {
            // Nine bits, sign-extended, times eight.
            let offset = ((slots << (shift & 63)).cast_signed() >> 55 << 3).cast_unsigned();
            let moved = cfa.wrapping_add(offset);
            *location = if offset == 0 { *location } else { moved };
            shift = shift.wrapping_sub(SLOT_BITS);
        }
    }
    registers.keep_only(CALLEE_SAVED);
    registers.set(RSP, cfa);
    registers.set(RIP, return_address);
}

#[inline(never)]
fn apply_from_rbp<M: Memory>(
    mut slots: u64,
    cfa: u64,
    registers: &Registers,
    saved: &mut Saved,
    memory: &M,
) {
    // GCC leaves the slots relative to rbp in force after the epilogue has popped rbp. The frame's own rbp lies in the frame; when
    // the register's value does not, all of them have been popped and are the caller's already.
    let sp = registers.sp();
    let own_rbp = saved
        .get(RBP, registers, memory)
        .filter(|rbp| rbp.wrapping_sub(sp) < cfa.wrapping_sub(sp));
    for location in &mut saved.0 {
        let slot = slots & 0x3ff;
        slots >>= SLOT_BITS;
        let offset = (slot << 55).cast_signed() >> 52;
        if slot & FROM_RBP != 0 {
            if let Some(rbp) = own_rbp {
                *location = rbp.wrapping_add_signed(offset);
            }
        } else if slot != 0 {
            *location = cfa.wrapping_add_signed(offset);
        }
    }
}
