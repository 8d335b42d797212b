//! Raw system calls.
//!
//! The agent interposes some libc functions, `syscall` among them, and must leave `errno` alone,
//! so it talks to the kernel directly. A negative result is `-errno`.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::clocks;

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

/// Closes a descriptor.
pub fn close(fd: c_int) {
    call(libc::SYS_close, &[fd as u64]);
}

/// Unmaps memory.
///
/// # Safety
/// Nothing may refer to it any more.
pub unsafe fn munmap(base: *mut c_void, bytes: usize) {
    call(libc::SYS_munmap, &[address(base), bytes as u64]);
}

/// Maps memory of our own or of a descriptor, readable and writable.
///
/// # Errors
/// The kernel's error number.
pub fn mmap(bytes: usize, flags: c_int, fd: c_int) -> Result<*mut u8, i32> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let result = call(
        libc::SYS_mmap,
        &[
            0,
            bytes as u64,
            protection as u64,
            flags as u64,
            fd as u64,
            0,
        ],
    );
    if (-4095..0).contains(&result) {
        return Err(-result as i32);
    }
    Ok(std::ptr::with_exposed_provenance_mut(result as usize))
}

fn checked(result: i64) -> Result<i64, i32> {
    if result < 0 {
        Err(-result as i32)
    } else {
        Ok(result)
    }
}

/// Makes a memfd of a fixed size that can neither shrink nor grow.
///
/// # Errors
/// The kernel's error number; `EFBIG` when the process's file-size limit forbids the size.
pub fn sealed_memfd(bytes: usize) -> Result<c_int, i32> {
    // A file-size limit would kill the process with SIGXFSZ in ftruncate: look before.
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let resource = libc::RLIMIT_FSIZE as u64;
    call(
        libc::SYS_prlimit64,
        &[0, resource, 0, address(&raw mut limit)],
    );
    let raised = limit.rlim_cur < bytes as u64;
    if raised {
        // Beyond the hard limit only for the privileged.
        let most = limit.rlim_max.max(bytes as u64);
        let wider = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        let wide = address(&raw const wider);
        if call(libc::SYS_prlimit64, &[0, resource, wide, 0]) < 0 {
            return Err(libc::EFBIG);
        }
    }
    let made = memfd_of_size(bytes);
    if raised {
        call(
            libc::SYS_prlimit64,
            &[0, resource, address(&raw const limit), 0],
        );
    }
    made
}

fn memfd_of_size(bytes: usize) -> Result<c_int, i32> {
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let fd = checked(call(
        libc::SYS_memfd_create,
        &[address(c"rsys".as_ptr()), flags],
    ))? as c_int;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let sized = checked(call(libc::SYS_ftruncate, &[fd as u64, bytes as u64])).and_then(|_| {
        checked(call(
            libc::SYS_fcntl,
            &[fd as u64, libc::F_ADD_SEALS as u64, seals as u64],
        ))
    });
    match sized {
        Ok(_) => Ok(fd),
        Err(error) => {
            close(fd);
            Err(error)
        }
    }
}

/// Sends one datagram, with a descriptor if there is one, to a socket in the abstract namespace.
///
/// Waits a bounded time when the receiver's queue is full.
///
/// # Errors
/// The kernel's error number.
pub fn send(name: &[u8], datagram: &[u8], fd: Option<c_int>) -> Result<(), i32> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    let socket = checked(call(
        libc::SYS_socket,
        &[libc::AF_UNIX as u64, kind as u64, 0],
    ))? as c_int;
    let wait = libc::timeval {
        tv_sec: 2,
        tv_usec: 0,
    };
    call(
        libc::SYS_setsockopt,
        &[
            socket as u64,
            libc::SOL_SOCKET as u64,
            libc::SO_SNDTIMEO as u64,
            address(&raw const wait),
            size_of::<libc::timeval>() as u64,
        ],
    );
    let mut target = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as u16,
        sun_path: [0; 108],
    };
    for (to, from) in target.sun_path.iter_mut().skip(1).zip(name) {
        *to = *from as libc::c_char;
    }
    let address_bytes = 2 + 1 + name.len().min(107);
    let part = libc::iovec {
        iov_base: datagram.as_ptr().cast_mut().cast(),
        iov_len: datagram.len(),
    };
    // A cmsghdr, one descriptor, and padding: 24 bytes.
    let control: [u64; 3] = [
        20,
        (libc::SOL_SOCKET as u64) | (libc::SCM_RIGHTS as u64) << 32,
        u64::from(fd.unwrap_or_default() as u32),
    ];
    // SAFETY: zero is a valid value of every field.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut target).cast();
    message.msg_namelen = address_bytes as u32;
    message.msg_iov = (&raw const part).cast_mut();
    message.msg_iovlen = 1;
    if fd.is_some() {
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = size_of_val(&control) as _;
    }
    let sent = loop {
        let flags = libc::MSG_NOSIGNAL as u64;
        let result = call(
            libc::SYS_sendmsg,
            &[socket as u64, address(&raw const message), flags],
        );
        if result != -i64::from(libc::EINTR) {
            break checked(result);
        }
    };
    close(socket);
    sent.map(|_| ())
}

/// How far this process' CLOCK_BOOTTIME is ahead of the sampler's, in nanoseconds.
static BOOT_AHEAD_NS: AtomicU64 = AtomicU64::new(0);

/// Finds out how far our CLOCK_BOOTTIME is ahead of the sampler's, which is ahead of the machine's by so many nanoseconds: a time
/// namespace begins with a fork or an exec.
pub fn agree_on_boottime(sampler_ahead_ns: i64) {
    let [own, childrens] = clocks::NAMESPACES.map(|path| {
        let mut name = [0_u8; 32];
        readlink(path, &mut name);
        name
    });
    let mut text = [0_u8; 256];
    let length = if own == childrens {
        read_file(clocks::OFFSETS_FILE, &mut text)
    } else {
        0
    };
    let ahead = clocks::boot_offset_ns(text.get(..length).unwrap_or(&[]));
    BOOT_AHEAD_NS.store(
        ahead.wrapping_sub(sampler_ahead_ns).cast_unsigned(),
        Ordering::Relaxed,
    );
}

/// The sampler's CLOCK_BOOTTIME in nanoseconds.
///
/// # Signal safety
/// `clock_gettime` is async-signal-safe and answered by the vDSO, without a system call.
#[inline]
pub fn boottime_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME).wrapping_sub(BOOT_AHEAD_NS.load(Ordering::Relaxed))
}

/// CPU time of the calling thread in nanoseconds (a system call).
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of another thread of the process in nanoseconds (a system call); 0 when it is gone.
pub fn cpu_ns_of_thread(tid: u32) -> u64 {
    clock_ns(thread_clock(tid))
}

/// CPU time of all threads of the process in nanoseconds (a system call).
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec; errno is untouched on success, which is certain for
    // these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Address of the program's first instruction, `_start`.
pub fn program_entry() -> u64 {
    // SAFETY: reads the vector that the kernel passed.
    unsafe { libc::getauxval(libc::AT_ENTRY) }
}

/// The kernel's tick in nanoseconds: CPU timers expire no finer than this.
pub fn tick_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec. The coarse clocks advance once per tick.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (time.tv_nsec as u64).max(1)
}

/// A CPU-time clock of one thread of this process, as `clock_gettime` and `timer_create` take it.
pub fn thread_clock(tid: u32) -> libc::clockid_t {
    // (~tid << 3) | CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED, from include/linux/posix-timers.h.
    ((!tid) << 3 | 6) as libc::clockid_t
}

/// Makes a timer on a thread's CPU clock that signals that thread, with `value` in the signal.
///
/// # Errors
/// The kernel's error number; `EAGAIN` when RLIMIT_SIGPENDING is reached.
pub fn timer_create(tid: u32, signal: c_int, value: u64) -> Result<c_int, i32> {
    // SAFETY: zero is a valid value of every field.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_value.sival_ptr = std::ptr::without_provenance_mut(value as usize);
    event.sigev_notify_thread_id = tid as c_int;
    let mut timer: c_int = 0;
    let clock = thread_clock(tid) as u64;
    let made = call(
        libc::SYS_timer_create,
        &[clock, address(&raw const event), address(&raw mut timer)],
    );
    checked(made).map(|_| timer)
}

/// Arms a timer; two zeros disarm it.
pub fn timer_arm(timer: c_int, first_ns: u64, period_ns: u64) {
    let time = |ns: u64| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    let setting = libc::itimerspec {
        it_interval: time(period_ns),
        it_value: time(first_ns.max(u64::from(period_ns > 0))),
    };
    call(
        libc::SYS_timer_settime,
        &[timer as u64, 0, address(&raw const setting), 0],
    );
}

/// Deletes a timer.
pub fn timer_delete(timer: c_int) {
    call(libc::SYS_timer_delete, &[timer as u64]);
}

/// Changes the calling thread's signal mask behind libc's back.
///
/// Returns the mask before.
pub fn sigmask(how: c_int, signals: u64) -> u64 {
    let mut before = 0_u64;
    call(
        libc::SYS_rt_sigprocmask,
        &[
            how as u64,
            address(&raw const signals),
            address(&raw mut before),
            8,
        ],
    );
    before
}

/// `rt_sigaction` with the kernel's own structure.
pub fn sigaction<T>(signal: c_int, new: Option<&T>, old: Option<&mut T>) -> i64 {
    let new = new.map_or(0, |action| address(&raw const *action));
    let old = old.map_or(0, |action| address(&raw mut *action));
    call(libc::SYS_rt_sigaction, &[signal as u64, new, old, 8])
}

/// Sends a signal to a thread of this process.
pub fn tgkill(tid: u32, signal: c_int) {
    call(
        libc::SYS_tgkill,
        &[u64::from(getpid()), u64::from(tid), signal as u64],
    );
}

/// Whether a thread of this process is gone.
pub fn is_gone(tid: u32) -> bool {
    let result = call(libc::SYS_tgkill, &[u64::from(getpid()), u64::from(tid), 0]);
    result == -i64::from(libc::ESRCH)
}

/// Ends the process.
pub fn exit_group(status: c_int) {
    call(libc::SYS_exit_group, &[status as u64]);
}

/// The bit of a signal in a kernel signal set.
pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
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

/// Reads or sets the thread's alternate signal stack.
pub fn sigaltstack(new: Option<&libc::stack_t>, old: Option<&mut libc::stack_t>) -> i64 {
    let new = new.map_or(0, |stack| address(&raw const *stack));
    let old = old.map_or(0, |stack| address(&raw mut *stack));
    call(libc::SYS_sigaltstack, &[new, old])
}

/// Reads a symbolic link into a buffer; returns the number of bytes.
pub fn readlink(path: &std::ffi::CStr, buffer: &mut [u8]) -> usize {
    let at = libc::AT_FDCWD as u64;
    let result = call(
        libc::SYS_readlinkat,
        &[
            at,
            address(path.as_ptr()),
            address(buffer.as_mut_ptr()),
            buffer.len() as u64,
        ],
    );
    usize::try_from(result).unwrap_or(0)
}

/// `fcntl` with a number.
pub fn fcntl(fd: c_int, command: c_int, argument: u64) -> i64 {
    call(libc::SYS_fcntl, &[fd as u64, command as u64, argument])
}

/// `fcntl` with an object.
pub fn fcntl_object<T>(fd: c_int, command: c_int, object: &T) -> i64 {
    fcntl(fd, command, address(&raw const *object))
}

/// `perf_event_open` for a thread on any CPU, in the group of another event or (-1) in none.
///
/// # Errors
/// The kernel's error number.
pub fn perf_event_open<T>(
    attributes: &T,
    tid: u32,
    group: c_int,
    flags: u64,
) -> Result<c_int, i32> {
    let any_cpu = u64::MAX;
    let result = call(
        libc::SYS_perf_event_open,
        &[
            address(&raw const *attributes),
            u64::from(tid),
            any_cpu,
            i64::from(group) as u64,
            flags,
        ],
    );
    checked(result).map(|fd| fd as c_int)
}

/// Reads words from a descriptor; returns the number of bytes, 0 when it cannot be read.
///
/// # Signal safety
/// One system call.
pub fn read<const N: usize>(fd: c_int, words: &mut [u64; N]) -> usize {
    let bytes = size_of::<[u64; N]>() as u64;
    let result = call(
        libc::SYS_read,
        &[fd as u64, address(words.as_mut_ptr()), bytes],
    );
    usize::try_from(result).unwrap_or(0)
}

/// The soft limit on open descriptors.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let resource = libc::RLIMIT_NOFILE as u64;
    call(
        libc::SYS_prlimit64,
        &[0, resource, 0, address(&raw mut limit)],
    );
    limit.rlim_cur
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

/// Reads the start of a file into a buffer; returns the number of bytes, 0 when it cannot be read.
pub fn read_file(path: &std::ffi::CStr, buffer: &mut [u8]) -> usize {
    let at = libc::AT_FDCWD as u64;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    let opened = call(libc::SYS_openat, &[at, address(path.as_ptr()), flags, 0]);
    let Ok(fd) = checked(opened) else {
        return 0;
    };
    let destination = address(buffer.as_mut_ptr());
    let result = call(
        libc::SYS_read,
        &[fd as u64, destination, buffer.len() as u64],
    );
    close(fd as c_int);
    usize::try_from(result).unwrap_or(0)
}

/// Gives the rest of the time slice away.
pub fn sched_yield() {
    call(libc::SYS_sched_yield, &[]);
}

/// Sleeps so long, or until a signal.
pub fn nap(ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    call(libc::SYS_nanosleep, &[(&raw const time).addr() as u64, 0]);
}

/// Makes memory inaccessible.
pub fn forbid(base: *mut u8, bytes: usize) {
    call(
        libc::SYS_mprotect,
        &[address(base), bytes as u64, libc::PROT_NONE as u64],
    );
}

/// `ioctl` with a number.
pub fn ioctl(fd: c_int, request: u64, argument: u64) -> i64 {
    call(libc::SYS_ioctl, &[fd as u64, request, argument])
}

/// Every signal but those by which the kernel tells of a fault of the thread itself.
pub const ALL_BUT_FAULTS: u64 = !(bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP));

/// Sleeps while a word has a value, at most so long, or until it is woken.
pub fn futex_wait(word: &std::sync::atomic::AtomicU32, value: u32, ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    call(
        libc::SYS_futex,
        &[
            word.as_ptr().addr() as u64,
            operation as u64,
            u64::from(value),
            address(&raw const time),
        ],
    );
}

/// Wakes all who sleep on a word.
pub fn futex_wake(word: &std::sync::atomic::AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let all = u64::from(u32::MAX >> 1);
    call(
        libc::SYS_futex,
        &[word.as_ptr().addr() as u64, operation as u64, all],
    );
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}
