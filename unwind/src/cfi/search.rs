//! Finding a caller among the words on the stack.
//!
//! Older calls leave return addresses behind, in parts of a frame that nothing was written to. They are told from the caller by what
//! they lead to. The tables must lead on from a candidate. Its own call must be able to lead to the frame below: not one that names
//! a described function which the frame is not of. And a stack of older calls joins the true one somewhere: the call that is found
//! there names another function than the one that it is said to have called, so the true caller lies below that place.
//!
//! A tail call looks the same as a stack that joins: what names another function is taken when nothing better is found.

use super::entry::Fde;
use super::packed;
use super::row::{Cfa, Row};
use super::{Kind, Rule, Step, Walk};
use crate::arch::{self, calls::CallBefore};
use crate::frames::{Broken, SCANNED};
use crate::{Memory, Modules, fallback};

/// How many return addresses in modules are tried.
const MAX_CANDIDATES: u32 = 24;

/// Functions that a run-time compiler makes are not larger.
const MAX_GENERATED_BYTES: u64 = 1 << 20;
/// How often in a row the same may be found.
const MAX_FOUND_AGAIN: u32 = 16;

/// A word of the stack that can be the caller's return address.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    /// Where it lies.
    pub(super) slot: u64,
    /// What it is.
    pub(super) return_address: u64,
    /// The caller's frame pointer is in the word below, where generated code saves it first of all, and not in the register still.
    pub(super) has_saved: bool,
}

/// Where the tables lead from a candidate.
enum Lead {
    /// Up the stack, and each call names the function that was found below it.
    Sound,
    /// Up the stack, but the call at this slot names another function.
    Joins(u64),
    /// To where they need something unknown.
    Open,
}

impl<M: Memory, S: Modules> Walk<'_, M, S> {
    /// The caller by searching the stack, when nothing better leads on; `reason` is why it does not. A rule whose CFA could not be
    /// computed still says where the registers lie from the return address.
    #[inline(never)]
    pub(super) fn scan(&mut self, rule: Option<Rule>, reason: Broken) -> Result<Step, Broken> {
        if self.by_tables_only {
            return Err(reason);
        }
        self.saved.load(&mut self.registers, self.memory);
        let recovered = match rule {
            Some(rule) if reason == Broken::UnknownRegister => self.recover(rule),
            _ => None,
        };
        let (candidate, sure) = match recovered {
            Some(recovered) => recovered,
            None => (self.search(rule).ok_or(reason)?, false),
        };
        let found = candidate.return_address;
        if !sure && self.is_going_round(found) && !self.calls_itself(found) {
            return Err(reason);
        }
        self.assume(rule, &candidate);
        self.doubtful = !sure;
        self.searched |= !sure || self.generated != 0;
        Ok(Step::Caller { flags: SCANNED })
    }

    /// Counts how often searches find what one of the last two has found. A search that goes on so has found a pattern in memory, or
    /// a recursion that nothing else speaks for.
    fn is_going_round(&mut self, found: u64) -> bool {
        let [before, last] = self.found;
        if found == before || found == last {
            self.found_again = self.found_again.wrapping_add(1);
        } else {
            self.found_again = 0;
        }
        self.found = [last, found];
        self.found_again > MAX_FOUND_AGAIN
    }

    /// Whether the call before a return address in generated code leads to the very function that it is in: a recursion.
    fn calls_itself(&self, return_address: u64) -> bool {
        self.modules.find(return_address).is_none()
            && self.calls_around(return_address, return_address)
    }

    /// Whether the call before a return address leads to a function that `pc` can be in, and that has not made itself a frame pointer.
    pub(super) fn calls_around(&self, return_address: u64, pc: u64) -> bool {
        match arch::calls::call_before(self.memory, return_address) {
            Some(CallBefore::Direct(target)) => {
                pc.wrapping_sub(target) < MAX_GENERATED_BYTES
                    && !arch::calls::makes_frame_pointer(self.memory, target)
            }
            _ => false,
        }
    }

    /// Makes the registers those of a candidate.
    fn assume(&mut self, rule: Option<Rule>, candidate: &Candidate) {
        if let Some(rule) = rule {
            let cfa = candidate.slot.wrapping_sub(packed::return_slot(rule));
            self.apply(rule, cfa, candidate.return_address);
            return;
        }
        let above = candidate.slot.wrapping_add(8);
        let fp = match candidate.has_saved {
            true => self
                .memory
                .read_u64(candidate.slot.wrapping_sub(8))
                .and_then(|saved| fallback::plausible(saved, above)),
            false => fallback::plausible_fp(&self.registers, above),
        };
        self.registers.keep_only(0);
        self.registers.set_pc(candidate.return_address);
        self.registers.set_sp(above);
        self.registers.set_fp(fp);
    }

    /// The return address on the stack for which most speaks. Notes whether others below it lead into code of a module that nothing
    /// describes: they may be those of callers.
    #[inline(never)]
    fn search(&mut self, rule: Option<Rule>) -> Option<Candidate> {
        let mut undescribed = u64::MAX;
        let found = self.search_noting(rule, &mut undescribed);
        self.jumped |= found.is_some_and(|candidate| candidate.slot > undescribed);
        found
    }

    /// The same. `undescribed` gets the place of the first return address into code of a module that nothing describes.
    #[inline(never)]
    fn search_noting(&mut self, rule: Option<Rule>, undescribed: &mut u64) -> Option<Candidate> {
        let (pc, exact) = (self.registers.pc(), self.exact);
        // What tables describe is not called by generated code without their knowledge.
        let generated = if rule.is_none() { self.generated } else { 0 };
        let mut from = self.registers.sp();
        let words = match generated {
            0 => fallback::MAX_SCANNED_WORDS,
            _ => fallback::MAX_SCANNED_WORDS_GENERATED,
        };
        let mut end = from.saturating_add(8 * u64::from(words));
        // Best first: it joins another stack, it needs something unknown, its own call names another function.
        let (mut joining, mut open, mut other) = (None, None, None);
        let mut probed = 0;
        while probed < MAX_CANDIDATES {
            let found = fallback::scan(from, end, self.memory, self.modules, generated);
            let Some(found) = found else {
                break;
            };
            let (slot, return_address) = found;
            from = slot.wrapping_add(8);
            let mut candidate = Candidate {
                slot,
                return_address,
                has_saved: generated != 0,
            };
            if self.modules.find(return_address).is_none() {
                // No tables tell whether it leads on. Its own call can: to the code that runs.
                if self.calls_around(return_address, pc) {
                    return Some(candidate);
                }
                other.get_or_insert(candidate);
                continue;
            }
            if self.rule_of_frame(return_address, false).kind() == Kind::NoTables {
                *undescribed = slot.min(*undescribed);
            }
            probed = probed.wrapping_add(1);
            let calls = self.can_call(return_address, pc, exact);
            let mut lead = self.lead_of(rule, &candidate);
            if candidate.has_saved && !matches!(lead, Some(Lead::Sound)) {
                candidate.has_saved = false;
                lead = self.lead_of(rule, &candidate);
            }
            let better = match lead {
                Some(Lead::Sound) if calls => return Some(candidate),
                Some(Lead::Joins(slot)) if calls => {
                    end = end.min(slot);
                    &mut joining
                }
                Some(Lead::Open) if calls => &mut open,
                Some(_) => &mut other,
                None => continue,
            };
            better.get_or_insert(candidate);
        }
        joining.or(open).or(other)
    }

    /// Where the tables lead from a candidate, unless to what cannot be a frame.
    fn lead_of(&mut self, rule: Option<Rule>, candidate: &Candidate) -> Option<Lead> {
        let registers = self.registers;
        self.assume(rule, candidate);
        let lead = self.lead();
        self.registers = registers;
        self.saved = packed::Saved::default();
        lead
    }

    /// Where the tables lead from the registers, unless to what cannot be a frame. Uses up the registers.
    #[inline(never)]
    fn lead(&mut self) -> Option<Lead> {
        let mut joins = None;
        let mut frames = 0_u32;
        let mut is_zero = false;
        let leads_on = self.probe(false, |walk, slot, return_address| {
            frames = frames.wrapping_add(1);
            is_zero = return_address == 0;
            if joins.is_none()
                && !is_zero
                && !walk.can_call(return_address, walk.registers.pc(), false)
            {
                joins = Some(slot);
            }
        })?;
        // A word that is zero ends a stack, but there are many.
        if is_zero && frames == 1 {
            return None;
        }
        Some(match joins {
            _ if !leads_on => Lead::Open,
            Some(slot) => Lead::Joins(slot),
            None => Lead::Sound,
        })
    }

    /// Whether the call before a return address can have led to the function that `pc` is in. It cannot if it names another
    /// function that tables describe.
    #[inline(never)]
    fn can_call(&self, return_address: u64, pc: u64, exact: bool) -> bool {
        let named = match arch::calls::call_before(self.memory, return_address) {
            Some(CallBefore::Direct(target)) => Some(target),
            _ => arch::calls::table_target(self.memory, return_address),
        };
        let Some(target) = named else {
            return true;
        };
        let target = arch::calls::stub_target(self.memory, target).unwrap_or(target);
        let Some(named) = self.description(target) else {
            return true;
        };
        match self.description(if exact { pc } else { pc.wrapping_sub(1) }) {
            Some(callee) => callee.start == named.start || !self.can_be_called(&callee),
            None => false,
        }
    }

    /// Whether a description begins as that of a function that was just called. One of a part that the compiler moved away does not.
    #[inline(never)]
    fn can_be_called(&self, fde: &Fde) -> bool {
        let mut row = Row::new(fde.address);
        // Not `run_to` itself: one more caller, and it is slower for all of them (`examples/walk_speed.rs`, cold).
        self.row_of(fde.address, fde.start, &mut row).is_none()
            || row.cfa
                == Cfa::Register {
                    register: arch::STACK_POINTER,
                    offset: arch::ENTRY_CFA,
                }
    }
}
