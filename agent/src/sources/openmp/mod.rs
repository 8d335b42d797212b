//! OpenMP: what the runtime says of parallel regions, loops, tasks and waits.
//!
//! Runtimes of LLVM's kind (clang, Intel, AMD) call a tool back ([`tool`], by [`abi`]); gcc's libgomp has no such interface, and its
//! functions are wrapped instead ([`gomp`]). Each slice is named by what happens and by the address in the program's code that made it happen
//! ([`events::place`]).
//!
//! The words that a runtime keeps for its tool say what a task is ([`data`]); a tool of the program's own, which needs them as well, gets
//! them all ([`chain`]).

mod abi;
mod callbacks;
mod chain;
mod data;
mod exported;
mod gomp;
mod mutexes;
mod regions;
mod target;
mod tasks;
mod tool;

use rsys_wire::event::{Arg, Category};

use crate::events;
use crate::events::texts::StaticText;
use crate::sources::marker_words::Nest;
use crate::sources::source::Source;
use crate::state::pause;
use crate::sys;

pub use self::gomp::SOURCE as GOMP;

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Openmp],
    prefix: b"ompt_",
    after_fork_in_child,
    at_end: |_| tool::say_why_nothing(),
    ..Source::NONE
};

/// The child does not end what its parent began.
fn after_fork_in_child() {
    words().levels.forget();
    mutexes::after_fork_in_child();
}

/// What is known of the calling thread. All zero when it starts.
#[derive(Debug)]
#[repr(C)]
struct Words {
    /// Its open slices.
    levels: Nest,
    /// The lock that it waits for, plus one; 0 when it does not.
    waiting: u64,
    /// Since when (CLOCK_BOOTTIME ns).
    waiting_since_ns: u64,
    /// Constructs of libgomp that it is in, of those that let in one thread at a time.
    constructs: u64,
}

crate::thread_words! {
    fn place_of_words() -> *mut Words = "rsys_openmp_words"
}

/// The calling thread's words. Nothing that holds the reference calls into the program or a library.
#[inline]
fn words<'a>() -> &'a mut Words {
    // SAFETY: part of the thread's static TLS, for as long as it runs; see above for exclusivity.
    unsafe { &mut *place_of_words() }
}

/// Whether something that begins now is recorded.
#[inline]
fn is_recorded() -> bool {
    events::records(Category::Openmp) && !pause::is_caller_paused()
}

/// A slice of the calling thread begins.
#[inline]
fn begin(what: &'static StaticText, code: u64, args: &[Arg<'_>]) {
    begin_at(now_ns(), what, code, args);
}

/// A slice of the calling thread began at a time (CLOCK_BOOTTIME ns).
#[inline]
fn begin_at(time_ns: u64, what: &'static StaticText, code: u64, args: &[Arg<'_>]) {
    mutexes::give_up_wait();
    let may_skip = words().levels.may_skip();
    let recorded = is_recorded() || !may_skip;
    let recorded = recorded && {
        let name = events::place(what, code);
        events::begin_at(time_ns, Category::Openmp, name, (0, false), args)
    };
    words().levels.open(recorded);
}

/// The innermost slice of the calling thread ended at a time (CLOCK_BOOTTIME ns).
#[inline]
fn end_at(time_ns: u64) {
    mutexes::give_up_wait();
    close_at(time_ns);
}

#[inline]
fn close_at(time_ns: u64) {
    if words().levels.close() == Some(true) {
        events::end_at(time_ns, Category::Openmp, &[]);
    }
}

/// The innermost slice of the calling thread ends.
#[inline]
fn end() {
    end_at(now_ns());
}

/// Something happens.
#[inline]
fn mark(what: &'static StaticText, code: u64, args: &[Arg<'_>]) {
    mutexes::give_up_wait();
    if is_recorded() {
        events::mark(Category::Openmp, events::place(what, code), 0, args);
    }
}

/// The address of a call, as a number.
#[inline]
fn address(code: abi::CodeAddress) -> u64 {
    code.addr() as u64
}

/// Now, as events have it.
#[inline]
fn now_ns() -> u64 {
    sys::boottime_ns()
}
