//! Applying a complete row: every register, every kind of rule.

use super::expression;
use super::row::{Cfa, RegisterRule, Row};
use crate::Memory;
use crate::arch::{CALLEE_SAVED, REGISTER_COUNT, RETURN_ADDRESS, Registers, STACK_POINTER};
use crate::frames::Broken;

/// Replaces the registers by the caller's, and says the CFA. When it fails, the registers are as before.
#[inline(never)]
pub(crate) fn to_caller<M: Memory>(
    row: &Row,
    registers: &mut Registers,
    memory: &M,
) -> Result<u64, Broken> {
    let callee = *registers;
    let mut pc = None;
    let cfa = match row.cfa {
        Cfa::Undefined => return Err(Broken::BadTables),
        Cfa::Register { register, offset } => callee
            .get(register)
            .ok_or(Broken::UnknownRegister)?
            .wrapping_add_signed(offset),
        Cfa::Expression(address) => {
            expression::evaluate(memory, &callee, address, None).ok_or(Broken::UnknownRegister)?
        }
    };
    // The tracked registers all have numbers below 64.
    for register in 0..REGISTER_COUNT as u8 {
        let value = match row.rule(register) {
            RegisterRule::Unspecified if register == STACK_POINTER => Some(cfa),
            RegisterRule::Unspecified if CALLEE_SAVED >> (register & 63) & 1 == 0 => None,
            RegisterRule::Unspecified | RegisterRule::Same => callee.get(register),
            RegisterRule::Undefined => None,
            RegisterRule::Offset(offset) => memory.read_u64(cfa.wrapping_add_signed(offset)),
            RegisterRule::ValueOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(other) => callee.get(other),
            RegisterRule::Expression(location) => {
                expression::evaluate(memory, &callee, row.address_of(location), Some(cfa))
                    .and_then(|address| memory.read_u64(address))
            }
            RegisterRule::ValueExpression(location) => {
                expression::evaluate(memory, &callee, row.address_of(location), Some(cfa))
            }
        };
        match value {
            Some(value) => registers.set(register, value),
            None => registers.forget(register),
        }
        if register == RETURN_ADDRESS {
            pc = value;
        }
    }
    // The column of the return address is the caller's program counter.
    match pc {
        Some(pc) => {
            registers.set_pc(pc);
            Ok(cfa)
        }
        None => {
            *registers = callee;
            Err(Broken::UnreadableStack)
        }
    }
}
