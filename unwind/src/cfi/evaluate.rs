//! Applying a complete row: every register, every kind of rule.

use super::expression;
use super::row::{Cfa, RegisterRule, Row};
use crate::Memory;
use crate::arch::{CALLEE_SAVED, REGISTER_COUNT, RETURN_ADDRESS, Registers, STACK_POINTER};
use crate::frames::Broken;

/// The frame that a row leads to.
pub(crate) struct Caller {
    pub(crate) cfa: u64,
    pub(crate) registers: Registers,
}

/// The caller of the frame with these registers.
#[inline(never)]
pub(crate) fn caller<M: Memory>(
    row: &Row,
    registers: &Registers,
    memory: &M,
) -> Result<Caller, Broken> {
    let cfa = match row.cfa {
        Cfa::Undefined => return Err(Broken::BadTables),
        Cfa::Register { register, offset } => registers
            .get(register)
            .ok_or(Broken::UnknownRegister)?
            .wrapping_add_signed(offset),
        Cfa::Expression(address) => expression::evaluate(memory, registers, address, None)
            .ok_or(Broken::UnknownRegister)?,
    };
    let mut caller = Caller {
        cfa,
        registers: *registers,
    };
    // The tracked registers all have numbers below 64.
    for register in 0..REGISTER_COUNT as u8 {
        let value = match row.rule(register) {
            RegisterRule::Unspecified if register == STACK_POINTER => Some(cfa),
            RegisterRule::Unspecified if CALLEE_SAVED >> (register & 63) & 1 == 0 => None,
            RegisterRule::Unspecified | RegisterRule::Same => registers.get(register),
            RegisterRule::Undefined => None,
            RegisterRule::Offset(offset) => memory.read_u64(cfa.wrapping_add_signed(offset)),
            RegisterRule::ValueOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(other) => registers.get(other),
            RegisterRule::Expression(location) => {
                expression::evaluate(memory, registers, row.address_of(location), Some(cfa))
                    .and_then(|address| memory.read_u64(address))
            }
            RegisterRule::ValueExpression(location) => {
                expression::evaluate(memory, registers, row.address_of(location), Some(cfa))
            }
        };
        match value {
            Some(value) => caller.registers.set(register, value),
            None => caller.registers.forget(register),
        }
    }
    // The column of the return address is the caller's program counter.
    let pc = caller
        .registers
        .get(RETURN_ADDRESS)
        .ok_or(Broken::UnreadableStack)?;
    caller.registers.set_pc(pc);
    Ok(caller)
}
