//! Finding a frame whose CFA needs a register that is not known.
//!
//! Of a thread that is looked at from outside, the kernel reports the program counter and the stack pointer only. The first function
//! that addresses its frame by the frame pointer then has a frame that begins somewhere above. The rule still says how return
//! address and saved registers lie to each other, so every word that looks like a return address is a candidate, and the frames
//! that it leads to tell the right one from what older calls left behind.

use super::entry::Fde;
use super::packed;
use super::search::Candidate;
use super::{Kind, Rule, Walk, entry, table};
use crate::arch::{self, calls::CallBefore};
use crate::fallback;
use crate::frames::Broken;
use crate::{Memory, ModuleTables, Modules};

/// How many return addresses are tried, and how many frames from each.
const MAX_CANDIDATES: u32 = 64;
const MAX_PROBED_FRAMES: u32 = 16;

/// How much speaks for a candidate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// It is a return address.
    Return,
    /// The tables lead on from it, until they need something unknown, too.
    Open,
    /// The tables lead from it up the stack, but its call names another function.
    Sound,
    /// They do, and its call can have led anywhere.
    Indirect,
    /// They do, and its call leads to the function.
    Call,
}

impl<M: Memory, S: Modules> Walk<'_, M, S> {
    /// The slot and value of the return address of the frame that `rule` describes, when its CFA cannot be computed, and whether its
    /// call says that it is the one.
    #[inline(never)]
    pub(super) fn recover(&mut self, rule: Rule) -> Option<(Candidate, bool)> {
        let found = |slot, return_address| Candidate {
            slot,
            return_address,
            has_saved: false,
        };
        let (registers, saved) = (self.registers, self.saved);
        let (function, size) = self.function(self.exact);
        for cfa in packed::likely_cfas(rule, registers.sp(), self.memory, function, size) {
            let slot = cfa.wrapping_add(packed::return_slot(rule));
            if cfa == 0 {
                break;
            }
            let Some(candidate) = self.memory.read_u64(slot) else {
                continue;
            };
            if fallback::looks_like_return(self.memory, self.modules, candidate) {
                self.apply(rule, cfa, candidate);
                let leads_on = self.probe(false, |_, _, _| {});
                self.registers = registers;
                self.saved = saved;
                if leads_on.is_some() {
                    return Some((found(slot, candidate), true));
                }
            }
        }
        let end = registers
            .sp()
            .saturating_add(u64::from(self.scanned_words).wrapping_mul(8));
        let mut from = registers.sp();
        let mut best: Option<(Evidence, u64, u64)> = None;
        for _ in 0..MAX_CANDIDATES {
            let words = self.scanned_words;
            let word = fallback::scan_words(from, end, words, self.memory, self.modules, 0);
            let Some((slot, candidate)) = word else {
                break;
            };
            from = slot.wrapping_add(8);
            let cfa = slot.wrapping_sub(packed::return_slot(rule));
            self.apply(rule, cfa, candidate);
            let evidence = self.evidence(function, candidate);
            self.registers = registers;
            self.saved = saved;
            if let Some(evidence) = evidence
                && best.is_none_or(|(before, ..)| evidence > before)
            {
                best = Some((evidence, slot, candidate));
            }
            if evidence == Some(Evidence::Call) {
                break;
            }
        }
        best.map(|(evidence, slot, candidate)| (found(slot, candidate), evidence == Evidence::Call))
    }

    /// Where the function of the frame begins and how long it is; zeros if that is not known.
    pub(super) fn function(&self, exact: bool) -> (u64, u64) {
        let pc = self.registers.pc();
        self.description(if exact { pc } else { pc.wrapping_sub(1) })
            .map_or((0, 0), |fde| (fde.start, fde.size))
    }

    /// The description of the code at an address.
    #[inline(never)]
    pub(super) fn description(&self, lookup: u64) -> Option<Fde> {
        self.described(self.modules.find(lookup).as_ref(), lookup)
    }

    /// The same where the tables of its module are known: in them, or in what its file has beside.
    #[inline(never)]
    pub(super) fn described(&self, tables: Option<&ModuleTables>, lookup: u64) -> Option<Fde> {
        let find = |tables: &ModuleTables| {
            table::find(self.memory, tables, lookup)
                .and_then(|address| entry::fde(self.memory, address))
                .filter(|fde| fde.contains(lookup))
        };
        let tables = tables?;
        find(tables).or_else(|| {
            let more = self.modules.more_tables(lookup);
            let more = ModuleTables {
                range: tables.range.clone(),
                eh_frame_hdr: more,
                eh_frame: 0,
            };
            find(&more)
        })
    }

    /// What speaks for the caller that the registers are of; nothing when its own caller cannot be. Uses up the registers.
    fn evidence(&mut self, function: u64, return_address: u64) -> Option<Evidence> {
        match self.probe(false, |_, _, _| {}) {
            Some(true) => {}
            Some(false) => return Some(Evidence::Open),
            None => return None,
        }
        Some(
            match arch::calls::call_before(self.memory, return_address) {
                Some(CallBefore::Direct(target))
                    if target == function
                        || arch::calls::stub_target(self.memory, target) == Some(function) =>
                {
                    Evidence::Call
                }
                Some(CallBefore::Indirect) => Evidence::Indirect,
                Some(CallBefore::Direct(_)) => Evidence::Sound,
                None => Evidence::Return,
            },
        )
    }

    /// Follows the tables from the registers: whether they lead up the stack to its end or for many frames (`Some(true)`), to where
    /// they need something unknown (`Some(false)`), or to what cannot be a frame. `exact`: the program counter is no return address.
    /// `visit` sees each frame with the slot and the value of its return address.
    #[inline]
    pub(super) fn probe(
        &mut self,
        mut exact: bool,
        mut visit: impl FnMut(&Self, u64, u64),
    ) -> Option<bool> {
        for _ in 0..MAX_PROBED_FRAMES {
            let rule = self.rule_of_frame(self.registers.pc(), exact);
            exact = false;
            match rule.kind() {
                Kind::Root | Kind::Signal => return Some(true),
                Kind::Register | Kind::Dereference => {}
                Kind::Evaluate | Kind::NoTables => return Some(false),
                Kind::BadTables => return None,
            }
            let found =
                packed::cfa_and_return_address(rule, &self.registers, &self.saved, self.memory);
            let (cfa, address) = match found {
                Ok(found) => found,
                Err(Broken::UnknownRegister) => return Some(false),
                Err(_) => return None,
            };
            visit(self, cfa.wrapping_add(packed::return_slot(rule)), address);
            if address == 0 {
                return Some(true);
            }
            if cfa <= self.registers.sp()
                || !fallback::looks_like_return(self.memory, self.modules, address)
            {
                return None;
            }
            self.apply(rule, cfa, address);
        }
        Some(true)
    }
}
