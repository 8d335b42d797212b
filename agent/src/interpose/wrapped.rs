//! Functions of other libraries that the agent wraps, however the program comes by them.
//!
//! A program that is linked with such a library calls the wrapper because it is exported here, in front of all libraries. One that
//! opens the library itself asks `dlsym` ([`crate::hooks::dlsym`]), which answers with a wrapper as well. Several libraries may have a function of
//! the same name and must not get each other's calls, so each wrapper exists in several *places*, each with a real function of its own:
//! place 0 is the exported one, the others are handed out by `dlsym`.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::interpose::symbols;

/// The most functions of one name that are distinguished.
pub const PLACES: usize = 4;

/// Addresses of the wrapper, one for each place.
#[derive(Debug, Clone, Copy)]
pub struct Wrappers(pub [*const (); PLACES]);

// SAFETY: addresses of code, which never change.
unsafe impl Sync for Wrappers {}

/// One wrapped function.
#[derive(Debug)]
pub struct Wrapped {
    name: &'static CStr,
    wrappers: Wrappers,
    reals: [AtomicPtr<()>; PLACES],
    /// How often no library had it.
    misses: AtomicU32,
}

impl Wrapped {
    /// A function of this name and the wrappers for it.
    #[must_use]
    pub const fn new(name: &'static CStr, wrappers: Wrappers) -> Self {
        Wrapped {
            name,
            wrappers,
            reals: [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES],
            misses: AtomicU32::new(0),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// The real function behind a place, or null.
    #[inline]
    pub fn real<const PLACE: usize>(&self) -> *mut () {
        let known = self
            .reals
            .get(PLACE)
            .map_or(std::ptr::null_mut(), |real| real.load(Ordering::Acquire));
        if known.is_null() && PLACE == 0 {
            self.look_up()
        } else {
            known
        }
    }

    /// Looks for the function in the libraries behind us: at the first call, and, as long as none has it, ever more rarely.
    #[cold]
    #[inline(never)]
    fn look_up(&self) -> *mut () {
        let misses = self.misses.load(Ordering::Relaxed);
        // Threads that count at once may lose a count, which is no harm.
        self.misses.store(misses.wrapping_add(1), Ordering::Relaxed);
        if misses & misses.wrapping_sub(1) != 0 {
            return std::ptr::null_mut();
        }
        let found = symbols::next(self.name);
        if let Some(place) = self.reals.first()
            && !found.is_null()
        {
            place.store(found, Ordering::Release);
        }
        found
    }

    /// The wrapper that calls this real function, or null when all places are taken.
    pub fn wrapper_of(&self, real: *const ()) -> *const () {
        let linked = self.real::<0>();
        for (place, (wrapper, slot)) in self.wrappers.0.iter().zip(&self.reals).enumerate() {
            let known = if place == 0 {
                linked
            } else {
                slot.load(Ordering::Acquire)
            };
            if std::ptr::eq(known, real) {
                return *wrapper;
            }
            if place == 0 || !known.is_null() {
                continue;
            }
            // The pointer outlives what the program knows of the library.
            symbols::keep(real);
            let none = std::ptr::null_mut();
            match slot.compare_exchange(none, real.cast_mut(), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return *wrapper,
                Err(other) if std::ptr::eq(other, real) => return *wrapper,
                Err(_) => {}
            }
        }
        std::ptr::null()
    }
}

/// Exports wrappers: `fn name(arguments) -> result = body`, where the body is a function of the real function (an `Option`) and the arguments.
#[macro_export]
macro_rules! wrap {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $body:path;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` and what stands in front of it.")]
            #[allow(non_snake_case, reason = "named as the function")]
            pub mod $name {
                #[allow(unused_imports, reason = "not every signature needs them")]
                use super::*;
                /// The signature.
                pub type Function = unsafe extern "C" fn($($type),*) -> $result;
                /// The wrapper at each place.
                pub static WRAPPED: $crate::interpose::wrapped::Wrapped = $crate::interpose::wrapped::Wrapped::new(
                    match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without NUL"),
                    },
                    $crate::interpose::wrapped::Wrappers([
                        super::$name as *const (),
                        at::<1> as *const (),
                        at::<2> as *const (),
                        at::<3> as *const (),
                    ]),
                );
                /// The wrapper at one place.
                ///
                /// # Safety
                /// As the function itself.
                #[inline]
                pub unsafe extern "C" fn at<const PLACE: usize>($($argument: $type),*) -> $result {
                    let real = WRAPPED.real::<PLACE>();
                    // SAFETY: libraries declare the function of this name so; null is None.
                    let real = unsafe { std::mem::transmute::<*mut (), Option<Function>>(real) };
                    $body(real, PLACE, $($argument),*)
                }
            }

            /// # Safety
            /// As the function of the library.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(non_snake_case, reason = "the library's name for it")]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                // SAFETY: the caller's own arguments.
                unsafe { $name::at::<0>($($argument),*) }
            }
        )*
        /// All that are wrapped here.
        pub static WRAPPED: &[&$crate::interpose::wrapped::Wrapped] = &[$(&$name::WRAPPED),*];
    };
}
