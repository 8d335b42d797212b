//! The C library's functions behind ours.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::interpose::symbols;

/// Arguments as they travel in registers: functions that have fewer do not look at the rest.
pub type Arguments = [u64; 4];
type Function = unsafe extern "C-unwind" fn(u64, u64, u64, u64) -> c_int;

/// One function.
#[derive(Debug)]
pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<()>,
    misses: AtomicU32,
}

impl Real {
    /// The function of this name, which was not looked up yet.
    pub const fn new(name: &'static CStr) -> Self {
        Real {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
            misses: AtomicU32::new(0),
        }
    }

    /// Calls the function. 0 where no library has it: before glibc 2.34 a program without threads may lack it, and then there is nothing
    /// to wait for.
    ///
    /// # Safety
    /// The arguments must be the function's own.
    #[inline(always)]
    pub unsafe fn call(&self, [a, b, c, d]: Arguments) -> c_int {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.look_up();
        }
        // SAFETY: functions of this kind take up to four words and return an int; null is None.
        match unsafe { std::mem::transmute::<*mut (), Option<Function>>(address) } {
            // SAFETY: as the caller says.
            Some(function) => unsafe { function(a, b, c, d) },
            None => 0,
        }
    }

    /// Looks for it in the libraries behind us, without the loader's `dlsym`, which may allocate. As long as none has it, ever more rarely.
    #[cold]
    #[inline(never)]
    fn look_up(&self) -> *mut () {
        let misses = self.misses.load(Ordering::Relaxed);
        self.misses.store(misses.wrapping_add(1), Ordering::Relaxed);
        if misses & misses.wrapping_sub(1) != 0 {
            return std::ptr::null_mut();
        }
        let found = symbols::behind(self.name);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! reals {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[allow(non_upper_case_globals, reason = "named as the function")]
            pub static $name: Real = Real::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                },
            );
        )*
        static ALL: &[&Real] = &[$(&$name),*];
    };
}

reals! {
    pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock pthread_mutex_clocklock
    pthread_rwlock_rdlock pthread_rwlock_tryrdlock pthread_rwlock_timedrdlock pthread_rwlock_clockrdlock
    pthread_rwlock_wrlock pthread_rwlock_trywrlock pthread_rwlock_timedwrlock pthread_rwlock_clockwrlock
    pthread_spin_lock pthread_spin_trylock
    mtx_lock mtx_trylock mtx_timedlock
    sem_wait sem_trywait sem_timedwait sem_clockwait
    pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait cnd_wait cnd_timedwait
    pthread_barrier_wait pthread_testcancel
    pthread_join pthread_timedjoin_np pthread_clockjoin_np thrd_join
}

/// Looks all of them up, once: later on, a signal handler or a fork's child may be the first to call one, while the loader is busy.
pub fn resolve_all() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        for real in ALL {
            if real.address.load(Ordering::Relaxed).is_null() {
                real.look_up();
            }
        }
    }
}
