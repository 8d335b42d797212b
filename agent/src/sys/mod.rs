//! Raw system calls.
//!
//! The agent interposes some libc functions, `syscall` among them, and must leave `errno` alone,
//! so it talks to the kernel directly. A negative result is `-errno`.

mod files;
mod memory;
mod signals;
mod socket;
mod time;

use std::ffi::c_int;

pub use files::*;
pub use memory::*;
pub use signals::*;
pub use socket::*;
pub use time::*;

/// One system call with up to six arguments.
///
/// # Safety
/// As the system call itself: pointers must be what the kernel expects.
///
/// # Signal safety
/// Nothing but the instruction.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn syscall(number: i64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    let result: i64;
    // SAFETY: the kernel clobbers rcx and r11 and memory; the rest is the caller's promise.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// One system call with up to six arguments.
///
/// # Safety
/// As the system call itself: pointers must be what the kernel expects.
///
/// # Signal safety
/// Nothing but the instruction.
#[cfg(target_arch = "aarch64")]
#[inline]
pub unsafe fn syscall(number: i64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    let result: i64;
    // SAFETY: the kernel clobbers x0 and memory; the rest is the caller's promise.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
            options(nostack),
        );
    }
    result
}

fn call(number: i64, arguments: &[u64]) -> i64 {
    let mut six = [0_u64; 6];
    for (to, from) in six.iter_mut().zip(arguments) {
        *to = *from;
    }
    // SAFETY: the callers below pass values, or pointers to objects that live across the call.
    unsafe { syscall(number, six) }
}

fn address<T>(object: *const T) -> u64 {
    object.addr() as u64
}

/// The calling thread's id.
pub fn gettid() -> u32 {
    call(libc::SYS_gettid, &[]) as u32
}

/// The process id.
pub fn getpid() -> u32 {
    call(libc::SYS_getpid, &[]) as u32
}

/// The parent's process id.
pub fn getppid() -> u32 {
    call(libc::SYS_getppid, &[]) as u32
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

/// Ends the process.
pub fn exit_group(status: c_int) {
    call(libc::SYS_exit_group, &[status as u64]);
}

/// The thread's name.
pub fn thread_name() -> [u8; 16] {
    let mut name = [0_u8; 16];
    call(
        libc::SYS_prctl,
        &[libc::PR_GET_NAME as u64, address(name.as_mut_ptr())],
    );
    name
}

/// Version and patch level of the running kernel; zeros when it does not say.
pub fn kernel_version() -> (u32, u32) {
    // SAFETY: zero is a valid value of every field.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    call(libc::SYS_uname, &[address(&raw mut name)]);
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
