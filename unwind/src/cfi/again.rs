//! Walks of a thread whose stack is mostly that of its walk before.
//!
//! Where a frame is described by a compact rule that needs nothing but the stack pointer or the frame pointer, its caller depends on the frame's program
//! counter and stack pointer, on the frame pointer if the rule (or one further out, before the register is saved) asks for it, and on the words of
//! memory that the rule reads. A walk notes these for its outermost frames ([`LastWalk`]). The next one goes frame by frame until it comes to a frame
//! with the same program counter, stack pointer and frame pointer; if all the words from there on are what they were, it would go the same way to
//! the end, and need not. So nothing is believed that was not read again, and what is left of the walk is one comparison for each frame.

use super::packed;
use super::{CfiEngine, Kind, Rule, Simple, Step, Walk};
use crate::arch::Registers;
use crate::frames::{EXACT, End, FrameBuffer, SCANNED};
use crate::{Memory, Modules};

/// How a frame leads to its caller.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Known {
    pc: u64,
    sp: u64,
    /// Where the return address stands; 0 for the outermost frame.
    return_at: u64,
    /// The frame pointer in this frame, if `needs_fp`.
    fp: u64,
    /// Where the frame has saved the frame pointer, if it has and a frame further out needs it, else 0.
    fp_at: u64,
    is_exact: bool,
    /// Whether this frame or one further out needs the frame pointer of this frame.
    needs_fp: bool,
}

/// What the walk before has gone by. Valid as zeros: nothing is known. For one thread at a time.
#[derive(Debug)]
#[repr(C)]
pub struct LastWalk {
    generation: u32,
    count: u32,
    /// Leaf first.
    known: [Known; Self::FRAMES],
    /// Those of the walk that is under way.
    new: [Known; Self::FRAMES],
}

/// What came of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkedAgain {
    /// Why it ended.
    pub end: End,
    /// How many of the outermost frames are those of the last walk that was kept.
    pub shared: usize,
    /// Whether this walk is kept: the next one is compared with it. If not, with the same as this one.
    pub kept: bool,
}

impl LastWalk {
    /// Walks with more frames are not kept.
    pub const FRAMES: usize = 256;

    /// Nothing is known.
    pub const fn new() -> Self {
        const NONE: Known = Known {
            pc: 0,
            sp: 0,
            return_at: 0,
            fp: 0,
            fp_at: 0,
            is_exact: false,
            needs_fp: false,
        };
        Self {
            generation: 0,
            count: 0,
            known: [NONE; Self::FRAMES],
            new: [NONE; Self::FRAMES],
        }
    }

    /// Forgets what is known, as where another thread uses it from now on.
    #[inline]
    pub fn forget(&mut self) {
        self.count = 0;
    }

    /// What was noted of the walk before, and room for this one.
    #[inline]
    fn parts(&mut self) -> (&[Known], &mut [Known]) {
        let count = self.count as usize;
        (self.known.get(..count).unwrap_or(&[]), &mut self.new)
    }

    /// The first frames of this walk, and those of the walk before from `from` on, are what the next one is compared with.
    fn keep(&mut self, mut new: usize, from: usize) {
        let count = self.count as usize;
        let tail = count.wrapping_sub(from);
        let total = new.wrapping_add(tail);
        if total > Self::FRAMES {
            // The outermost ones are worth more.
            self.known.copy_within(from..count, 0);
            (self.count, new) = (tail as u32, 0);
        } else {
            if new != from {
                self.known.copy_within(from..count, new);
            }
            self.count = total as u32;
        }
        if let Some(to) = self.known.get_mut(..new)
            && let Some(made) = self.new.get(..new)
        {
            to.copy_from_slice(made);
        }
        self.settle(new);
    }

    /// Finds out where the frame pointer is needed among the first frames, from what those behind them need.
    fn settle(&mut self, new: usize) {
        let count = self.count as usize;
        let (mut needed, mut fp) = match self.known.get(new).filter(|_| new < count) {
            Some(joined) => (joined.needs_fp, joined.fp),
            None => (false, 0),
        };
        let Some(frames) = self.known.get_mut(..new) else {
            return;
        };
        for frame in frames.iter_mut().rev() {
            if frame.fp_at != 0 {
                // The caller's is read from there.
                if !needed {
                    frame.fp_at = 0;
                }
                needed = false;
            }
            // Of a frame that is new: whether its own rule needs it.
            if frame.needs_fp {
                (needed, fp) = (true, frame.fp);
            }
            (frame.needs_fp, frame.fp) = (needed, fp);
        }
    }
}

impl Default for LastWalk {
    fn default() -> Self {
        Self::new()
    }
}

/// The frame at `at`, if it and all further out lead to the callers that they led to. Else how many frames are of no use.
#[inline]
fn still_lead<M: Memory>(known: &[Known], at: usize, memory: &M) -> Result<(), usize> {
    let frames = known.get(at..).unwrap_or(&[]);
    let callers = frames.get(1..).unwrap_or(&[]);
    for (index, (frame, caller)) in frames.iter().zip(callers).enumerate() {
        let same = |address, value| memory.read_u64(address) == Some(value);
        let returns = memory.read_u64(frame.return_at) == Some(caller.pc);
        if !returns || (frame.fp_at != 0 && !same(frame.fp_at, caller.fp)) {
            return Err(at.wrapping_add(index).wrapping_add(1));
        }
    }
    Ok(())
}

impl CfiEngine<'_> {
    /// Walks a stack as [`walk`](crate::Engine::walk) does, with the same frames, and compares it with the walk before, if that was of the same thread: where
    /// the two come together, what was found then is looked at again rather than found.
    ///
    /// # Signal safety
    ///
    /// As `walk`; `last` must not be in use.
    pub fn walk_again<M: Memory, S: Modules>(
        &self,
        registers: &Registers,
        memory: &M,
        modules: &S,
        last: &mut LastWalk,
        out: &mut FrameBuffer<'_>,
    ) -> WalkedAgain {
        let not_kept = |end| WalkedAgain {
            end,
            shared: 0,
            kept: false,
        };
        if last.generation != modules.generation() {
            last.forget();
        }
        let mut walk = self.begin(registers, true, memory, modules);
        let (known, new) = last.parts();
        let mut noted = 0;
        // Frames of the walk before that lie further in, or are no longer what they were.
        let mut passed = 0;
        let mut flags = EXACT;
        loop {
            let (pc, sp) = (walk.registers.pc(), walk.registers.sp());
            while known.get(passed).is_some_and(|frame| frame.sp < sp) {
                passed = passed.wrapping_add(1);
            }
            if let Some(frame) = known.get(passed)
                && flags & SCANNED == 0
                && walk.meets(frame)
            {
                match still_lead(known, passed, memory) {
                    Ok(()) => {
                        let tail = known.get(passed..).unwrap_or(&[]);
                        for frame in tail {
                            let flags = if frame.is_exact { EXACT } else { 0 };
                            if out.push(frame.pc, flags).is_err() {
                                return not_kept(End::Truncated);
                            }
                        }
                        let shared = tail.len();
                        if passed != 0 || noted != 0 {
                            last.keep(noted, passed);
                        }
                        return WalkedAgain {
                            end: walk.root(),
                            shared,
                            kept: true,
                        };
                    }
                    Err(useless) => passed = useless,
                }
            }
            if out.push(pc, flags).is_err() {
                return not_kept(End::Truncated);
            }
            let rule = walk.rule();
            let was_sound = walk.is_sound();
            let is_exact = walk.exact;
            flags = match walk.step_by(rule) {
                Ok(Step::Caller { flags }) => flags,
                Ok(Step::Interrupted) => {
                    out.mark_last(EXACT);
                    EXACT
                }
                Ok(Step::Root) if rule.kind() == Kind::Root => {
                    if let Some(place) = new.get_mut(noted).filter(|_| was_sound) {
                        *place = Known {
                            pc,
                            sp,
                            is_exact,
                            ..Known::default()
                        };
                        last.generation = modules.generation();
                        last.count = 0;
                        last.keep(noted.wrapping_add(1), 0);
                        return WalkedAgain {
                            end: End::Root,
                            shared: 0,
                            kept: true,
                        };
                    }
                    return not_kept(walk.root());
                }
                Ok(Step::Root) => return not_kept(walk.root()),
                Ok(Step::Entry) => {
                    out.mark_last(EXACT);
                    return not_kept(walk.root());
                }
                Err(reason) => return not_kept(walk.broken(reason, out)),
            };
            walk.exact = flags & EXACT != 0;
            let cfa = walk.registers.sp();
            let grows = cfa > sp || (is_exact && cfa == sp);
            let is_simple = was_sound && walk.is_sound() && grows && flags == 0;
            noted = match (simple(rule).filter(|_| is_simple), new.get_mut(noted)) {
                (Some(simple), Some(place)) => {
                    *place = Known {
                        pc,
                        sp,
                        return_at: cfa.wrapping_add(simple.return_slot),
                        fp: cfa.wrapping_sub(simple.offset),
                        fp_at: match simple.fp_slot {
                            0 => 0,
                            slot => cfa.wrapping_add(slot),
                        },
                        is_exact,
                        needs_fp: simple.by_fp,
                    };
                    noted.wrapping_add(1)
                }
                // Whoever comes here again goes this step again, and those further in.
                _ => 0,
            };
        }
    }
}

/// A rule that needs the stack pointer or the frame pointer alone.
#[inline(always)]
fn simple(rule: Rule) -> Option<Simple> {
    match rule.kind() {
        Kind::Register => packed::simple(rule),
        _ => None,
    }
}

impl<M: Memory, S: Modules> Walk<'_, M, S> {
    /// Whether nothing that led here was a guess.
    #[inline(always)]
    fn is_sound(&self) -> bool {
        !self.doubtful && !self.searched
    }

    /// Whether the walk has come to a frame as the walk before has.
    #[inline(always)]
    fn meets(&self, frame: &Known) -> bool {
        frame.sp == self.registers.sp()
            && frame.pc == self.registers.pc()
            && frame.is_exact == self.exact
            && self.is_sound()
            && (!frame.needs_fp || self.frame_pointer() == Some(frame.fp))
    }

    fn frame_pointer(&self) -> Option<u64> {
        self.saved.frame_pointer(&self.registers, self.memory)
    }
}
