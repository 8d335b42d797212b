//! Functions that a C library may have in another library than `libc.so.6`, or not at all.
//!
//! Before glibc 2.34 most functions of threads were in libpthread and those of the loader in libdl, which a program need not have;
//! musl has all of them, under its own terms. A library that is loaded into every program must not demand them, so the agent,
//! and the standard library in it, get these hidden functions of the same names: they go on in the real one, if it is there.

use std::ffi::{c_char, c_int, c_void};

use crate::target::real;

/// Defines hidden functions that go on in functions of ours.
macro_rules! hidden {
    ($($symbol:literal = $name:ident($($argument:ident: $type:ty),*) -> $result:ty, else $missing:expr;)*) => {
        $(
            #[unsafe(link_section = "rsys_start")]
            extern "C" fn $name($($argument: $type),*) -> $result {
                match real::$name::get() {
                    // SAFETY: the caller's own arguments.
                    Some(real) => unsafe { real($($argument),*) },
                    None => $missing,
                }
            }
            #[cfg(not(test))]
            std::arch::global_asm!(
                ".text",
                concat!(".globl ", $symbol),
                concat!(".hidden ", $symbol),
                concat!(".type ", $symbol, ", %function"),
                concat!($symbol, ":"),
                concat!("jmp {", stringify!($name), "}"),
                $name = sym $name,
            );
        )*
    };
}

/// Runs when a thread ends whose key has a value.
type Destructor = unsafe extern "C" fn(*mut c_void);
/// Runs before or after a fork.
type AtFork = unsafe extern "C" fn();

hidden! {
    "dlopen" = dlopen(path: *const c_char, flags: c_int) -> *mut c_void, else std::ptr::null_mut();
    "dlerror" = dlerror() -> *mut c_char, else std::ptr::null_mut();
    "pthread_key_create" = pthread_key_create(key: *mut libc::pthread_key_t, destructor: Option<Destructor>) -> c_int, else libc::ENOSYS;
    "pthread_key_delete" = pthread_key_delete(key: libc::pthread_key_t) -> c_int, else libc::ENOSYS;
    "pthread_setspecific" = pthread_setspecific(key: libc::pthread_key_t, value: *const c_void) -> c_int, else libc::ENOSYS;
    "pthread_detach" = pthread_detach(thread: libc::pthread_t) -> c_int, else libc::ENOSYS;
    "pthread_attr_setstacksize" = pthread_attr_setstacksize(attributes: *mut libc::pthread_attr_t, bytes: usize) -> c_int, else libc::ENOSYS;
    "__register_atfork" = register_atfork(prepare: Option<AtFork>, parent: Option<AtFork>, child: Option<AtFork>, library: *mut c_void) -> c_int, else libc::ENOSYS;
}

/// The value that the calling thread has under a key.
///
/// # Signal safety
/// Goes on in the C library's function, which reads the thread's own table, if it was looked up before.
extern "C" fn pthread_getspecific(key: libc::pthread_key_t) -> *mut c_void {
    real::pthread_getspecific::known().map_or(std::ptr::null_mut(), |real| {
        // SAFETY: any number may be asked for; an unused one gives null.
        unsafe { real(key) }
    })
}

#[cfg(not(test))]
std::arch::global_asm!(
    ".text",
    ".globl pthread_getspecific",
    ".hidden pthread_getspecific",
    ".type pthread_getspecific, %function",
    "pthread_getspecific:",
    concat!("jmp {", stringify!(pthread_getspecific), "}"),
    pthread_getspecific = sym pthread_getspecific,
);

/// glibc's loader describes itself to debuggers at this address; null where another loader runs the program.
pub fn loader_list() -> *const c_void {
    let list: *const c_void;
    // SAFETY: reads an entry of the global offset table, which is null for a weak symbol that no library has.
    unsafe {
        std::arch::asm!(
            ".weak _r_debug",
            "mov {list}, qword ptr [rip + _r_debug@GOTPCREL]",
            list = out(reg) list,
            options(nostack, readonly, preserves_flags, pure)
        );
    }
    list
}

/// Whether the program runs on glibc. On another C library the hooks pass everything on.
pub fn is_glibc() -> bool {
    !loader_list().is_null()
}
