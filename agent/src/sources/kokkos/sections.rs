//! Sections of a program: made once, then started and stopped by number, in any order and by any thread.

use std::ffi::c_char;
use std::sync::atomic::{AtomicU32, Ordering};

use rsys_wire::event::Category;

use super::is_recorded;
use crate::events;
use crate::events::texts;
use crate::sources::table::Table;
use crate::state;

/// The names of sections, by their numbers plus one.
static NAMES: Table<1024> = Table::new();
/// The ranges of those that have been started.
static STARTED: Table<1024> = Table::new();
static NEXT: AtomicU32 = AtomicU32::new(1);

/// The names are known to its parent's trace alone.
pub fn after_fork_in_child() {
    // Each page of a table that is cleared becomes the child's own, also where the table was empty.
    if state::settings().events.has(Category::Kokkos) {
        NAMES.clear();
        STARTED.clear();
    }
}

/// A number that no section has, where no other tool gives it one.
pub fn next_number() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A section was made.
pub fn create(name: *const c_char, number: u32) {
    if events::records(Category::Kokkos) {
        NAMES.set(u64::from(number) + 1, events::text(texts::bytes_of(name)));
    }
}

/// It is needed no more.
pub fn destroy(number: u32) {
    stop(number);
    NAMES.set(u64::from(number) + 1, 0);
}

/// It starts.
pub fn start(number: u32) {
    let name = NAMES.get(u64::from(number) + 1);
    if name == 0 || !is_recorded() {
        return;
    }
    stop(number);
    let range = events::next_correlation();
    if STARTED.set(u64::from(number) + 1, range)
        && !events::async_begin(Category::Kokkos, range, name, &[])
    {
        STARTED.set(u64::from(number) + 1, 0);
    }
}

/// It stops, if it was started.
pub fn stop(number: u32) {
    let range = STARTED.get(u64::from(number) + 1);
    if range != 0 {
        STARTED.set(u64::from(number) + 1, 0);
        events::async_end(Category::Kokkos, range);
    }
}
