//! The functions that are exported in front of the C library's.
//!
//! What is exported is a few instructions that add the return address and the stack pointer to the arguments, in registers that none of
//! these functions uses, and go on in a function of ours as if the program had called that.

use std::ffi::c_int;

use super::kind::Kind;
use super::real::{self, Arguments, Real};
use super::stacks::Caller;
use super::wait::{Taken, Waiting, acquire, rest, try_to_acquire};

/// What functions of POSIX return.
#[inline(always)]
fn posix(result: c_int) -> Taken {
    match result {
        // The owner of a robust mutex has died: the caller is its owner now.
        0 | libc::EOWNERDEAD | libc::PTHREAD_BARRIER_SERIAL_THREAD => Taken::Yes,
        libc::EBUSY => Taken::Busy,
        _ => Taken::No,
    }
}

/// What functions of C11 return: `thrd_success` and `thrd_busy` of glibc's threads.h.
#[inline(always)]
fn c11(result: c_int) -> Taken {
    match result {
        0 => Taken::Yes,
        1 => Taken::Busy,
        _ => Taken::No,
    }
}

/// What `sem_trywait` and its like return.
#[inline(always)]
fn semaphore(result: c_int) -> Taken {
    match result {
        0 => Taken::Yes,
        // SAFETY: the thread's own errno.
        _ if unsafe { *libc::__errno_location() } == libc::EAGAIN => Taken::Busy,
        _ => Taken::No,
    }
}

/// Calls `sem_trywait`. That the semaphore is 0 leaves `errno` as it was, for then `sem_wait` is called.
#[inline(always)]
fn try_semaphore(arguments: Arguments) -> c_int {
    // SAFETY: the thread's own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; so below.
    let before = unsafe { *errno };
    // SAFETY: the caller's own argument.
    let result = unsafe { real::sem_trywait.call(arguments) };
    // SAFETY: as above.
    if result != 0 && unsafe { *errno } == libc::EAGAIN {
        // SAFETY: as above.
        unsafe { *errno = before };
        return libc::EBUSY;
    }
    result
}

/// What `sem_wait` and its like do before they look at the semaphore: they are cancellation points, and refuse times that are none.
mod semaphores {
    use super::*;

    /// The place of the time among the arguments.
    type Time = Option<usize>;

    /// Whether the semaphore may be tried.
    #[inline(always)]
    pub fn begin(arguments: Arguments, clock: Time, time: Time) -> bool {
        let argument = |place: Time| place.and_then(|place| arguments.get(place)).copied();
        let is_clock = argument(clock).is_none_or(|clock| {
            [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].contains(&(clock as libc::clockid_t))
        });
        // SAFETY: the caller's own argument, which the C library reads as well.
        let is_time = argument(time).is_none_or(|time| unsafe {
            let time = std::ptr::with_exposed_provenance::<libc::timespec>(time as usize);
            (0..1_000_000_000).contains(&(*time).tv_nsec)
        });
        if is_clock && is_time {
            // SAFETY: no arguments.
            unsafe { real::pthread_testcancel.call([0; 4]) };
        }
        is_clock && is_time
    }
}

#[inline(always)]
fn try_real(real: &'static Real, arguments: Arguments) -> c_int {
    // SAFETY: the caller's own arguments.
    unsafe { real.call(arguments) }
}

/// The exported part of a function.
macro_rules! export {
    ($name:ident, $body:ident) => {
        /// # Safety
        #[doc = concat!("As `", stringify!($name), "(3)`.")]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "mov r8, [rsp]",
                "lea r9, [rsp + 8]",
                "jmp {body}",
                ".cfi_endproc",
                body = sym $body::body,
            )
        }
    };
}

/// What a function of each form does, as `body` in a module of the function's name.
macro_rules! body {
    ($name:ident, |$arguments:ident, $caller:ident, $waiting:ident| $do:expr, $kind:ident) => {
        mod $name {
            use super::*;

            static WAITING: Waiting = Waiting::new(Kind::$kind, stringify!($name));

            /// # Safety
            /// The arguments are the program's own, of the function in front of which this stands.
            pub unsafe extern "C-unwind" fn body(
                a: u64,
                b: u64,
                c: u64,
                d: u64,
                address: u64,
                stack: u64,
            ) -> c_int {
                let $arguments = [a, b, c, d];
                let $caller = Caller { address, stack };
                let $waiting = &WAITING;
                $do
            }
        }
        export!($name, $name);
    };
}

/// Functions that take a lock, and how each is tried first.
macro_rules! locks {
    ($($name:ident: $kind:ident, $attempt:ident, $judge:ident;)*) => { $(
        body!($name, |arguments, caller, waiting| acquire(
            waiting,
            Kind::$kind,
            arguments[0],
            caller,
            || try_real(&real::$attempt, arguments),
            $judge,
            || try_real(&real::$name, arguments),
        ), $kind);
    )* };
}

locks! {
    pthread_mutex_lock: Mutex, pthread_mutex_trylock, posix;
    pthread_mutex_timedlock: Mutex, pthread_mutex_trylock, posix;
    pthread_mutex_clocklock: Mutex, pthread_mutex_trylock, posix;
    pthread_rwlock_rdlock: RwLock, pthread_rwlock_tryrdlock, posix;
    pthread_rwlock_timedrdlock: RwLock, pthread_rwlock_tryrdlock, posix;
    pthread_rwlock_clockrdlock: RwLock, pthread_rwlock_tryrdlock, posix;
    pthread_rwlock_wrlock: RwLock, pthread_rwlock_trywrlock, posix;
    pthread_rwlock_timedwrlock: RwLock, pthread_rwlock_trywrlock, posix;
    pthread_rwlock_clockwrlock: RwLock, pthread_rwlock_trywrlock, posix;
    pthread_spin_lock: Spin, pthread_spin_trylock, posix;
    mtx_lock: Mutex, mtx_trylock, c11;
    mtx_timedlock: Mutex, mtx_trylock, c11;
}

/// Functions that take a lock if it is free.
macro_rules! attempts {
    ($($name:ident: $kind:ident, $judge:ident;)*) => { $(
        body!($name, |arguments, caller, _waiting| try_to_acquire(
            Kind::$kind,
            arguments[0],
            caller,
            || try_real(&real::$name, arguments),
            $judge,
        ), $kind);
    )* };
}

attempts! {
    pthread_mutex_trylock: Mutex, posix;
    pthread_rwlock_tryrdlock: RwLock, posix;
    pthread_rwlock_trywrlock: RwLock, posix;
    pthread_spin_trylock: Spin, posix;
    mtx_trylock: Mutex, c11;
    sem_trywait: Semaphore, semaphore;
}

/// Functions that wait for a semaphore, and which of their arguments are a clock and a time.
macro_rules! semaphores {
    ($($name:ident: $clock:expr, $time:expr;)*) => { $(
        body!($name, |arguments, caller, waiting| {
            if !semaphores::begin(arguments, $clock, $time) {
                return try_real(&real::$name, arguments);
            }
            acquire(
                waiting,
                Kind::Semaphore,
                arguments[0],
                caller,
                || try_semaphore(arguments),
                posix,
                || try_real(&real::$name, arguments),
            )
        }, Semaphore);
    )* };
}

semaphores! {
    sem_wait: None, None;
    sem_timedwait: None, Some(1);
    sem_clockwait: Some(1), Some(2);
}

/// Functions that wait for something that no thread holds. Conditions come with the mutex that is held again afterwards.
macro_rules! rests {
    ($($name:ident: $kind:ident, $judge:ident, $mutex:expr;)*) => { $(
        body!($name, |arguments, caller, waiting| {
            let mutex: fn(Arguments) -> u64 = $mutex;
            rest(
                waiting,
                arguments[0],
                mutex(arguments),
                caller,
                || try_real(&real::$name, arguments),
                $judge,
            )
        }, $kind);
    )* };
}

rests! {
    pthread_cond_wait: Condition, posix, |arguments| arguments[1];
    pthread_cond_timedwait: Condition, posix, |arguments| arguments[1];
    pthread_cond_clockwait: Condition, posix, |arguments| arguments[1];
    cnd_wait: Condition, c11, |arguments| arguments[1];
    cnd_timedwait: Condition, c11, |arguments| arguments[1];
    pthread_barrier_wait: Barrier, posix, |_| 0;
    pthread_join: Thread, posix, |_| 0;
    pthread_timedjoin_np: Thread, posix, |_| 0;
    pthread_clockjoin_np: Thread, posix, |_| 0;
    thrd_join: Thread, c11, |_| 0;
}
