//! Whether a stopped thread may be borrowed where it stands.
//!
//! For us it calls `pthread_create`, which allocates memory and takes locks of the C library. So it must not be in the middle of anything that
//! holds such a lock, or that is half-way through a change of its own heap. That is known from its whole stack: the innermost frames are
//! a call that waits for something (or none of the C library's at all), no frame is the loader's, and none is a function that allocates, forks,
//! loads, makes a thread or ends the process. A stack that does not lead to its root proves nothing.

use std::time::Duration;

use rsys_unwind::{FLAGS, Registers};

use super::functions::{AllFunctions, is_c_library, is_loader};
use super::stop::Stopped;
use crate::waits::image::Image;
use crate::waits::record::Completeness;
use crate::waits::thread::{Blocked, Call};

/// Frames of a stack that are looked at; a deeper one proves nothing.
const FRAMES_MAX: usize = 2048;

/// Functions, of any module, that change the heap.
const ALLOCATOR: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "reallocarray",
    "malloc_trim",
    "malloc_usable_size",
    "mallinfo",
    "mallinfo2",
    "free_sized",
    "free_aligned_sized",
];

/// Functions of the C library in which its locks are held, or that must not be interrupted by others of it.
const HOLDS_LOCKS: &[&str] = &[
    "fork",
    "_Fork",
    "vfork",
    "dlopen",
    "dlclose",
    "dlsym",
    "dlvsym",
    "dladdr",
    "dladdr1",
    "dlinfo",
    "dlmopen",
    "dl_iterate_phdr",
    "exit",
    "_exit",
    "quick_exit",
    "abort",
    "pthread_create",
    "thrd_create",
    "pthread_exit",
    "__cxa_finalize",
    "system",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "__libc_freeres",
    "__libc_dlopen_mode",
    "__libc_dlsym",
    "__libc_dlclose",
    "__libc_fork",
    "pthread_getattr_np",
    "getaddrinfo",
    "iconv_open",
    "setlocale",
];

/// Functions of the C library that wait, and hold nothing of it meanwhile.
const WAITS: &[&str] = &[
    "nanosleep",
    "clock_nanosleep",
    "usleep",
    "sleep",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "epoll_wait",
    "epoll_pwait",
    "read",
    "__read",
    "wait",
    "wait3",
    "wait4",
    "waitpid",
    "waitid",
    "pause",
    "sigsuspend",
    "sigwait",
    "sigwaitinfo",
    "sigtimedwait",
    "syscall",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_barrier_wait",
    "pthread_join",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "cnd_wait",
    "cnd_timedwait",
    "mtx_lock",
    "thrd_sleep",
    "__nanosleep",
    "__poll",
    "__select",
    "__wait",
    "__waitpid",
    "__pause",
    "__sigsuspend",
    "__pthread_mutex_lock",
    "__pthread_rwlock_rdlock",
    "__pthread_rwlock_wrlock",
];

/// Whether a function of a module that is not the C library is worth knowing.
#[must_use]
pub fn is_of_allocator(name: &str) -> bool {
    // operator new and delete, as compilers write them.
    let is_operator = ["_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"]
        .iter()
        .any(|start| name.starts_with(start));
    is_operator || ALLOCATOR.contains(&name)
}

/// Whether a thread that is blocked so would go on waiting as before if it were interrupted.
#[must_use]
pub fn is_resumable(call: &Call, descriptor: impl Fn(u64) -> String) -> bool {
    /// FUTEX_WAIT and FUTEX_WAIT_BITSET, without what is or-ed to them.
    const FUTEX_WAITS: [u64; 2] = [0, 9];
    let [first, second, third, fourth, ..] = call.arguments;
    let for_ever = |timeout: u64| timeout as u32 == u32::MAX;
    match call.number {
        libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_poll
        | libc::SYS_ppoll
        | libc::SYS_select
        | libc::SYS_pselect6
        | libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_pause
        | libc::SYS_rt_sigsuspend
        | libc::SYS_restart_syscall => true,
        libc::SYS_futex => FUTEX_WAITS.contains(&(second & 0x7f)),
        // Those return EINTR, and we begin them anew: the time would begin anew, too, unless it is known how much is left (`time_limit`).
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => for_ever(fourth),
        libc::SYS_rt_sigtimedwait => third == 0,
        // Sockets and terminals may have a time limit, and files of some file systems hold more than a wait.
        libc::SYS_read => {
            let file = descriptor(first);
            ["pipe:", "anon_inode:[eventfd]", "anon_inode:[timerfd]"]
                .iter()
                .any(|kind| file.starts_with(kind))
        }
        _ => false,
    }
}

/// The time limit of a call that would begin anew with all of it, and that has its limit in a register.
#[must_use]
pub fn time_limit(call: &Call) -> Option<Duration> {
    let [_, _, _, fourth, ..] = call.arguments;
    let milliseconds = u64::try_from(fourth as i32).ok()?;
    is_of_epoll(call).then(|| Duration::from_millis(milliseconds))
}

/// Whether a call would return EINTR if we were killed between stopping its thread and letting it begin the call anew: some microseconds.
#[must_use]
pub fn is_of_epoll(call: &Call) -> bool {
    matches!(call.number, libc::SYS_epoll_wait | libc::SYS_epoll_pwait)
}

/// Why a thread may not be borrowed where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotHere(pub String);

fn not_here<T>(why: impl Into<String>) -> Result<T, NotHere> {
    Err(NotHere(why.into()))
}

/// Whether a stopped thread may be borrowed.
///
/// # Errors
/// Why not.
pub fn judge(
    stopped: &Stopped,
    image: &mut Image,
    functions: &mut AllFunctions,
) -> Result<(), NotHere> {
    /// USER_CS of 64-bit code (arch/x86/include/asm/segment.h).
    const CODE_SEGMENT: u64 = 0x33;
    if stopped.registers().cs != CODE_SEGMENT {
        return not_here("runs 32-bit code");
    }
    let in_call = stopped.call().is_some();
    if !in_call && !stopped.is_in_user_mode() {
        return not_here("returns from a system call");
    }
    let registers = Registers::from_gregs(&stopped.gregs());
    let walked = image.walk_from(&registers, FRAMES_MAX);
    if walked.completeness != Completeness::Complete {
        return not_here("has a stack that cannot be followed to its root");
    }
    if !in_call && stopped.is_in_sequence(|address| image.word_of(address)) {
        return not_here("is in a restartable sequence");
    }
    of_stack(&walked.words, in_call, image, functions)
}

/// The same of a blocked thread that was not stopped: a guess, which spares stopping it in vain.
///
/// # Errors
/// Why not.
pub fn guess(
    blocked: &Blocked,
    image: &mut Image,
    functions: &mut AllFunctions,
) -> Result<(), NotHere> {
    let walked = image.walk(blocked, FRAMES_MAX);
    if walked.completeness != Completeness::Complete {
        return not_here("has a stack that cannot be followed to its root");
    }
    of_stack(&walked.words, true, image, functions)
}

fn of_stack(
    words: &[u64],
    in_call: bool,
    image: &Image,
    functions: &mut AllFunctions,
) -> Result<(), NotHere> {
    // Of the innermost frames, those of the C library; the outermost of them is the function that the program has called.
    let mut innermost = true;
    let mut entry: Option<Vec<String>> = None;
    for (number, word) in words.iter().enumerate() {
        let address = word & !FLAGS;
        // A return address is behind its call.
        let address = address.wrapping_sub(u64::from(number > 0));
        if returns_from_handler(image, word & !FLAGS) {
            return not_here("is in a signal handler");
        }
        let Some(module) = image.module_at(address) else {
            innermost = false;
            continue;
        };
        if is_loader(&module.path) {
            return not_here("is in the loader");
        }
        let in_library = is_c_library(&module.path) || module.path == "[vdso]";
        let names: Vec<String> = functions
            .of(module)
            .names_at(address.wrapping_sub(module.bias))
            .map(str::to_owned)
            .collect();
        if let Some(name) = names.iter().find(|name| is_forbidden(name, in_library)) {
            return not_here(format!("is in {name}"));
        }
        innermost &= in_library;
        if innermost {
            entry = Some(names);
        }
    }
    if innermost {
        return not_here("is a thread of the C library's own");
    }
    match entry {
        Some(_) if !in_call => not_here("works in the C library"),
        Some(names) if !names.iter().any(|name| WAITS.contains(&name.as_str())) => {
            let name = names.first().map_or("an unknown function", String::as_str);
            not_here(format!("waits in {name}"))
        }
        _ => Ok(()),
    }
}

fn is_forbidden(name: &str, in_library: bool) -> bool {
    is_of_allocator(name) || in_library && HOLDS_LOCKS.contains(&name)
}

/// Whether a frame is the function that the kernel has handlers return to: mov $15, %rax; syscall.
fn returns_from_handler(image: &Image, address: u64) -> bool {
    const RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let first = image.word_of(address);
    first
        == Some(u64::from_le_bytes(
            RETURN[..8].try_into().unwrap_or_default(),
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_would_begin_anew_are_told_from_those_that_would_not() {
        let pipe = |_| "pipe:[7]".to_owned();
        let socket = |_| "socket:[7]".to_owned();
        let call = |number, arguments| Call { number, arguments };
        let for_ever = [3, 0, 1, u64::from(u32::MAX), 0, 0];
        assert!(is_resumable(&call(libc::SYS_epoll_wait, for_ever), pipe));
        assert!(!is_resumable(
            &call(libc::SYS_epoll_wait, [3, 0, 1, 500, 0, 0]),
            pipe
        ));
        let limit = |call: Call| time_limit(&call).map(|limit| limit.as_millis());
        assert_eq!(
            limit(call(libc::SYS_epoll_wait, [3, 0, 1, 500, 0, 0])),
            Some(500)
        );
        assert_eq!(limit(call(libc::SYS_epoll_wait, for_ever)), None);
        assert_eq!(limit(call(libc::SYS_read, [0; 6])), None);
        assert!(is_resumable(&call(libc::SYS_read, [0; 6]), pipe));
        assert!(!is_resumable(&call(libc::SYS_read, [0; 6]), socket));
        assert!(!is_resumable(&call(libc::SYS_write, [0; 6]), pipe));
        assert!(is_resumable(
            &call(libc::SYS_futex, [0, 9 | 128 | 256, 0, 0, 0, 0]),
            pipe
        ));
        assert!(!is_resumable(
            &call(libc::SYS_futex, [0, 6, 0, 0, 0, 0]),
            pipe
        ));
    }

    #[test]
    fn allocators_are_known_by_their_names() {
        for name in ["malloc", "_ZnwmRKSt9nothrow_t", "_ZdlPvm"] {
            assert!(is_of_allocator(name), "{name}");
        }
        assert!(!is_of_allocator("mallocate"));
    }
}
