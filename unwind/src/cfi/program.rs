//! The interpreter of call frame instructions: from an FDE to the row of unwind rules for one address.

use super::cursor::Cursor;
use super::entry::Fde;
use super::row::{Cfa, RegisterRule, Row};
use crate::Memory;

/// How many rows `DW_CFA_remember_state` can put aside. Compilers do not nest it; each costs a hundred bytes of stack.
const REMEMBERED_ROWS: usize = 2;

/// Makes `row`, which is new, the one that holds at `pc`.
#[inline(never)]
pub(crate) fn run_to<M: Memory>(memory: &M, fde: &Fde, pc: u64, row: &mut Row) -> Option<()> {
    let cie = &fde.cie;
    // A CIE cannot restore anything: what it says is the initial row.
    let mut initial = *row;
    run(
        memory,
        fde,
        (cie.instructions, cie.end),
        u64::MAX,
        row,
        &mut initial,
    )?;
    *row = initial;
    run(memory, fde, (fde.instructions, fde.end), pc, &initial, row)
}

/// Executes the instructions in `(start, end)` until the location passes `pc`.
#[inline(never)]
fn run<M: Memory>(
    memory: &M,
    fde: &Fde,
    (start, end): (u64, u64),
    pc: u64,
    initial: &Row,
    row: &mut Row,
) -> Option<()> {
    let code_alignment = fde.cie.code_alignment;
    let data_alignment = fde.cie.data_alignment;
    let factored = |offset: u64| offset.cast_signed().wrapping_mul(data_alignment);

    let mut remembered = [*initial; REMEMBERED_ROWS];
    let mut depth = 0_usize;
    let mut location = fde.start;
    let mut cursor = Cursor::new(memory, start);
    // Every instruction takes a byte at least, so the end is reached; a table that claims to be larger than any is cut.
    let length = end.wrapping_sub(start).min(1 << 16);
    while cursor.address().wrapping_sub(start) < length {
        let opcode = cursor.u8()?;
        let low = opcode & 0x3f;
        let mut advance = None;
        match opcode >> 6 {
            0b01 => advance = Some(u64::from(low)),
            0b10 => {
                let offset = factored(cursor.uleb()?);
                row.set_rule(low, RegisterRule::Offset(offset))?;
            }
            0b11 => row.restore(low, initial),
            _ => match low {
                // DW_CFA_nop
                0x00 => {}
                // DW_CFA_set_loc
                0x01 => {
                    let address = cursor.pointer(fde.cie.pointer_encoding, 0)?;
                    if address > pc {
                        return Some(());
                    }
                    location = address;
                }
                // DW_CFA_advance_loc1, 2, 4
                0x02 => advance = Some(u64::from(cursor.u8()?)),
                0x03 => advance = Some(u64::from(cursor.u16()?)),
                0x04 => advance = Some(u64::from(cursor.u32()?)),
                // DW_CFA_offset_extended
                0x05 => {
                    let register = cursor.register()?;
                    let offset = factored(cursor.uleb()?);
                    row.set_rule(register, RegisterRule::Offset(offset))?;
                }
                // DW_CFA_restore_extended
                0x06 => row.restore(cursor.register()?, initial),
                // DW_CFA_undefined
                0x07 => row.set_rule(cursor.register()?, RegisterRule::Undefined)?,
                // DW_CFA_same_value
                0x08 => row.set_rule(cursor.register()?, RegisterRule::Same)?,
                // DW_CFA_register
                0x09 => {
                    let register = cursor.register()?;
                    let other = cursor.register()?;
                    row.set_rule(register, RegisterRule::Register(other))?;
                }
                // DW_CFA_remember_state
                0x0a => {
                    *remembered.get_mut(depth)? = *row;
                    depth = depth.wrapping_add(1);
                }
                // DW_CFA_restore_state
                0x0b => {
                    depth = depth.checked_sub(1)?;
                    *row = *remembered.get(depth)?;
                }
                // DW_CFA_def_cfa
                0x0c => {
                    let register = cursor.register()?;
                    let offset = cursor.uleb()?.cast_signed();
                    row.cfa = Cfa::Register { register, offset };
                }
                // DW_CFA_def_cfa_register
                0x0d => {
                    let new = cursor.register()?;
                    let Cfa::Register { register, .. } = &mut row.cfa else {
                        return None;
                    };
                    *register = new;
                }
                // DW_CFA_def_cfa_offset
                0x0e => {
                    let new = cursor.uleb()?.cast_signed();
                    let Cfa::Register { offset, .. } = &mut row.cfa else {
                        return None;
                    };
                    *offset = new;
                }
                // DW_CFA_def_cfa_expression
                0x0f => {
                    row.cfa = Cfa::Expression(cursor.address());
                    let length = cursor.uleb()?;
                    cursor.skip(length);
                }
                // DW_CFA_expression, DW_CFA_val_expression
                0x10 | 0x16 => {
                    let register = cursor.register()?;
                    let expression = row.location_of(cursor.address());
                    let length = cursor.uleb()?;
                    cursor.skip(length);
                    let rule = if low == 0x10 {
                        RegisterRule::Expression(expression)
                    } else {
                        RegisterRule::ValueExpression(expression)
                    };
                    row.set_rule(register, rule)?;
                }
                // DW_CFA_offset_extended_sf
                0x11 => {
                    let register = cursor.register()?;
                    let offset = cursor.sleb()?.wrapping_mul(data_alignment);
                    row.set_rule(register, RegisterRule::Offset(offset))?;
                }
                // DW_CFA_def_cfa_sf
                0x12 => {
                    let register = cursor.register()?;
                    let offset = cursor.sleb()?.wrapping_mul(data_alignment);
                    row.cfa = Cfa::Register { register, offset };
                }
                // DW_CFA_def_cfa_offset_sf
                0x13 => {
                    let new = cursor.sleb()?.wrapping_mul(data_alignment);
                    let Cfa::Register { offset, .. } = &mut row.cfa else {
                        return None;
                    };
                    *offset = new;
                }
                // DW_CFA_val_offset, DW_CFA_val_offset_sf
                0x14 => {
                    let register = cursor.register()?;
                    let offset = factored(cursor.uleb()?);
                    row.set_rule(register, RegisterRule::ValueOffset(offset))?;
                }
                0x15 => {
                    let register = cursor.register()?;
                    let offset = cursor.sleb()?.wrapping_mul(data_alignment);
                    row.set_rule(register, RegisterRule::ValueOffset(offset))?;
                }
                // DW_CFA_AARCH64_negate_ra_state (GNU_window_save on SPARC): return addresses are stripped anyway.
                0x2d => {}
                // DW_CFA_GNU_args_size
                0x2e => _ = cursor.uleb()?,
                // DW_CFA_GNU_negative_offset_extended
                0x2f => {
                    let register = cursor.register()?;
                    let offset = factored(cursor.uleb()?).wrapping_neg();
                    row.set_rule(register, RegisterRule::Offset(offset))?;
                }
                _ => return None,
            },
        }
        if let Some(delta) = advance {
            location = location.wrapping_add(delta.wrapping_mul(code_alignment));
            if location > pc {
                break;
            }
        }
    }
    Some(())
}
