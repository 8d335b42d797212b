//! What the names of functions say.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::events;
use crate::sources::mpi::table;

/// Functions that need more than their row in the table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    None,
    Init,
    Finalize,
    /// Makes a communicator of the same ranks.
    Copy,
    /// Starts persistent requests.
    Start,
    FreeRequest,
    /// May be called before MPI is initialised, and so be a program's first call.
    First,
}

const SPECIAL: [(&str, Special); 15] = [
    ("Initialized", Special::First),
    ("Finalized", Special::First),
    ("Get_version", Special::First),
    ("Get_library_version", Special::First),
    ("Session_init", Special::First),
    ("Init", Special::Init),
    ("Init_thread", Special::Init),
    ("Finalize", Special::Finalize),
    ("Comm_dup", Special::Copy),
    ("Comm_dup_with_info", Special::Copy),
    ("Comm_idup", Special::Copy),
    ("Comm_idup_with_info", Special::Copy),
    ("Start", Special::Start),
    ("Startall", Special::Start),
    ("Request_free", Special::FreeRequest),
];

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut place = 0;
    while place < a.len() && place < b.len() && a[place] == b[place] {
        place += 1;
    }
    place == a.len() && place == b.len()
}

/// By number in the table.
static OF_NUMBER: [Special; table::COUNT] = {
    let mut found = [Special::None; table::COUNT];
    let mut number = 0;
    while number < table::COUNT {
        let mut row = 0;
        while row < SPECIAL.len() {
            if same(table::NAMES[number], SPECIAL[row].0) {
                found[number] = SPECIAL[row].1;
            }
            row += 1;
        }
        number += 1;
    }
    found
};

/// What else there is to a function.
#[inline]
pub fn special(function: usize) -> Special {
    OF_NUMBER.get(function).copied().unwrap_or(Special::None)
}

/// Whether the request of a function stays when it is done.
#[inline]
pub fn is_persistent(function: usize) -> bool {
    table::name(function).ends_with("_init")
}

/// Whether a function returns a time instead of success or failure.
#[inline]
pub fn returns_time(function: usize) -> bool {
    table::name(function).starts_with("Wti")
}

/// The keys of names, with [`events::generation`] in the upper bits; 0 before the first use.
static KEYS: [AtomicU64; table::COUNT] = [const { AtomicU64::new(0) }; table::COUNT];
const KEY_BITS: u32 = 48;

/// The key of a function's name, which is recorded when it is first needed.
#[inline]
pub fn key(function: usize) -> u64 {
    let Some(known) = KEYS.get(function) else {
        return 0;
    };
    let word = known.load(Ordering::Acquire);
    if word >> KEY_BITS == events::generation() {
        return word & ((1 << KEY_BITS) - 1);
    }
    record(function, known)
}

#[cold]
fn record(function: usize, known: &AtomicU64) -> u64 {
    let mut text = [0_u8; 64];
    let name = b"MPI_".iter().chain(table::name(function).as_bytes());
    let mut bytes = 0;
    for (to, from) in text.iter_mut().zip(name) {
        *to = *from;
        bytes += 1;
    }
    let key = events::text(text.get(..bytes).unwrap_or(&[]));
    known.store(events::generation() << KEY_BITS | key, Ordering::Release);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_functions_are_in_the_table() {
        for (name, what) in SPECIAL {
            assert_eq!(
                table::find(name.as_bytes()).map(special),
                Some(what),
                "{name}"
            );
        }
        assert_eq!(table::find(b"Send").map(special), Some(Special::None));
        assert!(table::find(b"Send_init").is_some_and(is_persistent));
    }
}
