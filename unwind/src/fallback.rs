//! Finding the caller of code that has no unwind information: hand-written assembly, generated code, a jump to nowhere.

use crate::arch::Registers;
use crate::arch::calls::{self, CallBefore};
use crate::{Memory, Modules};

/// How many words of the stack are looked at for a return address, and how many above generated code: a run-time system may keep
/// its registers there.
pub(crate) const MAX_SCANNED_WORDS: u32 = 512;
pub(crate) const MAX_SCANNED_WORDS_GENERATED: u32 = 4096;
/// How far from its first instruction a function is believed not to have moved the stack pointer by more than two words.
const PROLOGUE_BYTES: u64 = 64;
/// No frame is larger than this: 64 MiB.
const MAX_FRAME_BYTES: u64 = 64 << 20;
/// How far from code that was seen to run generated code is believed to reach: the code caches of run-time compilers are as large.
const CODE_CACHE_BYTES: u64 = 256 << 20;
/// How many records of generated code are followed until one leads into a module.
const MAX_RECORDS: u32 = 256;

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

/// What a word is that may be a return address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Return {
    /// It follows a call in a module.
    Module,
    /// It is in no module, but near generated code that runs, or follows a call.
    Generated,
    /// The last one of a goroutine.
    Outermost,
}

/// What speaks for a return address. `generated` is an address of code in no module that is known to run, or 0: interpreters return
/// to places that follow no call.
pub(crate) fn judge<M: Memory, S: Modules>(
    memory: &M,
    modules: &S,
    address: u64,
    generated: u64,
) -> Option<Return> {
    if !is_user_address(address) {
        return None;
    }
    if modules.find(address.wrapping_sub(1)).is_some() {
        return if looks_like_return(memory, modules, address) {
            Some(Return::Module)
        } else if calls::is_goroutine_end(memory, address) {
            Some(Return::Outermost)
        } else {
            None
        };
    }
    (is_near(address, generated) || calls::call_before(memory, address).is_some())
        .then_some(Return::Generated)
}

/// Whether an address lies where generated code is known to be.
pub(crate) fn is_near(address: u64, generated: u64) -> bool {
    let distance = address.wrapping_sub(generated);
    generated != 0 && distance.wrapping_add(CODE_CACHE_BYTES) < 2 * CODE_CACHE_BYTES
}

/// Whether a word is the return address of a call in generated code.
pub(crate) fn returns_to_generated<M: Memory, S: Modules>(
    memory: &M,
    modules: &S,
    address: u64,
    generated: u64,
) -> bool {
    is_near(address, generated)
        && modules.find(address).is_none()
        && calls::call_before(memory, address).is_some()
}

/// A stub of a system call that keeps the return address in a register meanwhile.
#[inline(never)]
pub(crate) fn in_register<M: Memory, S: Modules>(
    registers: &Registers,
    memory: &M,
    modules: &S,
) -> Option<Guess> {
    let register = calls::pushed_behind_system_call(memory, registers.pc())?;
    let return_address = registers.get(register)?;
    looks_like_return(memory, modules, return_address).then(|| Guess {
        return_address,
        sp: registers.sp(),
        fp: registers.fp(),
        certain: true,
    })
}

/// A leaf that has not made a frame, or has pushed no more than two words since it was called.
#[inline(never)]
pub(crate) fn near_entry<M: Memory, S: Modules>(
    registers: &Registers,
    memory: &M,
    modules: &S,
    generated: u64,
) -> Option<Guess> {
    let (return_address, mut sp) = calls::leaf_return_address(registers, memory)?;
    let has_no_frame = calls::has_no_frame(memory, registers.pc());
    let found = judge(memory, modules, return_address, generated);
    if found == Some(Return::Module) || (found.is_some() && has_no_frame) {
        return Some(Guess {
            return_address,
            sp,
            fp: registers.fp(),
            certain: has_no_frame || generated == 0,
        });
    }
    // The frame pointer has just been saved, or is about to be loaded.
    let next = memory.read_u64(sp)?;
    if has_no_frame
        && registers.fp() == Some(return_address)
        && judge(memory, modules, next, generated).is_some()
    {
        return Some(Guess {
            return_address: next,
            sp: sp.wrapping_add(8),
            fp: registers.fp(),
            certain: true,
        });
    }
    // In a stub or a prologue: the call that the word above is of led to just before here.
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
    registers.fp().and_then(|fp| plausible(fp, sp))
}

/// A word, if it can be the frame pointer of a frame above `sp`.
pub(crate) fn plausible(fp: u64, sp: u64) -> Option<u64> {
    let above = fp.wrapping_sub(sp) < MAX_FRAME_BYTES;
    (above && fp & 7 == 0).then_some(fp)
}

/// The two words that a frame pointer points to: the caller's frame pointer, and the return address.
pub(crate) fn frame_record<M: Memory>(fp: u64, memory: &M) -> Option<(u64, u64)> {
    let saved = memory.read_u64(fp)?;
    Some((saved, memory.read_u64(fp.wrapping_add(8))?))
}

/// Whether a saved frame pointer leads up the stack from `fp`, or is the end of the chain.
fn leads_up(fp: u64, saved: u64) -> bool {
    saved == 0 || (saved > fp && saved.wrapping_sub(fp) < MAX_FRAME_BYTES && saved & 7 == 0)
}

/// The caller by the frame pointer, when that points to a saved frame pointer and a return address.
///
/// A return address in generated code speaks for itself only where its callers' records lead on into a module. `sound_to` is the end
/// of a chain for which that is known, and is set to that of this one.
#[inline(never)]
pub(crate) fn frame_pointer<M: Memory, S: Modules>(
    registers: &Registers,
    memory: &M,
    modules: &S,
    generated: u64,
    sound_to: &mut u64,
) -> Option<Guess> {
    let fp = plausible_fp(registers, registers.sp())?;
    let (saved, return_address) = frame_record(fp, memory)?;
    match judge(memory, modules, return_address, generated)? {
        _ if !leads_up(fp, saved) => return None,
        Return::Generated if fp >= *sound_to => {
            *sound_to = end_of_chain(saved, memory, modules, generated)?;
        }
        _ => {}
    }
    Some(guess_of(fp, saved, return_address, true))
}

/// The frame of a record.
fn guess_of(fp: u64, saved: u64, return_address: u64, certain: bool) -> Guess {
    Guess {
        return_address,
        sp: fp.wrapping_add(16),
        fp: Some(saved),
        certain,
    }
}

/// Where the records of generated code from `fp` on end: at one that leads into a module, or with the chain.
fn end_of_chain<M: Memory, S: Modules>(
    mut fp: u64,
    memory: &M,
    modules: &S,
    generated: u64,
) -> Option<u64> {
    for _ in 0..MAX_RECORDS {
        if fp == 0 {
            return Some(0);
        }
        let (saved, return_address) = frame_record(fp, memory)?;
        if judge(memory, modules, return_address, generated)? != Return::Generated {
            return Some(fp);
        }
        if !leads_up(fp, saved) {
            return None;
        }
        fp = saved;
    }
    Some(fp)
}

/// The caller by a frame pointer that a function kept when it went over to another stack: two records in modules must follow each
/// other there.
#[inline(never)]
pub(crate) fn other_stack<M: Memory, S: Modules>(
    registers: &Registers,
    memory: &M,
    modules: &S,
) -> Option<Guess> {
    let fp = registers.fp().filter(|fp| fp & 7 == 0)?;
    let (saved, return_address) = frame_record(fp, memory)?;
    let found = judge(memory, modules, return_address, 0)?;
    if found == Return::Generated || !leads_up(fp, saved) {
        return None;
    }
    if found == Return::Module && saved != 0 {
        let (_, next) = frame_record(saved, memory)?;
        judge(memory, modules, next, 0).filter(|found| *found != Return::Generated)?;
    }
    Some(guess_of(fp, saved, return_address, false))
}

/// Whether a word is the frame pointer of a frame with a caller in a module, on whatever stack.
pub(crate) fn is_record<M: Memory, S: Modules>(fp: u64, memory: &M, modules: &S) -> bool {
    fp & 7 == 0
        && frame_record(fp, memory)
            .is_some_and(|(_, return_address)| looks_like_return(memory, modules, return_address))
}

/// The caller by a record whose saved frame pointer does not lead up this stack: the caller uses the register for something else, so
/// the tables must lead on from there, or it leads to another stack ([`is_record`]). If the record is on another stack itself, it is
/// not certain.
pub(crate) fn record_of_callee<M: Memory, S: Modules>(
    registers: &Registers,
    memory: &M,
    modules: &S,
) -> Option<Guess> {
    let fp = registers.fp().filter(|fp| fp & 7 == 0)?;
    let (saved, return_address) = frame_record(fp, memory)?;
    let is_on_this_stack = plausible_fp(registers, registers.sp()).is_some();
    looks_like_return(memory, modules, return_address)
        .then(|| guess_of(fp, saved, return_address, is_on_this_stack))
}

/// The first word from `sp` up to `end` that is a return address, in a module or near `generated` code: where it lies, and the address.
#[inline]
pub(crate) fn scan<M: Memory, S: Modules>(
    sp: u64,
    end: u64,
    memory: &M,
    modules: &S,
    generated: u64,
) -> Option<(u64, u64)> {
    let words = match generated {
        0 => MAX_SCANNED_WORDS,
        _ => MAX_SCANNED_WORDS_GENERATED,
    };
    scan_words(sp, end, words, memory, modules, generated)
}

/// As [`scan`], over at most `words` words.
#[inline(never)]
pub(crate) fn scan_words<M: Memory, S: Modules>(
    sp: u64,
    end: u64,
    words: u32,
    memory: &M,
    modules: &S,
    generated: u64,
) -> Option<(u64, u64)> {
    let mut at = sp.checked_add(7)? & !7;
    for _ in 0..words {
        if at >= end {
            return None;
        }
        let word = memory.read_u64(at)?;
        // Most words are small numbers or pointers into this stack; neither needs a look into the modules.
        let on_this_stack = word.wrapping_sub(sp).wrapping_add(0x10_0000) < 0x20_0000;
        if !on_this_stack
            && (looks_like_return(memory, modules, word)
                || returns_to_generated(memory, modules, word, generated))
        {
            return Some((at, word));
        }
        at = at.wrapping_add(8);
    }
    None
}
