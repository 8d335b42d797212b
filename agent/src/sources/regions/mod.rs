//! Regions of the program's own: what `rsys.h`, the Python module `rsys` and the Fortran module `rsys` call, the original's interface for
//! the same, and those of Intel ([`itt`]) and NVIDIA ([`nvtx`]), which the user switches on.
//!
//! The functions `rsys_agent_…` are found by the programs themselves: weakly linked, or by `dlsym`. Without the agent they are not there, and
//! nothing is called.

mod handles;
mod itt;
mod nvtx;
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
    categories: &[Category::User, Category::Itt, Category::Nvtx],
    // The child does not end what its parent began.
    after_fork_in_child: || nest().forget(),
    ..Source::NONE
};

crate::thread_words! {
    fn place() -> *mut Nest = "rsys_region_words"
}

/// The calling thread's open regions, of all interfaces: they are one nest in the trace as well. (A nest for each would make the thread's static memory too
/// large for the agent to be opened by `dlopen`, as programs do that are not followed.)
fn nest<'a>() -> &'a mut Nest {
    // SAFETY: part of the thread's static TLS; nothing that holds the reference calls into the program.
    unsafe { &mut *place() }
}

static NEXT_RANGE: AtomicU64 = AtomicU64::new(1);

/// A number for a range that any thread may end.
fn next_range() -> u64 {
    NEXT_RANGE.fetch_add(1, Ordering::Relaxed)
}

static PAUSED: StaticText = StaticText::new("collection paused");
static RESUMED: StaticText = StaticText::new("collection resumed");

/// Calls `then` with the key of the name, and with the arguments: the name, where it has no key, the domain, and the values.
fn named(
    name: *const c_char,
    domain: *const c_char,
    values: &Values<'_>,
    then: impl FnOnce(u64, &[Arg<'_>]),
) {
    encode(values, |payload| {
        texts::named(name, |key, own| {
            let mut args = [(Key::Values, Value::Text(payload)); 3];
            let mut used = 0;
            let mut put = |arg| {
                if let Some(place) = args.get_mut(used) {
                    *place = arg;
                    used += 1;
                }
            };
            own.iter().copied().for_each(&mut put);
            if !domain.is_null() {
                let text = texts::key_of(texts::bytes_of(domain));
                put((Key::Domain, Value::Known(text)));
            }
            if !payload.is_empty() {
                put((Key::Values, Value::Text(payload)));
            }
            then(key, args.get(..used).unwrap_or(&[]));
        });
    });
}

const NO_DOMAIN: *const c_char = std::ptr::null();

fn records(category: Category) -> bool {
    events::records(category)
}

/// A region begins in the calling thread.
fn push_of(category: Category, name: *const c_char, domain: *const c_char, values: &Values<'_>) {
    if !records(category) {
        return;
    }
    let skipped = pause::is_caller_paused() && nest().may_skip();
    nest().open(!skipped);
    if !skipped {
        named(name, domain, values, |key, args| {
            events::begin(category, key, 0, args);
        });
    }
}

fn push(name: *const c_char, values: &Values<'_>) {
    push_of(Category::User, name, NO_DOMAIN, values);
}

fn pop_of(category: Category, values: &Values<'_>) {
    if !records(category) {
        return;
    }
    match nest().close() {
        Some(true) => encode(values, |payload| match payload {
            [] => events::end(category, &[]),
            payload => events::end(category, &[(Key::Values, Value::Text(payload))]),
        }),
        Some(false) => {}
        None => counters::count(Counter::UnmatchedPops, 1),
    }
}

/// How many regions the calling thread has open.
fn depth() -> c_int {
    c_int::try_from(nest().depth()).unwrap_or(c_int::MAX)
}

fn pop(values: &Values<'_>) {
    pop_of(Category::User, values);
}

fn mark_of(category: Category, name: *const c_char, domain: *const c_char, values: &Values<'_>) {
    if records(category) && !pause::is_caller_paused() {
        named(name, domain, values, |key, args| {
            events::mark(category, key, 0, args);
        });
    }
}

fn mark(name: *const c_char, values: &Values<'_>) {
    mark_of(Category::User, name, NO_DOMAIN, values);
}

/// A range of this number begins, which any thread may end. False where it is left out.
fn start_of(
    category: Category,
    range: u64,
    name: *const c_char,
    domain: *const c_char,
    values: &Values<'_>,
) -> bool {
    let is_recorded = records(category) && !pause::is_caller_paused();
    if is_recorded {
        named(name, domain, values, |key, args| {
            events::async_begin(category, range, key, args);
        });
    }
    is_recorded
}

fn stop_of(category: Category, range: u64) {
    if range != 0 && records(category) {
        events::async_end(category, range);
    }
}

/// Stops or goes on collecting, for one thread, or for all with 0.
fn set_paused(category: Category, thread: u64, paused: bool) {
    if !records(category) {
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

/// Names the calling thread.
fn name_thread(category: Category, name: *const c_char) {
    if records(category) {
        events::label(
            Labelled::Thread,
            u64::from(sys::gettid()),
            texts::bytes_of(name),
            &[],
        );
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
        let range = next_range();
        // SAFETY: the caller's own list.
        let values = unsafe { Values::of_list(list, count) };
        match start_of(Category::User, range, name, NO_DOMAIN, &values) {
            true => range,
            false => 0,
        }
    }
    /// Such a region ends.
    fn rsys_agent_stop(range: u64) {
        stop_of(Category::User, range);
    }
    /// Something happens.
    fn rsys_agent_mark(name: *const c_char, list: *const values::Named, count: usize) {
        // SAFETY: the caller's own list.
        mark(name, &unsafe { Values::of_list(list, count) });
    }
    /// A counter has a value from now on.
    fn rsys_agent_counter(name: *const c_char, value: c_double) {
        if records(Category::User) && !pause::is_caller_paused() {
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
        set_paused(Category::User, 0, true);
    }
    /// Goes on collecting.
    fn rsys_agent_resume() {
        set_paused(Category::User, 0, false);
    }
    /// Names the calling thread.
    fn rsys_agent_name_thread(name: *const c_char) {
        name_thread(Category::User, name);
    }
    /// Whether regions are recorded at present.
    fn rsys_agent_is_recording() -> c_int {
        c_int::from(records(Category::User) && !pause::is_caller_paused())
    }
}
