//! The caller of code without call frame information.

use super::{Kind, Step, Walk};
use crate::arch::{self, Registers};
use crate::frames::{Broken, SCANNED};
use crate::{Memory, Modules, fallback};

/// How many return addresses below a frame pointer's record are tried, and how many frames from each.
const MAX_CANDIDATES: u32 = 4;
const MAX_PROBED_FRAMES: u32 = 16;

impl<M: Memory, S: Modules> Walk<'_, M, S> {
    /// The caller of code without call frame information.
    #[inline(never)]
    pub(super) fn guess(&mut self) -> Result<Step, Broken> {
        if self.by_tables_only {
            return Err(Broken::NoUnwindInfo);
        }
        if !self.exact && !fallback::is_code(self.memory, self.modules, self.registers.pc()) {
            return Err(Broken::BadReturnAddress);
        }
        let entry = self
            .exact
            .then(|| fallback::near_entry(&self.registers, self.memory, self.modules))
            .flatten();
        if let Some(guess) = entry {
            return Ok(self.follow(&guess));
        }
        if let Some(mut guess) = fallback::frame_pointer(&self.registers, self.memory, self.modules)
        {
            // The frame pointer may be one of a frame further up, which this code and some of its callers left alone.
            self.look_below(&mut guess);
            return Ok(self.follow(&guess));
        }
        let outermost = self.registers.fp() == Some(0) && !self.exact;
        match self.scan(None, Broken::NoUnwindInfo) {
            // The ABI asks the outermost frame to clear its frame pointer.
            Err(_) if outermost => Ok(Step::Root),
            step => step,
        }
    }

    /// Makes the registers those of a guessed caller.
    fn follow(&mut self, guess: &fallback::Guess) -> Step {
        self.registers.keep_only(0);
        self.registers.set_pc(guess.return_address);
        self.registers.set_sp(guess.sp);
        self.registers.set_fp(guess.fp);
        self.doubtful = true;
        let flags = if guess.certain { 0 } else { SCANNED };
        Step::Caller { flags }
    }

    /// Replaces the caller that the frame pointer leads to by one that lies below it: a return address on the stack from which the
    /// tables lead to exactly the frame of the frame pointer. Left-over return addresses do not lead there. Uses up the registers.
    #[inline(never)]
    fn look_below(&mut self, guess: &mut fallback::Guess) {
        let Some(record) = self.registers.fp() else {
            return;
        };
        let mut from = self.registers.sp();
        for _ in 0..MAX_CANDIDATES {
            let found = fallback::scan(from, record, self.memory, self.modules);
            let Some((slot, candidate)) = found else {
                break;
            };
            from = slot.wrapping_add(8);
            let sp = arch::caller_sp(from, Some(record));
            self.registers = Registers::new(candidate, sp, record);
            if self.leads_to(record, guess.return_address) {
                guess.return_address = candidate;
                guess.sp = sp;
                guess.fp = Some(record);
                guess.certain = false;
                break;
            }
        }
        self.saved = arch::rules::Saved::default();
    }

    /// Whether compact rules lead from the registers to the return address in a frame record, without passing it.
    #[inline(never)]
    fn leads_to(&mut self, record: u64, return_address: u64) -> bool {
        let wanted = record.wrapping_add(8);
        self.saved = arch::rules::Saved::default();
        for _ in 0..MAX_PROBED_FRAMES {
            let rule = self.rule_of_frame(self.registers.pc(), false);
            if !matches!(rule.kind(), Kind::Register | Kind::Dereference) {
                return false;
            }
            let found = arch::rules::cfa_and_return_address(
                rule,
                &self.registers,
                &self.saved,
                self.memory,
            );
            let Ok((cfa, address)) = found else {
                return false;
            };
            let address = arch::strip(address);
            let slot = cfa.wrapping_add(arch::rules::return_slot(rule));
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
