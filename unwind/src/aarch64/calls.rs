//! Telling return addresses from other words: the instruction before one is a call.

use super::names::LR;
use crate::Memory;
use crate::arch::Registers;

/// What the instruction before an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallBefore {
    /// `bl`, which leads to this address.
    Direct(u64),
    /// `blr`, or one of its authenticating forms.
    Indirect,
}

/// The call instruction that ends at `address`, if there is one.
pub(crate) fn call_before<M: Memory>(memory: &M, address: u64) -> Option<CallBefore> {
    if address & 3 != 0 {
        return None;
    }
    let call = address.wrapping_sub(4);
    let instruction = memory.read_u32(call)?;
    if instruction >> 26 == 0b10_0101 {
        // 26 bits, sign-extended, in instructions.
        let distance = i64::from((instruction << 6).cast_signed() >> 4);
        return Some(CallBefore::Direct(call.wrapping_add_signed(distance)));
    }
    let blr = instruction & 0xffff_fc1f == 0xd63f_0000;
    let authenticating = instruction & 0xfeff_f800 == 0xd63f_0800;
    (blr || authenticating).then_some(CallBefore::Indirect)
}

/// Where a stub of a procedure linkage table leads. Not read here: a call through a stub then
/// speaks less for a candidate.
pub(crate) fn stub_target<M: Memory>(_memory: &M, _address: u64) -> Option<u64> {
    None
}

/// Where a call through a table leads. Such a call names a register here, so it cannot be told.
pub(crate) fn table_target<M: Memory>(_memory: &M, _address: u64) -> Option<u64> {
    None
}

/// The link register, and the stack pointer, which a call does not move.
pub(crate) fn leaf_return_address<M: Memory>(
    registers: &Registers,
    _memory: &M,
) -> Option<(u64, u64)> {
    Some((registers.get(LR)?, registers.sp()))
}

/// Whether the code at `pc` begins or ends a function. The link register says enough here.
pub(crate) fn has_no_frame<M: Memory>(_memory: &M, _pc: u64) -> bool {
    false
}

/// The return address is in a register anyway.
pub(crate) fn pushed_behind_system_call<M: Memory>(_memory: &M, _pc: u64) -> Option<u8> {
    None
}

/// Whether a function begins by making itself a frame record: `stp x29, x30, [sp, -n]!`.
pub(crate) fn makes_frame_pointer<M: Memory>(memory: &M, start: u64) -> bool {
    memory
        .read_u32(start)
        .is_some_and(|first| first & 0xffc0_7fff == 0xa980_7bfd)
}

/// Whether a return address is that of Go's `runtime.goexit`, to which the first function of a goroutine returns: `nop; bl; nop`,
/// entered behind the first `nop`.
pub(crate) fn is_goroutine_end<M: Memory>(memory: &M, address: u64) -> bool {
    const NOP: u32 = 0xd503_201f;
    memory.read_u32(address.wrapping_sub(4)) == Some(NOP)
        && memory
            .read_u32(address)
            .is_some_and(|call| call >> 26 == 0b10_0101)
        && memory.read_u32(address.wrapping_add(4)) == Some(NOP)
}
