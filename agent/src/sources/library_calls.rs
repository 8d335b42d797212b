//! Calls of a library whose functions pass through one trampoline, each recorded as a slice.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{ArgWords, Key, Value};
use rsys_wire::sources::Category;

use crate::code::modules;
use crate::events;
use crate::interpose::table::{MOST_FUNCTIONS, NAME_BYTES};
use crate::interpose::trampoline::Call;
use crate::sys::guard;

/// The keys of names, with [`events::generation`] in the upper bits; 0 before the first use.
#[derive(Debug)]
pub struct Names([AtomicU64; MOST_FUNCTIONS]);

const KEY_BITS: u32 = 48;

impl Names {
    /// None is recorded.
    pub const fn new() -> Self {
        Names([const { AtomicU64::new(0) }; MOST_FUNCTIONS])
    }

    /// The key of a function's name, which `name` puts into the room when it is first needed.
    #[inline]
    pub fn key(&self, function: u16, name: fn(u16, &mut [u8; NAME_BYTES])) -> u64 {
        let Some(known) = self.0.get(usize::from(function)) else {
            return 0;
        };
        let word = known.load(Ordering::Acquire);
        if word >> KEY_BITS == events::generation() {
            return word & ((1 << KEY_BITS) - 1);
        }
        let mut text = [0; NAME_BYTES];
        name(function, &mut text);
        let text = CStr::from_bytes_until_nul(&text).unwrap_or(c"");
        let key = events::text(text.to_bytes());
        known.store(events::generation() << KEY_BITS | key, Ordering::Release);
        key
    }
}

/// Places of calls that are remembered.
const PLACES: usize = 512;
/// Set beside an address in the library itself. No address has this bit.
const IS_LIBRARY: u64 = 1 << 63;

/// Who calls a library: others, or itself.
#[derive(Debug)]
pub struct Callers {
    known: [AtomicU64; PLACES],
    /// What the file names of the library begin with.
    files: &'static [&'static [u8]],
}

impl Callers {
    /// Of a library whose files are named so.
    pub const fn of(files: &'static [&'static [u8]]) -> Self {
        Callers {
            known: [const { AtomicU64::new(0) }; PLACES],
            files,
        }
    }

    /// Whether what returns to this address is called by the library itself.
    #[inline]
    pub fn is_library(&self, return_address: u64) -> bool {
        let place = (return_address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % PLACES;
        let Some(known) = self.known.get(place) else {
            return false;
        };
        let word = known.load(Ordering::Relaxed);
        if word & !IS_LIBRARY == return_address {
            return word & IS_LIBRARY != 0;
        }
        let is_library = self.look(return_address);
        let mark = if is_library { IS_LIBRARY } else { 0 };
        known.store(return_address | mark, Ordering::Relaxed);
        is_library
    }

    #[cold]
    #[inline(never)]
    fn look(&self, return_address: u64) -> bool {
        let mut path = [0_u8; 1024];
        // The call itself is before the address to which it returns.
        let Some(object) = modules::find(return_address.wrapping_sub(1)) else {
            return false;
        };
        let bytes = guard::copy_c_string(object.path, &mut path[..1023]);
        let file = path
            .get(..bytes)
            .and_then(|path| path.rsplit(|byte| *byte == b'/').next())
            .unwrap_or(&[]);
        self.is_of(file)
    }

    fn is_of(&self, file: &[u8]) -> bool {
        self.files.iter().any(|start| file.starts_with(start))
    }
}

/// Makes a call with this number of argument words, and records it as a slice with these arguments. `error` gives the error that a return value stands for.
#[inline]
pub fn record(
    category: Category,
    name: u64,
    args: &ArgWords,
    (call, real, words): (&mut Call, *const (), usize),
    error: impl FnOnce(usize) -> Option<i64>,
) {
    let is_recorded = events::begin_with(category, name, 0, args);
    call.forward(real, words);
    if !is_recorded {
        return;
    }
    let mut args = ArgWords::new();
    if let Some(error) = error(call.result()) {
        args.push(Key::Result, Value::Int(error));
    }
    events::end_with(category, &args);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_its_file() {
        static CALLERS: Callers = Callers::of(&[b"libucp.", b"libucs"]);
        for (file, is_library) in [
            (&b"libucp.so.0.0.0"[..], true),
            (b"libucs.so.0", true),
            (b"libucp_wrapper.so", false),
            (b"mca_pml_ucx.so", false),
        ] {
            assert_eq!(CALLERS.is_of(file), is_library);
        }
        // What is in no library is the program's.
        assert!(!CALLERS.is_library(1));
    }
}
