//! The functions that the agent's hooks stand in front of.
//!
//! Looked up when first needed, as by `dlsym(RTLD_NEXT)`: most processes live for a millisecond and need few of them, and another
//! library's constructor may call a hook before the agent's own constructor ran. None of these lookups happens in a signal handler,
//! or in a child of a process that has threads, for the loader's lock may be held there: [`resolve_all`] comes before the program's
//! first handler and its first thread, and what our own handler needs is looked up at the start.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::target::objects;

/// One function of the libraries behind us.
#[derive(Debug)]
pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<()>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Real {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The address, or null when no library has the function.
    #[inline]
    pub fn address(&self) -> *mut () {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() {
            self.look_up()
        } else {
            known
        }
    }

    /// The address if it was looked up already, or null.
    ///
    /// # Signal safety
    /// One relaxed load.
    #[inline]
    pub fn known_address(&self) -> *mut () {
        self.address.load(Ordering::Relaxed)
    }

    // Never inlined and never a tail call: dlsym finds "next" by its caller's address.
    #[inline(never)]
    #[unsafe(link_section = "rsys_start")]
    fn look_up(&self) -> *mut () {
        let mut found = objects::behind_at_start(self.name);
        // Where the C library is not behind us, we were loaded late, by a thread of ours: its `dlerror` is not the program's.
        if found.is_null() && objects::behind_at_start(c"_exit").is_null() {
            // SAFETY: the name is NUL-terminated.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }.cast::<()>();
        }
        self.address.store(found, Ordering::Relaxed);
        std::hint::black_box(found)
    }
}

macro_rules! reals {
    ($($constant:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        $(
            #[doc = concat!("`", $name, "` of the C library.")]
            pub mod $constant {
                use super::*;
                #[allow(unused_imports, reason = "not every signature needs them")]
                use std::ffi::{c_char, c_int, c_long, c_void};
                /// The signature.
                pub type Function = unsafe extern "C" fn($($argument),*) -> $result;
                /// Where it is.
                pub static REAL: Real = Real::new(match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                });
                /// The function, if a library has it.
                #[inline]
                #[allow(dead_code, reason = "some are only gone on to")]
                pub fn get() -> Option<Function> {
                    let address = REAL.address();
                    // SAFETY: the C library documents this signature for this name; null is None.
                    unsafe { std::mem::transmute::<*mut (), Option<Function>>(address) }
                }
                /// The function, if it was looked up and found before.
                ///
                /// # Signal safety
                /// One relaxed load.
                #[inline]
                #[allow(dead_code, reason = "only a handler needs this one")]
                pub fn known() -> Option<Function> {
                    let address = REAL.known_address();
                    // SAFETY: as above.
                    unsafe { std::mem::transmute::<*mut (), Option<Function>>(address) }
                }
            }
        )*
        #[cold]
        #[inline(never)]
        fn look_up_all() {
            $( $constant::REAL.address(); )*
        }
        #[cfg(test)]
        static ALL: &[&Real] = &[$(&$constant::REAL),*];
    };
}

/// Whether everything was looked up.
static RESOLVED: AtomicBool = AtomicBool::new(false);

/// Looks everything up, unless that was done before. Not for signal handlers.
#[inline]
pub fn resolve_all() {
    if !RESOLVED.load(Ordering::Relaxed) {
        look_up_all();
        RESOLVED.store(true, Ordering::Relaxed);
    }
}

/// A thread's start routine.
pub type StartRoutine = unsafe extern "C" fn(*mut std::ffi::c_void) -> *mut std::ffi::c_void;
/// What the child of a `clone` does.
pub type StartOfClone = unsafe extern "C" fn(*mut std::ffi::c_void) -> std::ffi::c_int;
/// A signal handler as `signal` takes it.
pub type SimpleHandler = usize;

reals! {
    pthread_create = "pthread_create": fn(*mut libc::pthread_t, *const libc::pthread_attr_t, StartRoutine, *mut c_void) -> c_int;
    thrd_create = "thrd_create": fn(*mut libc::pthread_t, StartRoutine, *mut c_void) -> c_int;
    pthread_setname_np = "pthread_setname_np": fn(libc::pthread_t, *const std::ffi::c_char) -> c_int;
    sigaction = "sigaction": fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    signal = "signal": fn(c_int, SimpleHandler) -> SimpleHandler;
    sysv_signal = "__sysv_signal": fn(c_int, SimpleHandler) -> SimpleHandler;
    sigset = "sigset": fn(c_int, SimpleHandler) -> SimpleHandler;
    sigignore = "sigignore": fn(c_int) -> c_int;
    siginterrupt = "siginterrupt": fn(c_int, c_int) -> c_int;
    pthread_sigmask = "pthread_sigmask": fn(c_int, *const libc::sigset_t, *mut libc::sigset_t) -> c_int;
    sigprocmask = "sigprocmask": fn(c_int, *const libc::sigset_t, *mut libc::sigset_t) -> c_int;
    sigwaitinfo = "sigwaitinfo": fn(*const libc::sigset_t, *mut libc::siginfo_t) -> c_int;
    sigtimedwait = "sigtimedwait": fn(*const libc::sigset_t, *mut libc::siginfo_t, *const libc::timespec) -> c_int;
    signalfd = "signalfd": fn(c_int, *const libc::sigset_t, c_int) -> c_int;
    sighold = "sighold": fn(c_int) -> c_int;
    sigrelse = "sigrelse": fn(c_int) -> c_int;
    sigsuspend = "sigsuspend": fn(*const libc::sigset_t) -> c_int;
    pselect = "pselect": fn(c_int, *mut c_void, *mut c_void, *mut c_void, *const c_void, *const libc::sigset_t) -> c_int;
    ppoll = "ppoll": fn(*mut c_void, libc::nfds_t, *const c_void, *const libc::sigset_t) -> c_int;
    checked_ppoll = "__ppoll_chk": fn(*mut c_void, libc::nfds_t, *const c_void, *const libc::sigset_t, usize) -> c_int;
    epoll_pwait = "epoll_pwait": fn(c_int, *mut c_void, c_int, c_int, *const libc::sigset_t) -> c_int;
    epoll_pwait2 = "epoll_pwait2": fn(c_int, *mut c_void, c_int, *const c_void, *const libc::sigset_t) -> c_int;
    // Gone on to with the program's registers: see `signal_masks`.
    setcontext = "setcontext": fn() -> c_int;
    swapcontext = "swapcontext": fn() -> c_int;
    clone = "clone": fn(StartOfClone, *mut c_void, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int;
    prctl = "prctl": fn(c_int, u64, u64, u64, u64) -> c_int;
    ptrace = "ptrace": fn(c_long, u64, u64, u64) -> c_long;
    syscall = "syscall": fn(c_long, u64, u64, u64, u64, u64, u64) -> c_long;
    exit_at_once = "_exit": fn(c_int) -> !;
    quick_exit = "quick_exit": fn(c_int) -> !;
    abort = "abort": fn() -> !;
    fork_raw = "_Fork": fn() -> libc::pid_t;
    execve = "execve": fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int;
    execvpe = "execvpe": fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int;
    fexecve = "fexecve": fn(c_int, *const *const c_char, *const *const c_char) -> c_int;
    execveat = "execveat": fn(c_int, *const c_char, *const *const c_char, *const *const c_char, c_int) -> c_int;
    posix_spawn = "posix_spawn": fn(*mut libc::pid_t, *const c_char, *const c_void, *const c_void, *const *const c_char, *const *const c_char) -> c_int;
    posix_spawnp = "posix_spawnp": fn(*mut libc::pid_t, *const c_char, *const c_void, *const c_void, *const *const c_char, *const *const c_char) -> c_int;
    // Called with whatever the program gives: see `exec`.
    execv = "execv": fn() -> c_int;
    execvp = "execvp": fn() -> c_int;
    execl = "execl": fn() -> c_int;
    execlp = "execlp": fn() -> c_int;
    execle = "execle": fn() -> c_int;
    dlclose = "dlclose": fn(*mut c_void) -> c_int;
    register_frame = "__register_frame": fn(*mut c_void) -> ();
    register_frame_info = "__register_frame_info": fn(*mut c_void, *mut c_void) -> ();
    register_frame_info_bases = "__register_frame_info_bases": fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> ();
    deregister_frame = "__deregister_frame": fn(*mut c_void) -> ();
    deregister_frame_info = "__deregister_frame_info": fn(*mut c_void) -> *mut c_void;
    deregister_frame_info_bases = "__deregister_frame_info_bases": fn(*mut c_void) -> *mut c_void;
    // See `elsewhere`.
    dlopen = "dlopen": fn(*const c_char, c_int) -> *mut c_void;
    dlerror = "dlerror": fn() -> *mut c_char;
    pthread_key_create = "pthread_key_create": fn(*mut libc::pthread_key_t, Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
    pthread_key_delete = "pthread_key_delete": fn(libc::pthread_key_t) -> c_int;
    pthread_setspecific = "pthread_setspecific": fn(libc::pthread_key_t, *const c_void) -> c_int;
    pthread_getspecific = "pthread_getspecific": fn(libc::pthread_key_t) -> *mut c_void;
    pthread_detach = "pthread_detach": fn(libc::pthread_t) -> c_int;
    pthread_attr_setstacksize = "pthread_attr_setstacksize": fn(*mut libc::pthread_attr_t, usize) -> c_int;
    register_atfork = "__register_atfork": fn(Option<unsafe extern "C" fn()>, Option<unsafe extern "C" fn()>, Option<unsafe extern "C" fn()>, *mut c_void) -> c_int;
    dl_find_object = "_dl_find_object": fn(*mut c_void, *mut c_void) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_dlsym_finds() {
        for real in ALL {
            // SAFETY: the name is NUL-terminated.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, real.name.as_ptr()) };
            assert_eq!(real.address(), found.cast(), "{:?}", real.name);
        }
    }
}
