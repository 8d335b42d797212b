//! The functions by which a process becomes another program, or starts one.
//!
//! What the GPU runtimes have not reported by then is lost: [`crate::sources::at_end`] collects it. Then the program is judged
//! ([`judge`]). Where the agent can live it gets the very arguments of the caller: each of these functions keeps its arguments, some
//! of which are of unknown number ([`call`]), as they are, and goes on in the C library's. Where it cannot, the program gets the
//! environment that it would have without us ([`without`]), and the sampler gets a [`report`].
//!
//! All of this may run in a child after vfork, or of a process with threads: it locks nothing, allocates nothing but a mapping of its
//! own, and writes nothing that the parent reads.

mod call;
mod file;
mod handover;
mod judge;
mod report;
mod spawn;
mod without;

use std::ffi::{c_char, c_int};

use rsys_wire::program::Obstacle;

use crate::channel::counters;
use crate::sources::{self, Ending};
use crate::state;
use crate::target::real::{self, Real};

use call::{Call, REGISTERS, Words};

pub use handover::with_own_mask;
pub use judge::begin;
pub use report::running as report_running;

/// The C library's functions, in the order of their numbers.
static REALS: [&Real; 9] = [
    &real::execve::REAL,
    &real::execv::REAL,
    &real::execvp::REAL,
    &real::execvpe::REAL,
    &real::fexecve::REAL,
    &real::execveat::REAL,
    &real::execl::REAL,
    &real::execlp::REAL,
    &real::execle::REAL,
];

/// What an exported function does: in two registers.
#[derive(Debug)]
#[repr(C)]
struct Answer {
    /// 1: return the number; 0: jump to the address.
    decided: usize,
    address: *const (),
}

/// Called with the number of the function that the program called, its first arguments, and where the others are.
///
/// # Safety
/// The arguments are those of the exec function with that number, and `others` leads to the rest of them.
unsafe extern "C" fn enter(
    number: u32,
    first: &[usize; REGISTERS],
    others: *const usize,
) -> Answer {
    sources::at_end(Ending::Exec);
    announce();
    // SAFETY: as the caller of the exported function passed them.
    let call = unsafe { Call::new(number, Words { first, others }) };
    // SAFETY: as above.
    if let Some(result) = call.and_then(|call| unsafe { run(&call) }) {
        return Answer {
            decided: 1,
            address: std::ptr::without_provenance(result as u32 as usize),
        };
    }
    // It was looked up before: here nothing may lock.
    let real = REALS.get(number as usize).map(|real| real.address());
    let address = match real {
        Some(address) if !address.is_null() => address,
        _ => missing as *const (),
    };
    Answer {
        decided: 0,
        address,
    }
}

/// Executes what is called for, with the agent if it can live there. Returns when that failed; `None` where it could not be tried.
///
/// # Safety
/// As [`execute`].
unsafe fn run(call: &Call<'_>) -> Option<c_int> {
    let verdict = judge::judge(&call.file, call.environment);
    if let Some(verdict) = &verdict {
        report::send(verdict, call.environment, crate::sys::getpid());
    }
    let forbids_agent = verdict.is_some_and(|verdict| verdict.obstacle.forbids_agent());
    let handed_over = handover::hand_over();
    let execute = |environment, list| {
        let arguments = call.vector().unwrap_or(list);
        // SAFETY: the caller's own arguments, with all or a part of the variables.
        unsafe { execute(call, arguments, environment) }
    };
    let with_agent = || match call.vector() {
        Some(_) => Some(execute(call.environment, std::ptr::null())),
        None => without::listed(call.list(), |list| execute(call.environment, list)),
    };
    let result = if forbids_agent {
        without::agent(call.environment, call.list(), execute).or_else(with_agent)
    } else {
        with_agent().map(|result| match errno() {
            libc::E2BIG => {
                let (vector, list) = (call.vector(), call.list());
                without_room(&call.file, call.environment, vector, list, execute).unwrap_or(result)
            }
            _ => result,
        })
    };
    handover::take_back(handed_over);
    result
}

/// What the C library's functions say of the last failure.
fn errno() -> c_int {
    // SAFETY: the thread's own word.
    unsafe { *libc::__errno_location() }
}

/// The kernel had no room for arguments and variables: executes a program without ours. `None` where that would not help either.
fn without_room<R>(
    file: &call::File,
    environment: *const *const c_char,
    vector: Option<*const *const c_char>,
    list: impl Iterator<Item = *const c_char> + Clone,
    execute: impl FnOnce(*const *const c_char, *const *const c_char) -> R,
) -> Option<R> {
    if !judge::has_agent(environment) {
        return None;
    }
    let verdict = judge::path_of(file, Obstacle::NoRoom);
    without::agent(environment, list, |rest, list| {
        without::fits(verdict.path(), vector.unwrap_or(list), rest).then(|| {
            report::send(&verdict, environment, crate::sys::getpid());
            execute(rest, list)
        })
    })?
}

/// Keeps the sampler from sending signals to what this process becomes. A child after vfork shares the parent's memory, and is not asked.
fn announce() {
    if state::is_active() && state::is_own_process() {
        counters::before_exec();
    }
}

/// Executes what is called for, with other vectors. Returns only when that failed.
///
/// # Safety
/// Both vectors are lists of C strings that end with null, and the call is the program's own.
unsafe fn execute(
    call: &Call<'_>,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    use call::File;
    // SAFETY: the caller's own arguments and vectors that end with null.
    let done = unsafe {
        match call.file {
            File::Path(path) => real::execve::get().map(|real| real(path, arguments, environment)),
            File::Searched(name) => {
                real::execvpe::get().map(|real| real(name, arguments, environment))
            }
            File::Descriptor(fd) => {
                real::fexecve::get().map(|real| real(fd, arguments, environment))
            }
            File::At(folder, path, flags) => {
                real::execveat::get().map(|real| real(folder, path, arguments, environment, flags))
            }
        }
    };
    done.unwrap_or_else(|| missing())
}

/// Stands in where the C library has no such function.
extern "C" fn missing() -> c_int {
    // SAFETY: the thread's own word.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// A raw `execve` or `execveat`, which `call(environment)` makes: with the variables of the caller, or without ours where the agent cannot
/// live in the program. `None` for other system calls.
pub fn by_number(
    number: i64,
    words: &[u64; 5],
    call: impl Fn(*const *const c_char) -> i64,
) -> Option<i64> {
    let words = words.map(|word| word as usize);
    let (file, arguments, environment) = call::File::of_number(number, words)?;
    announce();
    let verdict = judge::judge(&file, environment);
    if let Some(verdict) = &verdict {
        report::send(verdict, environment, crate::sys::getpid());
    }
    let forbids_agent = verdict.is_some_and(|verdict| verdict.obstacle.forbids_agent());
    let handed_over = handover::hand_over();
    let without = |environment, _| call(environment);
    let none = std::iter::empty;
    let result = if forbids_agent {
        without::agent(environment, none(), without).unwrap_or_else(|| call(environment))
    } else {
        match call(environment) {
            -1 if errno() == libc::E2BIG => {
                without_room(&file, environment, Some(arguments), none(), without).unwrap_or(-1)
            }
            result => result,
        }
    };
    handover::take_back(handed_over);
    Some(result)
}

macro_rules! functions {
    ($($name:ident = $number:literal, $manual:literal;)*) => {
        $(
            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    ".cfi_startproc",
                    // The number of vector registers that a function of unknown arguments gets.
                    "push rax",
                    "push r9",
                    "push r8",
                    "push rcx",
                    "push rdx",
                    "push rsi",
                    "push rdi",
                    ".cfi_adjust_cfa_offset 56",
                    concat!("mov edi, ", $number),
                    "mov rsi, rsp",
                    "lea rdx, [rsp + 64]",
                    "call {enter}",
                    "mov r10, rax",
                    "mov r11, rdx",
                    "pop rdi",
                    "pop rsi",
                    "pop rdx",
                    "pop rcx",
                    "pop r8",
                    "pop r9",
                    "pop rax",
                    ".cfi_adjust_cfa_offset -56",
                    "test r10, r10",
                    "jz 2f",
                    "mov eax, r11d",
                    "ret",
                    "2:",
                    "jmp r11",
                    ".cfi_endproc",
                    enter = sym enter,
                );
            }
        )*
    };
}

functions! {
    execve = "0", "execve(2)";
    execv = "1", "execv(3)";
    execvp = "2", "execvp(3)";
    execvpe = "3", "execvpe(3)";
    fexecve = "4", "fexecve(3)";
    execveat = "5", "execveat(2)";
    execl = "6", "execl(3)";
    execlp = "7", "execlp(3)";
    execle = "8", "execle(3)";
}
