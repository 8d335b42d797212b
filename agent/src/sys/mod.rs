//! System calls, each behind a safe face.
//!
//! The agent interposes some libc functions, `syscall` among them, and must leave `errno` alone,
//! so it talks to the kernel directly ([`calls`]).

pub mod apart;
pub mod calls;
mod copies;
mod files;
pub mod guard;
pub mod lock;
mod memory;
#[cfg(not(test))]
mod panics;
pub mod recent;
pub mod signal_stack;
mod signals;
mod socket;
mod tasks;
pub mod text;
pub mod thread_pointer;
pub mod thread_words;
mod time;

use std::ffi::c_int;

pub use files::*;
pub use memory::*;
pub use signals::*;
pub use socket::*;
pub use tasks::*;
pub use time::*;

/// An object's address, for the kernel.
fn address<T>(object: *const T) -> u64 {
    object.expose_provenance() as u64
}

/// The calling thread's id.
pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { calls::gettid() as u32 }
}

/// As [`gettid`]; `None` where the program's seccomp filter does not let us ask.
pub fn known_tid() -> Option<u32> {
    // SAFETY: no arguments.
    u32::try_from(unsafe { calls::gettid() }).ok()
}

/// The process id.
pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { calls::getpid() as u32 }
}

/// The parent's process id.
pub fn getppid() -> u32 {
    // SAFETY: no arguments.
    unsafe { calls::getppid() as u32 }
}

fn checked(result: i64) -> Result<i64, i32> {
    if result < 0 {
        Err(-result as i32)
    } else {
        Ok(result)
    }
}

/// Address of the program's first instruction, `_start`.
pub fn program_entry() -> u64 {
    // SAFETY: reads the vector that the kernel passed.
    unsafe { libc::getauxval(libc::AT_ENTRY) }
}

/// The path that the program was executed by: a script's, where its interpreter runs.
pub fn execution_path<'a>() -> Option<&'a std::ffi::CStr> {
    // SAFETY: reads the vector that the kernel passed.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
    let path = std::ptr::with_exposed_provenance::<std::ffi::c_char>(path);
    // SAFETY: the kernel put the string onto the stack, above the program's own frames.
    (!path.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(path) })
}

/// Ends the process.
pub fn exit_group(status: c_int) {
    // SAFETY: a number.
    unsafe { calls::exit_group(status as u64) };
}

/// The thread's name.
pub fn thread_name() -> [u8; 16] {
    let mut name = [0_u8; 16];
    // SAFETY: the buffer has the 16 bytes that the kernel writes.
    unsafe { calls::prctl(libc::PR_GET_NAME as u64, address(name.as_mut_ptr())) };
    name
}

/// Names the calling thread.
pub fn set_thread_name(name: &std::ffi::CStr) {
    // SAFETY: a NUL-terminated name.
    unsafe { calls::prctl(libc::PR_SET_NAME as u64, address(name.as_ptr())) };
}

/// Version and patch level of the running kernel; zeros when it does not say.
pub fn kernel_version() -> (u32, u32) {
    // SAFETY: zero is a valid value of every field.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: room for what the kernel writes.
    unsafe { calls::uname(address(&raw mut name)) };
    let mut numbers = name
        .release
        .split(|letter| !(*letter as u8).is_ascii_digit())
        .map(|digits| {
            digits.iter().fold(0_u32, |number, digit| {
                number
                    .wrapping_mul(10)
                    .wrapping_add(u32::from(*digit as u8 - b'0'))
            })
        });
    (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    )
}

/// A number's decimal digits, without the allocations of `format!`: a fork child of a program with
/// threads must not allocate.
pub fn decimal(mut value: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &buffer[at..];
        }
    }
}
