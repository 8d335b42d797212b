//! The functions of a library that all pass through one trampoline ([`crate::interpose::trampoline`]).
//!
//! As of [`crate::interpose::wrapped::Wrapped`], several libraries may have a function of the same name: a stub exists at several *places*, of which
//! place 0 is the exported one. A library that is known once only may have other names in the numbers of the other places, as long as it has all of its names
//! in [`FunctionTable::find`]. Nothing here needs a relocation or a page of memory before a function is called, for every process has it.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::interpose::symbols;
use crate::interpose::trampoline::STUB_BYTES;

/// How many functions of one name are distinguished.
pub const PLACES: usize = 4;
/// The most functions of a table. A number of a stub is that of its function and, above that, its place.
pub const MOST_FUNCTIONS: usize = 1 << 12;
/// The longest name with its NUL.
pub const NAME_BYTES: usize = 64;

/// The functions behind the stubs, by numbers of stubs. A number below 4096 is no function: it counts searches that found none.
#[derive(Debug)]
pub struct Reals([AtomicPtr<()>; PLACES * MOST_FUNCTIONS]);

impl Reals {
    /// None is known.
    #[must_use]
    pub const fn new() -> Self {
        Reals([const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES * MOST_FUNCTIONS])
    }
}

/// One library's functions.
#[derive(Debug)]
pub struct FunctionTable {
    /// The number of the function of this name.
    pub find: fn(&[u8]) -> Option<u16>,
    /// The name of a function, with its NUL.
    pub name: fn(u16, &mut [u8; NAME_BYTES]),
    /// The first stub of a place: of place 1 and those above, whose stubs have no names. Null where only one library is wrapped; all numbers may have names then.
    pub later: fn(usize) -> *const (),
    /// What stands behind the stubs.
    pub reals: &'static Reals,
}

/// Splits the number of a stub: the place, and the function.
#[inline]
pub fn parts(stub: u32) -> (usize, u16) {
    (
        stub as usize / MOST_FUNCTIONS,
        (stub as usize % MOST_FUNCTIONS) as u16,
    )
}

/// Whether a stored word is no function but a number of searches.
fn is_count(known: *mut ()) -> bool {
    known.addr() < 4096
}

impl FunctionTable {
    /// The function behind a stub, or null.
    #[inline]
    pub fn real(&self, stub: u32) -> *const () {
        let known = self
            .reals
            .0
            .get(stub as usize)
            .map_or(std::ptr::null_mut(), |real| real.load(Ordering::Acquire));
        if is_count(known) {
            self.look_up(stub)
        } else {
            known
        }
    }

    /// Looks for a function in the libraries behind us: at the first call, and, as long as none has it, ever more rarely.
    #[cold]
    #[inline(never)]
    fn look_up(&self, stub: u32) -> *const () {
        let (place, _) = parts(stub);
        if place != 0 && !(self.later)(place).is_null() {
            return std::ptr::null();
        }
        let (Some(real), Ok(number)) = (self.reals.0.get(stub as usize), u16::try_from(stub))
        else {
            return std::ptr::null();
        };
        let misses = real.load(Ordering::Relaxed).addr();
        if is_count(std::ptr::without_provenance_mut(misses))
            && misses & misses.wrapping_sub(1) == 0
        {
            let mut name = [0; NAME_BYTES];
            (self.name)(number, &mut name);
            let found =
                CStr::from_bytes_until_nul(&name).map_or(std::ptr::null_mut(), symbols::next);
            if !found.is_null() {
                real.store(found, Ordering::Release);
                return found;
            }
        }
        let more = misses.wrapping_add(1).min(4095);
        // Threads that count at once may lose a count, or look once more for what another has found.
        real.store(std::ptr::without_provenance_mut(more), Ordering::Relaxed);
        std::ptr::null()
    }

    /// The stub in front of this function, or null when all places are taken.
    pub fn stub_of(&self, function: u16, real: *const ()) -> *const () {
        let mut name = [0; NAME_BYTES];
        (self.name)(function, &mut name);
        let Ok(name) = CStr::from_bytes_until_nul(&name) else {
            return std::ptr::null();
        };
        if std::ptr::eq(self.real(u32::from(function)), real) {
            return symbols::own(name);
        }
        for place in 1..PLACES {
            if (self.later)(place).is_null() {
                break;
            }
            let number = place
                .wrapping_mul(MOST_FUNCTIONS)
                .wrapping_add(usize::from(function));
            let Some(slot) = self.reals.0.get(number) else {
                break;
            };
            let stub = || {
                (self.later)(place)
                    .wrapping_byte_add(usize::from(function).wrapping_mul(STUB_BYTES))
            };
            // The pointer outlives what the program knows of the library.
            symbols::keep(real);
            let none = std::ptr::null_mut();
            match slot.compare_exchange(none, real.cast_mut(), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return stub(),
                Err(other) if std::ptr::eq(other, real) => return stub(),
                Err(_) => {}
            }
        }
        std::ptr::null()
    }
}
