//! The thread states of an interpreter: whose they are, and whose lock they share.

use std::ops::Range;
use std::time::{Duration, Instant};

use rsys_python::{Interpreter, outside, stack, thread};
use rsys_unwind::Memory;

use super::blocks::Blocks;

/// The lists are read for no more than one part in this many of the time.
const LIST_SHARE: u32 = 20;
/// A thread that was in no list this many times is looked for seldom,
const MISSES_MAX: u8 = 3;
/// after this time each.
const MISSED_AGAIN: Duration = Duration::from_millis(100);
/// Blocks of the lists that are kept in mind: what 2048 threads have.
const BLOCKS_KEPT: usize = 4096;

/// The thread states of an interpreter, as its lists had them last.
#[derive(Debug, Default)]
pub struct States {
    threads: Vec<Listed>,
    /// The interpreters that they belong to: the runtime's own, and sub-interpreters.
    interpreters: Vec<u64>,
    listed: Option<Instant>,
    took: Duration,
    blocks: Vec<u64>,
}

/// A thread state, and the thread that it is most likely of.
#[derive(Debug, Clone, Copy)]
struct Listed {
    state: u64,
    tid: u32,
}

/// What is known of the state of one thread.
#[derive(Debug, Default)]
pub struct OwnState {
    /// Its address, or 0.
    pub address: u64,
    /// All that it has frames in, where there are several interpreters; else this one.
    pub all: Vec<u64>,
    misses: u8,
    missed: Option<Instant>,
}

impl States {
    /// Finds the state of thread `tid`, whose stack pointer is `sp`, and leaves it, or 0, in `own`, with all that it has in others. `false` when
    /// that cannot be said now.
    pub fn find(
        &mut self,
        memory: &Blocks,
        interpreter: &Interpreter,
        (tid, sp): (u32, u64),
        own: &mut OwnState,
    ) -> bool {
        let is_found = self.find_last(memory, interpreter, (tid, sp), own);
        own.all.clear();
        if own.address != 0 && self.interpreters.len() > 1 {
            let handle = interpreter.layout.thread.id;
            let handle = memory.read_u64(own.address.wrapping_add(handle));
            let stack = stack::stack_of(handle.unwrap_or(0), sp);
            let is_here = |state: u64| {
                let is_own = outside::belongs_to(memory, interpreter, state, tid);
                stack::is_entered_on(memory, interpreter, state, is_own, &stack)
                    && stack::is_running(memory, interpreter, state)
            };
            // Where the stack tells no order (before 3.11), the interpreter that was made first is the outermost, and the newest are listed first.
            let listed = self.threads.iter().map(|listed| listed.state);
            let others = listed.filter(|state| *state != own.address);
            let all = others.chain([own.address]);
            own.all
                .extend(all.filter(|state| is_here(*state)).take(stack::STATES_MAX));
        } else if own.address != 0 {
            own.all.push(own.address);
        }
        is_found
    }

    /// Finds the state of the interpreter that the thread has entered last.
    fn find_last(
        &mut self,
        memory: &Blocks,
        interpreter: &Interpreter,
        (tid, sp): (u32, u64),
        own: &mut OwnState,
    ) -> bool {
        let is_own = |state: u64| outside::belongs_to(memory, interpreter, state, tid);
        let newest = interpreter.layout.thread.lists.first_interpreter;
        let newest = memory.read_u64(interpreter.runtime.wrapping_add(newest));
        let one_interpreter =
            self.interpreters.len() == 1 && newest == self.interpreters.first().copied();
        if own.address != 0 && one_interpreter && is_own(own.address) {
            return true;
        }
        own.address = self.pick(memory, interpreter, is_own, sp, Some(tid));
        if own.address != 0 && one_interpreter {
            return true;
        }
        let seldom = own.misses >= MISSES_MAX
            && own
                .missed
                .is_some_and(|missed| missed.elapsed() < MISSED_AGAIN);
        if seldom {
            return true;
        }
        let rest = self.took * LIST_SHARE;
        if self.listed.is_some_and(|listed| listed.elapsed() < rest) {
            // With several interpreters it may be in another one by now; that is seen next time.
            return own.address != 0;
        }
        self.list(memory, interpreter);
        own.address = self.pick(memory, interpreter, is_own, sp, Some(tid));
        if own.address == 0 {
            own.address = self.pick(memory, interpreter, is_own, sp, None);
        }
        if own.address == 0 {
            own.misses = own.misses.saturating_add(1);
            own.missed = Some(Instant::now());
        } else {
            own.misses = 0;
        }
        true
    }

    /// The memory of the lock that any of the states share, if a word is of one.
    #[must_use]
    pub fn lock_of(
        &self,
        memory: &Blocks,
        interpreter: &Interpreter,
        word: u64,
    ) -> Option<Range<u64>> {
        self.locks(memory, interpreter)
            .find(|lock| lock.contains(&word))
    }

    /// The memory of all locks that states share.
    pub fn locks(
        &self,
        memory: &Blocks,
        interpreter: &Interpreter,
    ) -> impl Iterator<Item = Range<u64>> {
        let states = self.interpreters.iter();
        states.filter_map(|state| outside::lock(memory, interpreter, *state))
    }

    /// Has the lists read at the next question that they can answer.
    pub fn read_anew(&mut self) {
        self.listed = None;
    }

    /// The state of a thread among those that are listed under `tid`, or among all; 0 if none is.
    fn pick(
        &self,
        memory: &Blocks,
        interpreter: &Interpreter,
        is_own: impl Fn(u64) -> bool,
        sp: u64,
        tid: Option<u32>,
    ) -> u64 {
        let listed = self.threads.iter();
        let own = listed
            .filter(|listed| tid.is_none_or(|tid| listed.tid == tid) && is_own(listed.state))
            .map(|listed| listed.state);
        // A thread has a state in each interpreter that it enters, or whose state it made for another thread. It is in the one that
        // it has entered last, which is next to the end of its stack. Before 3.11 that is not known, and it is in the first at least.
        let rank = |state: &u64| {
            let walked = stack::walk(memory, interpreter, *state, &mut [0], |_, _| ());
            let entered = stack::entered(memory, interpreter, *state);
            let distance = entered.map_or(0, |entered| entered.wrapping_sub(sp));
            (walked.count == 0, distance, walked.interpreter)
        };
        own.min_by_key(rank).unwrap_or(0)
    }

    /// Reads the lists anew.
    fn list(&mut self, memory: &Blocks, interpreter: &Interpreter) {
        let begin = Instant::now();
        self.threads.clear();
        self.interpreters.clear();
        memory.begin(&self.blocks);
        // What is half-way through a change ends early, and is read again.
        let _ = thread::list(memory, interpreter, |state, thread| {
            if thread == 0 {
                self.interpreters.push(state);
            } else {
                let tid = outside::tid(memory, interpreter, thread);
                self.threads.push(Listed {
                    state: thread,
                    tid: tid.unwrap_or(0),
                });
            }
            Some(())
        });
        memory.keep(&mut self.blocks, BLOCKS_KEPT);
        self.took = begin.elapsed();
        self.listed = Some(Instant::now());
    }
}
