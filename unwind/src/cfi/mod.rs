//! The default engine: complete call frame information, evaluated in place.
//!
//! For each frame the walk looks up the address (for a return address, the byte before it) in the shared [`RuleCache`]. On a miss
//! `table` finds the FDE through `.eh_frame_hdr`, `entry` reads it and its CIE, `program` executes their instructions to the row of
//! that address, and the architecture packs the row into a compact rule. A row that does not fit is cached as "evaluate this FDE".
//! Code without tables, and rules that fail, go to `fallback`.

mod again;
mod cache;
mod cursor;
mod entry;
mod evaluate;
mod expression;
mod guess;
mod landing;
mod packed;
mod program;
mod row;
mod rule;
mod search;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod unknown;

pub use self::again::{LastWalk, WalkedAgain};
pub use self::cache::{RuleCache, RuleSlot};
pub(crate) use self::expression::shape_of_location;
pub(crate) use self::expression::{CfaShape, shape_of_cfa};
pub(crate) use self::row::{RegisterRule, Row};
pub(crate) use self::rule::{Kind, Rule, Simple};
pub use self::table::described_functions;

use crate::arch::{self, Registers};
use crate::fallback;
use crate::frames::{Broken, EXACT, End, FrameBuffer};
use crate::{Engine, Memory, ModuleTables, Modules};

/// How often a walk may follow the frame of a function that switched stacks, where the next frame can be anywhere.
const MAX_STACK_SWITCHES: u32 = 8;

/// The engine that evaluates `.eh_frame`. It is only a view of its cache: make one where it is needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct CfiEngine<'cache> {
    cache: Option<RuleCache<'cache>>,
    scanned_words: Option<u32>,
    by_tables_only: bool,
}

impl<'cache> CfiEngine<'cache> {
    /// An engine with a cache of rules.
    pub const fn new(cache: RuleCache<'cache>) -> Self {
        Self {
            cache: Some(cache),
            scanned_words: None,
            by_tables_only: false,
        }
    }

    /// An engine that reads the tables for every frame.
    pub const fn without_cache() -> Self {
        Self {
            cache: None,
            scanned_words: None,
            by_tables_only: false,
        }
    }

    /// Looks through this many words of the stack for a frame whose place depends on an unknown register, instead of 512: for walks
    /// that begin without the frame pointer and are in no hurry.
    #[must_use]
    pub const fn scanning(mut self, words: u32) -> Self {
        self.scanned_words = Some(words);
        self
    }

    /// Guesses no caller: a walk ends where the tables do. Then it reads next to nothing that may not be there, so that a reader
    /// that catches faults needs little stack for them.
    #[must_use]
    pub const fn by_tables_only(mut self) -> Self {
        self.by_tables_only = true;
        self
    }
}

impl Engine for CfiEngine<'_> {
    fn walk<M: Memory, S: Modules>(
        &mut self,
        registers: &Registers,
        memory: &M,
        modules: &S,
        out: &mut FrameBuffer<'_>,
    ) -> End {
        if out.push(registers.pc(), EXACT).is_err() {
            return End::Truncated;
        }
        self.go_on(registers, true, memory, modules, out)
    }
}

impl CfiEngine<'_> {
    /// A walk that has come to a frame with these registers.
    #[inline(always)]
    fn begin<'a, M: Memory, S: Modules>(
        &'a self,
        registers: &Registers,
        exact: bool,
        memory: &'a M,
        modules: &'a S,
    ) -> Walk<'a, M, S> {
        Walk {
            cache: self.cache,
            generation: modules.generation(),
            memory,
            modules,
            registers: *registers,
            saved: packed::Saved::default(),
            exact,
            doubtful: false,
            searched: false,
            jumped: false,
            switches: 0,
            generated: 0,
            sound_to: 0,
            found: [0; 2],
            found_again: 0,
            scanned_words: self.scanned_words.unwrap_or(fallback::MAX_SCANNED_WORDS),
            by_tables_only: self.by_tables_only,
        }
    }

    /// Finds the callers of a frame that is in `out` already. `exact`: its program counter is no return address.
    pub(crate) fn go_on<M: Memory, S: Modules>(
        &self,
        registers: &Registers,
        exact: bool,
        memory: &M,
        modules: &S,
        out: &mut FrameBuffer<'_>,
    ) -> End {
        let mut walk = self.begin(registers, exact, memory, modules);
        loop {
            let flags = match walk.step() {
                Ok(Step::Caller { flags }) => flags,
                Ok(Step::Interrupted) => {
                    // The return address into the trampoline is the trampoline's first byte.
                    out.mark_last(EXACT);
                    EXACT
                }
                Ok(Step::Root) => return walk.root(),
                Ok(Step::Entry) => {
                    out.mark_last(EXACT);
                    return walk.root();
                }
                Err(reason) => return walk.broken(reason, out),
            };
            if out.push(walk.registers.pc(), flags).is_err() {
                return End::Truncated;
            }
            walk.exact = flags & EXACT != 0;
        }
    }
}

/// What one step of a walk came to.
enum Step {
    /// The registers are the caller's.
    Caller { flags: u64 },
    /// The registers are those of the code that a signal interrupted.
    Interrupted,
    /// There is no caller.
    Root,
    /// There is no caller, and the frame is at its function's first instruction.
    Entry,
}

struct Walk<'a, M, S> {
    cache: Option<RuleCache<'a>>,
    generation: u32,
    memory: &'a M,
    modules: &'a S,
    registers: Registers,
    saved: packed::Saved,
    /// The program counter is not a return address.
    exact: bool,
    /// The last step was a guess, so registers may have wrong values.
    doubtful: bool,
    /// Some frame was found by a search since the last one of a signal: what comes next may be anything.
    searched: bool,
    /// A search has passed over what may be frames of code in a module that nothing describes.
    jumped: bool,
    switches: u32,
    /// Where generated code was seen to run, or 0.
    generated: u64,
    /// Up to here the records that frame pointers name are known to lead into a module.
    sound_to: u64,
    /// What the last two searches found, and how often in a row that was the same.
    found: [u64; 2],
    found_again: u32,
    /// How many words are searched for a frame whose CFA cannot be computed.
    scanned_words: u32,
    by_tables_only: bool,
}

impl<M: Memory, S: Modules> Walk<'_, M, S> {
    #[inline]
    fn step(&mut self) -> Result<Step, Broken> {
        let rule = self.rule();
        self.step_by(rule)
    }

    /// Goes to the caller by the rule of the frame's address.
    #[inline(always)]
    fn step_by(&mut self, rule: Rule) -> Result<Step, Broken> {
        match rule.kind() {
            Kind::Register | Kind::Dereference => self.compact(rule),
            Kind::Root if rule == Rule::ENTRY => Ok(Step::Entry),
            Kind::Root => Ok(Step::Root),
            _ => self.rare(rule),
        }
    }

    /// The walk has come to the thread's first frame. Where frames may be missing on the way, it is not whole.
    fn root(&self) -> End {
        if self.jumped {
            End::Broken(Broken::NoUnwindInfo)
        } else {
            End::Root
        }
    }

    /// The walk has found no caller of the frame that is last in `out`.
    #[cold]
    fn broken(&self, reason: Broken, out: &mut FrameBuffer<'_>) -> End {
        if reason == Broken::BadReturnAddress && !self.exact {
            out.pop();
        }
        End::Broken(reason)
    }

    /// The rule of the frame's address, from the cache or the tables.
    #[inline(always)]
    fn rule(&self) -> Rule {
        self.rule_of(self.registers.pc(), self.exact)
    }

    #[inline(always)]
    fn rule_of(&self, pc: u64, exact: bool) -> Rule {
        let lookup = if exact { pc } else { pc.wrapping_sub(1) };
        // The rules of a PLT depend on the exact program counter.
        let key = lookup ^ if exact { EXACT } else { 0 };
        if let Some(cache) = &self.cache {
            if let Some(rule) = cache.get(key, self.generation) {
                return rule;
            }
            let (rule, lasting) = self.resolve(pc, exact);
            if lasting {
                cache.insert(key, self.generation, rule);
            }
            return rule;
        }
        self.resolve(pc, exact).0
    }

    #[inline(never)]
    fn rule_of_frame(&self, pc: u64, exact: bool) -> Rule {
        self.rule_of(pc, exact)
    }

    /// Makes the rule from the tables, and says whether it holds for as long as no module goes. What is in no module today may
    /// be described tomorrow: code that is generated, and a library that is being loaded.
    #[inline(never)]
    fn resolve(&self, pc: u64, exact: bool) -> (Rule, bool) {
        let lookup = if exact { pc } else { pc.wrapping_sub(1) };
        let tables = self.modules.find(lookup);
        let rule = self.rule_in(tables.as_ref(), pc, exact);
        (rule, tables.is_some())
    }

    fn rule_in(&self, tables: Option<&ModuleTables>, pc: u64, exact: bool) -> Rule {
        let lookup = if exact { pc } else { pc.wrapping_sub(1) };
        let Some(fde) = self.described(tables, lookup) else {
            if arch::signal::is_trampoline(self.memory, pc, exact) {
                return Rule::of(Kind::Signal);
            }
            return if !exact && self.begins_a_function(pc) {
                Rule::ENTRY
            } else {
                Rule::of(Kind::NoTables)
            };
        };
        if !exact && !fde.contains(pc) && self.begins_a_function(pc) {
            return Rule::ENTRY;
        }
        if fde.cie.signal && arch::signal::is_trampoline(self.memory, pc, exact) {
            return Rule::of(Kind::Signal);
        }
        let mut row = Row::new(fde.address);
        if program::run_to(self.memory, &fde, lookup, &mut row).is_none() {
            return Rule::of(Kind::BadTables);
        }
        if row.rule(arch::RETURN_ADDRESS) == RegisterRule::Undefined {
            return Rule::of(Kind::Root);
        }
        if landing::returns_elsewhere(&row) {
            return Rule::leave(fde.address);
        }
        let compact = if fde.cie.signal {
            None
        } else {
            packed::pack(&row, self.memory, exact.then_some(pc))
        };
        compact.unwrap_or(Rule::evaluate(fde.address))
    }

    /// Whether a function begins at a return address that no function's call can have pushed: unlike the one that a call at the
    /// very end of the function before leaves behind, when it never returns. Such a frame was built by hand (`makecontext` and its
    /// like) and has no caller.
    fn begins_a_function(&self, pc: u64) -> bool {
        self.description(pc).is_some_and(|fde| fde.start == pc)
            && arch::calls::call_before(self.memory, pc).is_none()
    }

    #[inline(always)]
    fn compact(&mut self, rule: Rule) -> Result<Step, Broken> {
        let found = packed::cfa_and_return_address(rule, &self.registers, &self.saved, self.memory);
        let (cfa, return_address) = match found {
            Ok(found) => found,
            Err(reason) => return self.scan(Some(rule), reason),
        };
        if return_address == 0 && !self.searched {
            return Ok(Step::Root);
        }
        let sp = self.registers.sp();
        let stays = packed::stays_on_stack(rule);
        if let Err(reason) = self.check(sp, cfa, return_address, stays) {
            return self.scan(Some(rule), reason);
        }
        self.apply(rule, cfa, return_address);
        Ok(Step::Caller { flags: 0 })
    }

    #[inline(always)]
    fn apply(&mut self, rule: Rule, cfa: u64, return_address: u64) {
        let Self {
            registers,
            saved,
            memory,
            ..
        } = self;
        packed::apply(rule, cfa, return_address, registers, saved, *memory);
    }

    /// Whether a caller's frame can be believed.
    #[inline(always)]
    fn check(
        &mut self,
        sp: u64,
        cfa: u64,
        return_address: u64,
        stays_on_stack: bool,
    ) -> Result<(), Broken> {
        if !fallback::is_user_address(return_address) {
            return Err(Broken::BadReturnAddress);
        }
        let grows = cfa > sp || (self.exact && cfa == sp);
        if grows && !self.doubtful {
            return Ok(());
        }
        self.check_closely(return_address, grows, stays_on_stack)
    }

    #[inline(never)]
    fn check_closely(
        &mut self,
        return_address: u64,
        grows: bool,
        stays_on_stack: bool,
    ) -> Result<(), Broken> {
        if !grows {
            self.switches = self.switches.wrapping_add(1);
            if stays_on_stack || self.switches > MAX_STACK_SWITCHES {
                return Err(Broken::StackNotGrowing);
            }
        }
        if !fallback::looks_like_return(self.memory, self.modules, return_address) {
            return Err(Broken::BadReturnAddress);
        }
        self.doubtful = false;
        Ok(())
    }

    /// All kinds of rules but the compact ones.
    #[inline(never)]
    fn rare(&mut self, rule: Rule) -> Result<Step, Broken> {
        self.saved.load(&mut self.registers, self.memory);
        match rule.kind() {
            Kind::Signal => {
                arch::signal::restore(&mut self.registers, self.memory)
                    .ok_or(Broken::UnreadableStack)?;
                self.doubtful = false;
                self.searched = false;
                Ok(Step::Interrupted)
            }
            Kind::Evaluate if rule.leaves() => self.leave(rule.fde()),
            Kind::Evaluate => match self.evaluate(rule.fde()) {
                Ok(step) => Ok(step),
                Err(reason) => self.scan(None, reason),
            },
            Kind::NoTables => self.guess(),
            _ => self.scan(None, Broken::BadTables),
        }
    }

    #[inline(never)]
    fn evaluate(&mut self, fde: u64) -> Result<Step, Broken> {
        let pc = self.registers.pc();
        let lookup = if self.exact { pc } else { pc.wrapping_sub(1) };
        let mut row = Row::new(fde);
        let signal = self
            .row_of(fde, lookup, &mut row)
            .ok_or(Broken::BadTables)?;
        let sp = self.registers.sp();
        let cfa = evaluate::to_caller(&row, &mut self.registers, self.memory)?;
        if signal {
            self.doubtful = false;
            self.searched = false;
            return Ok(Step::Interrupted);
        }
        let return_address = self.registers.pc();
        if return_address == 0 && !self.searched {
            return Ok(Step::Root);
        }
        match self.check(sp, cfa, return_address, false) {
            Ok(()) => Ok(Step::Caller { flags: 0 }),
            Err(reason) => {
                // Back to where a scan can begin; what the row said of the other registers cannot be believed.
                self.registers.keep_only(0);
                self.registers.set_pc(pc);
                self.registers.set_sp(sp);
                Err(reason)
            }
        }
    }

    /// Fills in the row for `lookup` from the FDE at an address, and says whether it is one of a signal frame.
    #[inline(never)]
    fn row_of(&self, fde: u64, lookup: u64, row: &mut Row) -> Option<bool> {
        let fde = entry::fde(self.memory, fde)?;
        program::run_to(self.memory, &fde, lookup, row)?;
        Some(fde.cie.signal)
    }
}
