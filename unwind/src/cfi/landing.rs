//! Functions that return elsewhere than to their caller: `_Unwind_RaiseException`, `_Unwind_Resume` and their like.
//!
//! They end by `__builtin_eh_return`, which leaves for a landing pad further up the stack, in three steps:
//!
//! 1. The places where the function saved registers get the values that the landing pad's frame had, that of the return address
//!    last. From then on the return address is one in the landing pad's function, and not in the caller, of which nothing is left.
//!    The stack pointer of that frame lies right above the word from which the address was copied.
//! 2. The address of the landing pad replaces that word.
//! 3. The registers are loaded, the stack pointer is moved, and the function returns. The rows for these last instructions still
//!    say where the registers were, though nothing is there any more: the registers have their values.
//!
//! A landing pad's address is no return address: another row may hold one byte before it, or another function be there.

use super::packed;
use super::row::{RegisterRule, Row};
use super::{Kind, Rule, Step, Walk, evaluate};
use crate::arch::calls::{CallBefore, call_before, stub_target, table_target};
use crate::arch::{self, LANDING_DATA, LANDING_PLACE, RETURN_ADDRESS};
use crate::cfi::entry;
use crate::frames::{Broken, EXACT};
use crate::{Memory, Modules, fallback};

/// How far up the stack the landing pad's frame is looked for, in words, and how many words may be its return address.
const MAX_DISTANCE: u64 = 4096;
const MAX_CANDIDATES: u32 = 8;

/// Whether the function of a row ends by `__builtin_eh_return`: no other function saves the registers that carry data to a landing pad.
pub(super) fn returns_elsewhere(row: &Row) -> bool {
    matches!(row.rule(LANDING_DATA), RegisterRule::Offset(_))
}

impl<M: Memory, S: Modules> Walk<'_, M, S> {
    /// The caller of such a function, or the frame that it leaves for.
    #[inline(never)]
    pub(super) fn leave(&mut self, fde: u64) -> Result<Step, Broken> {
        let pc = self.registers.pc();
        let lookup = if self.exact { pc } else { pc.wrapping_sub(1) };
        let mut row = Row::new(fde);
        if self.row_of(fde, lookup, &mut row).is_none() {
            return self.scan(None, Broken::BadTables);
        }
        let callee = self.registers;
        if self.exact && LANDING_PLACE.is_some() && has_loaded(&row) {
            row.keep_only(RETURN_ADDRESS);
            if evaluate::to_caller(&row, &mut self.registers, self.memory).is_ok()
                && self.modules.find(self.registers.pc()).is_some()
            {
                return Ok(Step::Caller { flags: EXACT });
            }
            self.registers = callee;
        } else if let Ok(cfa) = evaluate::to_caller(&row, &mut self.registers, self.memory) {
            let place = LANDING_PLACE
                .filter(|_| self.exact)
                .and_then(|register| callee.get(register));
            if self.is_caller(fde) {
                self.mend_frame_pointer();
                return Ok(Step::Caller { flags: 0 });
            }
            if let Some(flags) = self.find_landing(cfa, place) {
                return Ok(Step::Caller { flags });
            }
            self.registers = callee;
        }
        match self.evaluate(fde) {
            Ok(step) => Ok(step),
            Err(reason) => self.scan(None, reason),
        }
    }

    /// Whether the registers are those of a caller of the function that an FDE describes, by the call instruction.
    fn is_caller(&self, fde: u64) -> bool {
        let pc = self.registers.pc();
        let target = match call_before(self.memory, pc) {
            Some(CallBefore::Direct(target)) => target,
            Some(CallBefore::Indirect) => match table_target(self.memory, pc) {
                Some(target) => target,
                None => return false,
            },
            None => return false,
        };
        entry::fde(self.memory, fde).is_some_and(|fde| {
            target == fde.start || stub_target(self.memory, target) == Some(fde.start)
        })
    }

    /// Finds the frame pointer of a caller that is addressed by it, if it may be replaced already while the return address is not yet:
    /// by what the caller's prologue took off the stack pointer, which is known.
    fn mend_frame_pointer(&mut self) {
        let caller = self.registers;
        let (start, size) = self.function(false);
        let Some((rule, data)) = self.compact_rule() else {
            return;
        };
        let Some(by_pointer) = caller
            .fp()
            .and_then(|fp| packed::cfa_at_frame_pointer(rule, fp))
        else {
            return;
        };
        let likely = packed::likely_cfas(rule, caller.sp(), self.memory, start, size);
        let likely = likely
            .into_iter()
            .filter(|cfa| *cfa != 0)
            .map(|cfa| cfa.wrapping_add(data));
        if likely.clone().any(|cfa| cfa == by_pointer) {
            return;
        }
        for cfa in likely {
            let slot = cfa.wrapping_add(packed::return_slot(rule));
            let Some(address) = self.memory.read_u64(slot) else {
                continue;
            };
            if !fallback::looks_like_return(self.memory, self.modules, address) {
                continue;
            }
            self.apply(rule, cfa, address);
            let leads_on = self.probe(false, |_, _, _| {}) == Some(true);
            self.registers = caller;
            self.saved = packed::Saved::default();
            if leads_on {
                let fp = caller
                    .fp()
                    .map(|fp| fp.wrapping_add(cfa.wrapping_sub(by_pointer)));
                self.registers.set_fp(fp);
                return;
            }
        }
    }

    /// The compact rule of a caller, and how many bytes more than the rule says its function has saved.
    fn compact_rule(&self) -> Option<(Rule, u64)> {
        /// Two registers that carry data to a landing pad.
        const DATA_BYTES: u64 = 16;
        let pc = self.registers.pc();
        let rule = self.rule_of_frame(pc, false);
        if rule.kind() != Kind::Evaluate || !rule.leaves() {
            return matches!(rule.kind(), Kind::Register).then_some((rule, 0));
        }
        let mut row = Row::new(rule.fde());
        self.row_of(rule.fde(), pc.wrapping_sub(1), &mut row)?;
        packed::pack(&row, self.memory, None).map(|rule| (rule, DATA_BYTES))
    }

    /// Makes the registers those of the frame that is left for, and says the flags of its address. The registers have its values, but
    /// for the stack pointer, which is `cfa`. `place` is the value of the register that may tell it.
    fn find_landing(&mut self, cfa: u64, place: Option<u64>) -> Option<u64> {
        let return_address = self.registers.pc();
        let told = place.map_or([0; 2], |place| {
            [cfa.wrapping_sub(8).wrapping_add(place), place]
        });
        let own = cfa.wrapping_sub(8);
        for slot in told {
            let above = slot.wrapping_sub(own);
            if above == 0 || above >= 8 * MAX_DISTANCE || above & 7 != 0 {
                continue;
            }
            if let Some(address) = self.memory.read_u64(slot) {
                let exact = address != return_address;
                if self.lands(address, slot, exact) {
                    return Some(if exact { EXACT } else { 0 });
                }
            }
        }
        let mut candidates = MAX_CANDIDATES;
        for words in 0..MAX_DISTANCE {
            let slot = cfa.wrapping_add(8_u64.wrapping_mul(words));
            match self.memory.read_u64(slot) {
                Some(address) if address == return_address => {}
                Some(_) => continue,
                None => break,
            }
            if self.lands(return_address, slot, false) {
                return Some(0);
            }
            candidates = candidates.wrapping_sub(1);
            if candidates == 0 {
                break;
            }
        }
        // A landing pad of the caller itself.
        let stays = told.contains(&own) && self.lands(return_address, own, true);
        stays.then_some(EXACT)
    }

    /// Tries `pc` with the stack pointer right above `slot`, and keeps both if they lead on.
    fn lands(&mut self, pc: u64, slot: u64, exact: bool) -> bool {
        if !fallback::is_user_address(pc) || self.modules.find(pc).is_none() {
            return false;
        }
        let before = self.registers;
        self.registers.set_pc(pc);
        self.registers.set_sp(slot.wrapping_add(8));
        let frame = self.registers;
        let lands = self.probe(exact, |_, _, _| {}) == Some(true);
        self.saved = packed::Saved::default();
        self.registers = if lands { frame } else { before };
        lands
    }
}

/// Whether the function has loaded the registers already: the frame pointer, which is the last, has no place any more.
fn has_loaded(row: &Row) -> bool {
    row.rule(arch::FRAME_POINTER) == RegisterRule::Unspecified
}
