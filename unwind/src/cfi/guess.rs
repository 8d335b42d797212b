//! The caller of code without call frame information.

use super::packed;
use super::{Kind, MAX_STACK_SWITCHES, Step, Walk};
use crate::arch::{self, Registers};
use crate::fallback::{self, Guess};
use crate::frames::{Broken, SCANNED};
use crate::{Memory, Modules};

/// How many return addresses below a frame pointer's record are tried, and how many frames from each.
const MAX_CANDIDATES: u32 = 4;
const MAX_PROBED_FRAMES: u32 = 16;

impl<M: Memory, S: Modules> Walk<'_, M, S> {
    /// The caller of code without call frame information.
    #[inline(never)]
    pub(super) fn guess(&mut self) -> Result<Step, Broken> {
        let pc = self.registers.pc();
        if self.by_tables_only {
            return Err(Broken::NoUnwindInfo);
        }
        let in_module = self.modules.find(pc).is_some();
        if !in_module {
            self.note_generated(pc)?;
        } else if !self.exact && arch::calls::is_goroutine_end(self.memory, pc) {
            return Ok(Step::Root);
        }
        if let Some(guess) = self.best_guess() {
            return Ok(self.follow(&guess));
        }
        // The ABI asks the outermost frame to clear its frame pointer. Other code has zeros there, too.
        let outermost =
            in_module && !self.exact && !self.searched && self.registers.fp() == Some(0);
        match self.scan(None, Broken::NoUnwindInfo) {
            Err(_) if outermost => Ok(Step::Root),
            step => step,
        }
    }

    /// Remembers where generated code is, if the program counter is such.
    fn note_generated(&mut self, pc: u64) -> Result<(), Broken> {
        let is_code = match self.exact {
            true => self.memory.read_u8(pc).is_some(),
            false => {
                fallback::is_near(pc, self.generated)
                    || arch::calls::call_before(self.memory, pc).is_some()
            }
        };
        if is_code {
            self.generated = pc;
        } else if !self.exact {
            return Err(Broken::BadReturnAddress);
        }
        Ok(())
    }

    /// The caller by what is at the top of the stack, or by the frame pointer.
    #[inline(never)]
    fn best_guess(&mut self) -> Option<Guess> {
        let (memory, modules, generated) = (self.memory, self.modules, self.generated);
        if self.exact
            && let Some(guess) = fallback::in_register(&self.registers, memory, modules)
        {
            return Some(guess);
        }
        if self.exact
            && let Some(guess) = fallback::near_entry(&self.registers, memory, modules, generated)
        {
            return Some(guess);
        }
        let sound_to = &mut self.sound_to;
        if let Some(mut guess) =
            fallback::frame_pointer(&self.registers, memory, modules, generated, sound_to)
        {
            // The frame pointer may be one of a frame further up, which this code and some of its callers left alone.
            self.look_below(&mut guess);
            return Some(guess);
        }
        if let Some(guess) = fallback::record_of_callee(&self.registers, memory, modules) {
            let registers = self.registers;
            self.follow(&guess);
            let leads_on = self.probe(false, |_, _, _| {}) == Some(true)
                || guess
                    .fp
                    .is_some_and(|fp| fallback::is_record(fp, memory, modules));
            self.registers = registers;
            self.saved = packed::Saved::default();
            if leads_on && self.may_switch(&guess) {
                return Some(guess);
            }
        }
        fallback::other_stack(&self.registers, memory, modules)
            .filter(|guess| self.may_switch(guess))
    }

    /// Counts it if a guess leads to another stack, and says whether there may be one more.
    fn may_switch(&mut self, guess: &Guess) -> bool {
        if guess.certain {
            return true;
        }
        self.switches = self.switches.wrapping_add(1);
        self.switches <= MAX_STACK_SWITCHES
    }

    /// Makes the registers those of a guessed caller.
    fn follow(&mut self, guess: &Guess) -> Step {
        self.registers.keep_only(0);
        self.registers.set_pc(guess.return_address);
        self.registers.set_sp(guess.sp);
        self.registers.set_fp(guess.fp);
        self.doubtful = true;
        self.searched |= !guess.certain;
        let flags = if guess.certain { 0 } else { SCANNED };
        Step::Caller { flags }
    }

    /// Replaces the caller that the frame pointer leads to by one that lies below it: a return address on the stack from which the
    /// tables lead to exactly the frame of the frame pointer, or one in generated code that has left the frame pointer alone, so that
    /// its callee has saved the same. Left-over return addresses do not lead there. Uses up the registers.
    #[inline(never)]
    fn look_below(&mut self, guess: &mut Guess) {
        let Some(record) = self.registers.fp() else {
            return;
        };
        let pc = self.registers.pc();
        let mut from = self.registers.sp();
        for _ in 0..MAX_CANDIDATES {
            let found = fallback::scan(from, record, self.memory, self.modules, self.generated);
            let Some((slot, candidate)) = found else {
                break;
            };
            from = slot.wrapping_add(8);
            let sp = from;
            let leads_there = if self.modules.find(candidate).is_some() {
                self.registers = Registers::new(candidate, sp, record);
                self.leads_to(record, guess.return_address)
            } else if self.memory.read_u64(slot.wrapping_sub(8)) == Some(record) {
                // The frame of a call that has ended looks the same, where functions do use frame pointers.
                guess.certain = false;
                self.calls_around(candidate, pc)
            } else {
                false
            };
            if leads_there {
                guess.return_address = candidate;
                guess.sp = sp;
                guess.fp = Some(record);
                guess.certain = false;
                break;
            }
        }
        self.saved = packed::Saved::default();
    }

    /// Whether compact rules lead from the registers to the return address in a frame record, without passing it.
    #[inline(never)]
    fn leads_to(&mut self, record: u64, return_address: u64) -> bool {
        let wanted = record.wrapping_add(8);
        self.saved = packed::Saved::default();
        for _ in 0..MAX_PROBED_FRAMES {
            let rule = self.rule_of_frame(self.registers.pc(), false);
            if !matches!(rule.kind(), Kind::Register | Kind::Dereference) {
                return false;
            }
            let found =
                packed::cfa_and_return_address(rule, &self.registers, &self.saved, self.memory);
            let Ok((cfa, address)) = found else {
                return false;
            };
            let slot = cfa.wrapping_add(packed::return_slot(rule));
            if slot >= wanted {
                return slot == wanted && address == return_address;
            }
            if cfa <= self.registers.sp() {
                return false;
            }
            self.apply(rule, cfa, address);
        }
        false
    }
}
