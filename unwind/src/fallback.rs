//! Finding the caller of code that has no unwind information: hand-written assembly, generated code, a jump to nowhere.

use crate::arch::calls::{self, CallBefore};
use crate::arch::{self, Registers};
use crate::{Memory, Modules};

/// How many words of the stack are looked at for a return address.
pub(crate) const MAX_SCANNED_WORDS: u32 = 512;
/// How far from its first instruction a function is believed not to have moved the stack pointer by more than two words.
const PROLOGUE_BYTES: u64 = 64;
/// No frame is larger than this: 64 MiB.
const MAX_FRAME_BYTES: u64 = 64 << 20;

/// A caller that was not found through tables.
pub(crate) struct Guess {
    pub(crate) return_address: u64,
    pub(crate) sp: u64,
    pub(crate) fp: Option<u64>,
    /// More than one thing speaks for it.
    pub(crate) certain: bool,
}

/// Whether an address can be one of user code at all.
#[inline(always)]
pub(crate) fn is_user_address(address: u64) -> bool {
    // Below the first mappable page, or beyond what five-level page tables reach: neither is code.
    address.wrapping_sub(0x1000) < (1 << 56) - 0x1000
}

/// Whether `address` is in a module and follows a call, which leads into a module.
pub(crate) fn looks_like_return<M: Memory, S: Modules>(
    memory: &M,
    modules: &S,
    address: u64,
) -> bool {
    if !is_user_address(address) || modules.find(address.wrapping_sub(1)).is_none() {
        return false;
    }
    match calls::call_before(memory, address) {
        Some(CallBefore::Direct(target)) => modules.find(target).is_some(),
        Some(CallBefore::Indirect) => true,
        None => false,
    }
}

/// Whether a return address for which there are no tables is code at all: in a module, or after a call in generated code.
pub(crate) fn is_code<M: Memory, S: Modules>(memory: &M, modules: &S, address: u64) -> bool {
    modules.find(address).is_some() || calls::call_before(memory, address).is_some()
}

/// A leaf that has not made a frame, or has pushed no more than two words since it was called.
#[inline(never)]
pub(crate) fn near_entry<M: Memory, S: Modules>(
    registers: &Registers,
    memory: &M,
    modules: &S,
) -> Option<Guess> {
    let (return_address, mut sp) = calls::leaf_return_address(registers, memory)?;
    let return_address = arch::strip(return_address);
    if looks_like_return(memory, modules, return_address) {
        return Some(Guess {
            return_address,
            sp,
            fp: registers.fp(),
            certain: true,
        });
    }
    if arch::LINK_REGISTER {
        return None;
    }
    // In a stub or a prologue: the call that the word above tells of led to just before here.
    for _ in 0..2 {
        let return_address = memory.read_u64(sp)?;
        sp = sp.wrapping_add(8);
        if let Some(CallBefore::Direct(target)) = calls::call_before(memory, return_address)
            && registers.pc().wrapping_sub(target) < PROLOGUE_BYTES
            && modules.find(return_address).is_some()
        {
            return Some(Guess {
                return_address,
                sp,
                fp: plausible_fp(registers, sp),
                certain: true,
            });
        }
    }
    None
}

/// The frame pointer's value, if it can be the one of a frame above `sp`.
pub(crate) fn plausible_fp(registers: &Registers, sp: u64) -> Option<u64> {
    let fp = registers.fp()?;
    let above = fp.wrapping_sub(sp) < MAX_FRAME_BYTES;
    (above && fp & 7 == 0).then_some(fp)
}

/// The caller by the frame pointer, when that points to a saved frame pointer and a return address.
#[inline(never)]
pub(crate) fn frame_pointer<M: Memory, S: Modules>(
    registers: &Registers,
    memory: &M,
    modules: &S,
) -> Option<Guess> {
    let fp = plausible_fp(registers, registers.sp())?;
    let (saved, return_address) = frame_record(fp, memory)?;
    let certain = looks_like_return(memory, modules, return_address);
    if !certain {
        // Generated code is in no module. Believe it when its own caller's record is sound, too.
        calls::call_before(memory, return_address)?;
        let (_, next) = frame_record(saved, memory)?;
        calls::call_before(memory, next)?;
    }
    Some(Guess {
        return_address,
        sp: arch::caller_sp(fp.wrapping_add(16), Some(saved)),
        fp: Some(saved),
        certain,
    })
}

/// The two words that a frame pointer points to, if the first leads up the stack or is the end of the chain.
fn frame_record<M: Memory>(fp: u64, memory: &M) -> Option<(u64, u64)> {
    let saved = memory.read_u64(fp)?;
    let return_address = arch::strip(memory.read_u64(fp.wrapping_add(8))?);
    let leads_up = saved > fp && saved.wrapping_sub(fp) < MAX_FRAME_BYTES && saved & 7 == 0;
    (leads_up || saved == 0).then_some((saved, return_address))
}

/// The first word from `sp` up to `end` that is a return address: where it lies, and the address.
#[inline]
pub(crate) fn scan<M: Memory, S: Modules>(
    sp: u64,
    end: u64,
    memory: &M,
    modules: &S,
) -> Option<(u64, u64)> {
    scan_words(sp, end, MAX_SCANNED_WORDS, memory, modules)
}

/// As [`scan`], over at most so many words.
#[inline(never)]
pub(crate) fn scan_words<M: Memory, S: Modules>(
    sp: u64,
    end: u64,
    words: u32,
    memory: &M,
    modules: &S,
) -> Option<(u64, u64)> {
    let mut at = sp.checked_add(7)? & !7;
    for _ in 0..words {
        if at >= end {
            return None;
        }
        let word = memory.read_u64(at)?;
        // Most words are small numbers or pointers into this stack; neither needs a look into the modules.
        let on_this_stack = word.wrapping_sub(sp).wrapping_add(0x10_0000) < 0x20_0000;
        if !on_this_stack {
            let address = arch::strip(word);
            if looks_like_return(memory, modules, address) {
                return Some((at, address));
            }
        }
        at = at.wrapping_add(8);
    }
    None
}
