//! The table of all system calls that the agent makes, and the functions that make them.
//!
//! A seccomp filter of the program's may punish one of them with death ([`crate::lifecycle::seccomp`]). So each is declared here, once: the
//! function that enters the kernel and what is judged follow from the same row. A call that would be punished is refused here, as if
//! the filter had returned an error. `tests/tests/agent/purity.rs` compares the table with the machine code.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::thread_words;

/// When a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum When {
    /// In any process.
    Always = 0,
    /// Where perf events are the clock or are counted.
    Perf = 1,
    /// Hardly ever, and others do nearly as well: no reason to leave a process alone.
    Seldom = 2,
    /// By the C library for us, in any process: its allocator, its loader and its locks.
    Library = 3,
    /// By the C library for threads of ours, where events of GPUs are recorded.
    Threads = 4,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Call {
    /// The system call's number.
    pub number: u32,
    /// When it is made.
    pub when: When,
}

/// Enters the kernel. The number stands directly in front of the instruction, where the test finds it.
macro_rules! enter {
    ($number:expr, $arguments:expr) => {{
        let [a, b, c, d, e, f] = $arguments;
        let result: i64;
        std::arch::asm!(
            "mov eax, {number}",
            "syscall",
            number = const $number,
            out("rax") result,
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
        result
    }};
}

/// Declares the calls by when they are made, and the functions that make them. The last two groups are made by the C library.
macro_rules! system_calls {
    (
        ours: [$($when:ident { $($name:ident($($argument:ident),*) = $number:ident;)* })*]
        the_c_librarys: [$($others_when:ident { $($others:ident)* })*]
    ) => {
        /// The places of the calls in [`MADE`].
        #[derive(Debug, Clone, Copy)]
        #[allow(non_camel_case_types, reason = "named as the system calls are")]
        enum Place { $($($name,)*)* }

        /// Every system call that the agent makes.
        // The test reads the section.
        #[used]
        #[unsafe(link_section = "rsys_calls")]
        pub static MADE: [Call; [$($(libc::$number,)*)* $($(libc::$others,)*)*].len()] = [
            $($(Call { number: libc::$number as u32, when: When::$when },)*)*
            $($(Call { number: libc::$others as u32, when: When::$others_when },)*)*
        ];

        $($(
            #[doc = concat!("`", stringify!($name), "(2)`; a negative result is `-errno`, and `-EPERM` where a filter would punish it.")]
            ///
            /// # Safety
            /// As the system call: addresses must be those of objects that live across it.
            ///
            /// # Signal safety
            /// A relaxed load and the system call.
            #[inline]
            pub unsafe fn $name($($argument: u64),*) -> i64 {
                if is_refused(Place::$name) {
                    return -libc::EPERM as i64;
                }
                // SAFETY: the kernel clobbers what the assembly says; the rest is the caller's promise.
                unsafe { enter!(libc::$number, six([$($argument),*])) }
            }
        )*)*
    };
}

system_calls! {
ours: [
    Always {
        clock_getres(clock, resolution) = SYS_clock_getres;
        clock_gettime(clock, time) = SYS_clock_gettime;
        close(fd) = SYS_close;
        connect(fd, address, bytes) = SYS_connect;
        exit_group(status) = SYS_exit_group;
        faccessat(folder, path, mode) = SYS_faccessat;
        fcntl(fd, command, argument) = SYS_fcntl;
        ftruncate(fd, bytes) = SYS_ftruncate;
        futex(word, operation, value, timeout) = SYS_futex;
        getpid() = SYS_getpid;
        getppid() = SYS_getppid;
        gettid() = SYS_gettid;
        madvise(address, bytes, advice) = SYS_madvise;
        memfd_create(name, flags) = SYS_memfd_create;
        mmap(address, bytes, protection, flags, fd, offset) = SYS_mmap;
        mprotect(address, bytes, protection) = SYS_mprotect;
        munmap(address, bytes) = SYS_munmap;
        openat(folder, path, flags, mode) = SYS_openat;
        pread64(fd, buffer, bytes, offset) = SYS_pread64;
        prctl(option, argument) = SYS_prctl;
        prlimit64(pid, resource, new, old) = SYS_prlimit64;
        read(fd, buffer, bytes) = SYS_read;
        readlinkat(folder, path, buffer, bytes) = SYS_readlinkat;
        rt_sigaction(signal, new, old, set_bytes) = SYS_rt_sigaction;
        rt_sigprocmask(how, set, old, set_bytes) = SYS_rt_sigprocmask;
        sendmsg(fd, message, flags) = SYS_sendmsg;
        setsockopt(fd, level, option, value, bytes) = SYS_setsockopt;
        sigaltstack(new, old) = SYS_sigaltstack;
        socket(domain, kind, protocol) = SYS_socket;
        tgkill(pid, tid, signal) = SYS_tgkill;
        timer_create(clock, event, timer) = SYS_timer_create;
        timer_delete(timer) = SYS_timer_delete;
        timer_settime(timer, flags, new, old) = SYS_timer_settime;
    }
    Seldom {
        kill(pid, signal) = SYS_kill;
        rt_sigqueueinfo(pid, signal, info) = SYS_rt_sigqueueinfo;
        rt_tgsigqueueinfo(pid, tid, signal, info) = SYS_rt_tgsigqueueinfo;
        rt_sigpending(set, bytes) = SYS_rt_sigpending;
        rt_sigtimedwait(set, info, timeout, bytes) = SYS_rt_sigtimedwait;
        getdents64(fd, buffer, bytes) = SYS_getdents64;
        membarrier(command, flags, processor) = SYS_membarrier;
    }
    Perf {
        ioctl(fd, request, argument) = SYS_ioctl;
        perf_event_open(attributes, tid, cpu, group, flags) = SYS_perf_event_open;
        uname(names) = SYS_uname;
    }
]
the_c_librarys: [
    Library {
        SYS_brk SYS_getrandom SYS_mremap SYS_newfstatat
    }
    Threads {
        SYS_clone SYS_clone3 SYS_exit SYS_rseq SYS_set_robust_list
    }
]
}

/// The calls, as bits by their places, that a filter would punish.
static REFUSED: AtomicU64 = AtomicU64::new(0);

const _: () = assert!(MADE.len() <= u64::BITS as usize);

fn is_refused(place: Place) -> bool {
    refused() & 1 << place as u64 != 0 || is_dispatched()
}

/// Whether the program handles the system calls of a thread itself; see [`crate::lifecycle::restrictions`].
#[derive(Debug)]
struct Dispatch {
    is_on: u64,
    /// The address of the byte by which the program switches that on and off, or 0.
    selector: u64,
}

thread_words! {
    fn dispatch() -> *mut Dispatch = "rsys_dispatch_words"
}

/// Whether the calling thread must make no system calls.
///
/// # Signal safety
/// Reads a word of the thread's own.
#[inline]
pub fn is_dispatched() -> bool {
    // SAFETY: the thread's own words.
    unsafe { (*dispatch()).is_on != 0 }
}

/// Notes whether the program handles the system calls of the calling thread, and the address of its selector, or 0.
pub fn set_dispatched(is_on: bool, selector: u64) {
    // SAFETY: the thread's own words.
    unsafe {
        *dispatch() = Dispatch {
            is_on: u64::from(is_on),
            selector,
        };
    }
}

/// Lets the system calls of the calling thread, which is about to end the process, reach the kernel.
pub fn end_dispatch_for_good() {
    // SAFETY: the thread's own words.
    let words = unsafe { &mut *dispatch() };
    if words.is_on != 0 && words.selector != 0 {
        let selector = std::ptr::with_exposed_provenance_mut::<u8>(words.selector as usize);
        // SAFETY: the program gave the kernel this byte to read.
        unsafe { selector.write_volatile(0) };
        words.is_on = 0;
    }
}

/// The calls, as bits by their places in [`MADE`], that are refused.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Sets them.
pub fn refuse(calls: u64) {
    REFUSED.store(calls, Ordering::Relaxed);
}

/// Fills up with zeros.
fn six<const N: usize>(given: [u64; N]) -> [u64; 6] {
    let mut all = [0; 6];
    for (to, from) in all.iter_mut().zip(given) {
        *to = from;
    }
    all
}
