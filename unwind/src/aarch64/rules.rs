//! Compact rules: what nearly all rows of call frame information come down to, in two words.
//!
//! ```text
//! word 0:  kind 0..3 | register of the CFA 3..8 | offset 8..40 | slot of fp 40..52 | slot of lr 52..64
//! word 1:  ten slots of six bits: x19 .. x28
//! slot:    signed index in words, for fp and lr from the CFA, for the others from fp's slot; 0: the register is unchanged
//! ```
//!
//! Functions store fp and lr at the lower end of their frame, however large it is, and the others right above.

use super::Registers;
use super::names::{FP, LR, SP, X19};
use super::{CALLEE_SAVED, REGISTER_COUNT};
use crate::Memory;
use crate::cfi::{CfaShape, Kind, RegisterRule, Row, Rule, Simple, shape_of_cfa};
use crate::frames::Broken;

const PAIRED: usize = 10;
const _: () = assert!(PAIRED * 6 <= 64);

/// Where the callee-saved registers of a frame were saved by its callees (`x19` to `x29`); 0: nowhere, they are in the registers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Saved([u64; PAIRED + 1]);

impl Saved {
    #[inline(always)]
    fn get<M: Memory>(&self, register: u8, registers: &Registers, memory: &M) -> Option<u64> {
        let index = usize::from(register.wrapping_sub(X19));
        match self.0.get(index) {
            Some(&location) if location != 0 => memory.read_u64(location),
            _ => registers.get(register),
        }
    }

    /// The frame pointer in the frame.
    #[inline]
    pub(crate) fn frame_pointer<M: Memory>(
        &self,
        registers: &Registers,
        memory: &M,
    ) -> Option<u64> {
        self.get(FP, registers, memory)
    }

    /// Reads all saved registers.
    #[inline(never)]
    pub(crate) fn load<M: Memory>(&mut self, registers: &mut Registers, memory: &M) {
        for (register, location) in (X19..=FP).zip(&mut self.0) {
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

/// Packs a row, or says `None` when it does not fit.
pub(crate) fn pack<M: Memory>(row: &Row, memory: &M, pc: Option<u64>) -> Option<Rule> {
    let Some(CfaShape::Register { register, offset }) = shape_of_cfa(row, memory, pc) else {
        return None;
    };
    if usize::from(register) >= REGISTER_COUNT || row.rule(SP) != RegisterRule::Unspecified {
        return None;
    }
    let offset = i32::try_from(offset).ok()?.cast_unsigned();
    let fp = index(row.rule(FP), 0, 12)?;
    let lr = index(row.rule(LR), 0, 12)?;
    let base = sign_extend(fp, 12) << 3;
    let mut slots = 0;
    let mut shift = 0_u32;
    for register in X19..FP {
        slots |= index(row.rule(register), base, 6)? << (shift & 63);
        shift = shift.wrapping_add(6);
    }
    let word = Kind::Register as u64
        | u64::from(register & 31) << 3
        | u64::from(offset) << 8
        | fp << 40
        | lr << 52;
    Some(Rule([word, slots]))
}

/// The slot of a register rule, in `bits` bits.
fn index(rule: RegisterRule, base: i64, bits: u32) -> Option<u64> {
    let offset = match rule {
        RegisterRule::Unspecified | RegisterRule::Same => return Some(0),
        RegisterRule::Offset(offset) => offset.wrapping_sub(base),
        _ => return None,
    };
    let index = offset >> 3;
    let packed = index.cast_unsigned() & (u64::MAX >> (64_u32.wrapping_sub(bits) & 63));
    let fits = offset & 7 == 0 && index != 0 && sign_extend(packed, bits) == index;
    fits.then_some(packed)
}

#[inline(always)]
fn sign_extend(value: u64, bits: u32) -> i64 {
    let unused = 64_u32.wrapping_sub(bits) & 63;
    (value << unused).cast_signed() >> unused
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
    let cfa = base.wrapping_add_signed(i64::from((word >> 8) as u32 as i32));
    let slot = return_slot(rule);
    let return_address = if slot == 0 {
        registers.get(LR).ok_or(Broken::UnknownRegister)?
    } else {
        memory
            .read_u64(cfa.wrapping_add(slot))
            .ok_or(Broken::UnreadableStack)?
    };
    Ok((cfa, return_address))
}

/// Where the return address lies from the CFA, in bytes; 0 when it is in the link register.
#[inline(always)]
pub(crate) fn return_slot(rule: Rule) -> u64 {
    let Rule([word, _]) = rule;
    (sign_extend(word >> 52, 12) << 3).cast_unsigned()
}

/// The CFA of a frame that a rule addresses by the frame pointer, with this value.
pub(crate) fn cfa_at_frame_pointer(rule: Rule, fp: u64) -> Option<u64> {
    let Rule([word, _]) = rule;
    let offset = i64::from((word >> 8) as u32 as i32);
    let by_pointer = word >> 3 & 31 == u64::from(FP) && rule.kind() == Kind::Register;
    by_pointer.then(|| fp.wrapping_add_signed(offset))
}

/// Where the CFA of a frame probably is that is addressed by a register which is not known: the frame pointer is the stack pointer
/// once it is set up, in nearly all functions. Ended by zero.
pub(crate) fn likely_cfas<M: Memory>(
    rule: Rule,
    sp: u64,
    _memory: &M,
    _start: u64,
    _size: u64,
) -> [u64; 5] {
    let Rule([word, _]) = rule;
    let offset = i64::from((word >> 8) as u32 as i32);
    [sp.wrapping_add_signed(offset), 0, 0, 0, 0]
}

/// Whether the CFA is computed from the stack pointer, so that it cannot leave the stack that the frame is on.
#[inline(always)]
pub(crate) fn stays_on_stack(rule: Rule) -> bool {
    let Rule([word, _]) = rule;
    word >> 3 & 31 == u64::from(SP)
}

/// A packed rule that is as simple, of kind [`Kind::Register`]: one whose return address is not in the link register.
#[inline(always)]
pub(crate) fn simple(rule: Rule) -> Option<Simple> {
    let Rule([word, _]) = rule;
    let register = (word >> 3 & 31) as u8;
    let return_slot = return_slot(rule);
    (matches!(register, SP | FP) && return_slot != 0).then_some(Simple {
        by_fp: register == FP,
        offset: i64::from((word >> 8) as u32 as i32).cast_unsigned(),
        return_slot,
        fp_slot: (sign_extend(word >> 40 & 0xfff, 12) << 3).cast_unsigned(),
    })
}

/// Replaces the registers by the caller's: callee-saved ones from their slots, `sp` by the CFA, the others unknown.
#[inline(always)]
pub(crate) fn apply<M: Memory>(
    rule: Rule,
    cfa: u64,
    return_address: u64,
    registers: &mut Registers,
    saved: &mut Saved,
    _memory: &M,
) {
    let Rule([word, mut slots]) = rule;
    let fp_offset = sign_extend(word >> 40 & 0xfff, 12) << 3;
    let base = cfa.wrapping_add_signed(fp_offset);
    let [paired @ .., fp] = &mut saved.0;
    for location in paired {
        let offset = sign_extend(slots & 63, 6) << 3;
        slots >>= 6;
        let moved = base.wrapping_add_signed(offset);
        *location = if offset == 0 { *location } else { moved };
    }
    *fp = if fp_offset == 0 { *fp } else { base };
    // The link register is dead in a caller: the call has overwritten it.
    registers.keep_only(CALLEE_SAVED & !(1 << LR));
    registers.set_sp(cfa);
    registers.set_pc(return_address);
}
