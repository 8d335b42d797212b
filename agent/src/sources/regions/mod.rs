//! Regions of the program's own: what `rsys.h`, the Python module `rsys` and the Fortran module `rsys` call, and the original's interface for
//! the same.
//!
//! The functions `rsys_agent_…` are found by the programs themselves: weakly linked, or by `dlsym`. Without the agent they are not there, and
//! nothing is called.

mod original;
mod values;

use std::ffi::{c_char, c_double, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{Arg, Category, Key, Labelled, Value};
use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::events;
use crate::events::texts::{self, StaticText};
use crate::sources::marker_words::Nest;
use crate::sources::source::Source;
use crate::state::pause;
use crate::sys;

pub use self::original::{NEW, OLD};
use self::values::{Values, encode};

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::User],
    // The child does not end what its parent began.
    after_fork_in_child: || nest().forget(),
    ..Source::NONE
};

crate::thread_words! {
    fn place() -> *mut Nest = "rsys_region_words"
}

/// The calling thread's open regions.
fn nest<'a>() -> &'a mut Nest {
    // SAFETY: part of the thread's static TLS; nothing that holds the reference calls into the program.
    unsafe { &mut *place() }
}

static NEXT_RANGE: AtomicU64 = AtomicU64::new(1);
static PAUSED: StaticText = StaticText::new("collection paused");
static RESUMED: StaticText = StaticText::new("collection resumed");

/// Calls `then` with the key of the name, and with the arguments: the name, where it has no key, and the values.
fn named(name: *const c_char, values: &Values<'_>, then: impl FnOnce(u64, &[Arg<'_>])) {
    encode(values, |payload| {
        texts::named(name, |key, own| {
            let values = (Key::Values, Value::Text(payload));
            match (own, payload) {
                (own, []) => then(key, own),
                ([], _) => then(key, &[values]),
                ([name, ..], _) => then(key, &[*name, values]),
            }
        });
    });
}

fn records() -> bool {
    events::records(Category::User)
}

fn push(name: *const c_char, values: &Values<'_>) {
    if !records() {
        return;
    }
    let skipped = pause::is_caller_paused() && nest().may_skip();
    nest().open(!skipped);
    if !skipped {
        named(name, values, |key, args| {
            events::begin(Category::User, key, 0, args);
        });
    }
}

fn pop(values: &Values<'_>) {
    if !records() {
        return;
    }
    match nest().close() {
        Some(true) => encode(values, |payload| match payload {
            [] => events::end(Category::User, &[]),
            payload => events::end(Category::User, &[(Key::Values, Value::Text(payload))]),
        }),
        Some(false) => {}
        None => counters::count(Counter::UnmatchedPops, 1),
    }
}

fn mark(name: *const c_char, values: &Values<'_>) {
    if records() && !pause::is_caller_paused() {
        named(name, values, |key, args| {
            events::mark(Category::User, key, 0, args);
        });
    }
}

/// Stops or goes on collecting, for one thread, or for all with 0.
fn set_paused(thread: u64, paused: bool) {
    if !records() {
        return;
    }
    let was_paused = pause::is_caller_paused();
    if paused {
        if pause::pause(thread) && !was_paused {
            events::mark(Category::Profiler, PAUSED.key(), 0, &[]);
        }
    } else if pause::resume(thread) && !pause::is_caller_paused() {
        events::mark(Category::Profiler, RESUMED.key(), 0, &[]);
    }
}

/// The functions that programs find.
macro_rules! exports {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => { $(
        $(#[$about])*
        ///
        /// # Safety
        /// Pointers must be what `rsys.h` says.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? $body
    )* };
}

exports! {
    /// A region begins in the calling thread.
    fn rsys_agent_push(name: *const c_char, list: *const values::Named, count: usize) {
        // SAFETY: the caller's own list.
        push(name, &unsafe { Values::of_list(list, count) });
    }
    /// The innermost region of the calling thread ends.
    fn rsys_agent_pop() {
        pop(&Values::None);
    }
    /// A region begins that any thread may end. Returns its number.
    fn rsys_agent_start(name: *const c_char, list: *const values::Named, count: usize) -> u64 {
        if !records() || pause::is_caller_paused() {
            return 0;
        }
        let range = NEXT_RANGE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's own list.
        named(name, &unsafe { Values::of_list(list, count) }, |key, args| {
            events::async_begin(Category::User, range, key, args);
        });
        range
    }
    /// Such a region ends.
    fn rsys_agent_stop(range: u64) {
        if range != 0 && records() {
            events::async_end(Category::User, range);
        }
    }
    /// Something happens.
    fn rsys_agent_mark(name: *const c_char, list: *const values::Named, count: usize) {
        // SAFETY: the caller's own list.
        mark(name, &unsafe { Values::of_list(list, count) });
    }
    /// A counter has a value from now on.
    fn rsys_agent_counter(name: *const c_char, value: c_double) {
        if records() && !pause::is_caller_paused() {
            texts::named(name, |key, own| {
                let value = (Key::CounterValue, Value::Double(value));
                match own {
                    [] => events::mark(Category::User, key, 0, &[value]),
                    [name, ..] => events::mark(Category::User, key, 0, &[*name, value]),
                }
            });
        }
    }
    /// Nothing is collected from now on, in any thread.
    fn rsys_agent_pause() {
        set_paused(0, true);
    }
    /// Goes on collecting.
    fn rsys_agent_resume() {
        set_paused(0, false);
    }
    /// Names the calling thread.
    fn rsys_agent_name_thread(name: *const c_char) {
        if records() {
            events::label(Labelled::Thread, u64::from(sys::gettid()), texts::bytes_of(name), &[]);
        }
    }
    /// Whether regions are recorded at present.
    fn rsys_agent_is_recording() -> c_int {
        c_int::from(records() && !pause::is_caller_paused())
    }
}
