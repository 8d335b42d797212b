//! Signals, their masks and their stacks.

use std::ffi::{CStr, c_int};

use crate::sys::calls;
use crate::sys::text::Text;
use crate::sys::{address, getpid, read_file};

/// Changes the calling thread's signal mask behind libc's back.
///
/// Returns the mask before.
pub fn sigmask(how: c_int, signals: u64) -> u64 {
    try_sigmask(how, signals).unwrap_or(0)
}

/// As [`sigmask`]; `None` where that is not allowed.
pub fn try_sigmask(how: c_int, signals: u64) -> Option<u64> {
    let mut before = 0_u64;
    let (new, old) = (address(&raw const signals), address(&raw mut before));
    // SAFETY: two sets of eight bytes.
    let result = unsafe { calls::rt_sigprocmask(how as u64, new, old, 8) };
    (result == 0).then_some(before)
}

/// Blocks all signals but those of faults. Returns the mask before; `None` where that is not allowed.
pub fn block_signals() -> Option<u64> {
    try_sigmask(libc::SIG_BLOCK, ALL_BUT_FAULTS)
}

/// `rt_sigaction` with the kernel's own structure.
///
/// # Safety
/// The handler may be called from now on; `T` must be the kernel's `struct sigaction`.
pub unsafe fn sigaction<T>(signal: c_int, new: Option<&T>, old: Option<&mut T>) -> i64 {
    let new = new.map_or(0, |action| address(&raw const *action));
    let old = old.map_or(0, |action| address(&raw mut *action));
    // SAFETY: null or valid, as the caller says.
    unsafe { calls::rt_sigaction(signal as u64, new, old, 8) }
}

/// Sends a signal to a thread of this process. Returns whether it was sent.
pub fn tgkill(tid: u32, signal: c_int) -> bool {
    // SAFETY: numbers.
    unsafe { calls::tgkill(u64::from(getpid()), u64::from(tid), signal as u64) == 0 }
}

/// Sends a signal to this process, as by `kill`. Returns whether it was sent.
pub fn kill_process(signal: c_int) -> bool {
    // SAFETY: numbers.
    unsafe { calls::kill(u64::from(getpid()), signal as u64) == 0 }
}

/// Sends a signal with a `siginfo_t` to this process. Returns whether it was sent.
pub fn queue_to_process<T>(signal: c_int, info: *const T) -> bool {
    const { assert!(size_of::<T>() == size_of::<libc::siginfo_t>()) };
    // SAFETY: numbers, and a place that the kernel can check.
    unsafe { calls::rt_sigqueueinfo(u64::from(getpid()), signal as u64, address(info)) == 0 }
}

/// The same to a thread of this process.
pub fn queue_to_thread<T>(tid: u32, signal: c_int, info: *const T) -> bool {
    const { assert!(size_of::<T>() == size_of::<libc::siginfo_t>()) };
    let (pid, tid) = (u64::from(getpid()), u64::from(tid));
    // SAFETY: as above.
    unsafe { calls::rt_tgsigqueueinfo(pid, tid, signal as u64, address(info)) == 0 }
}

/// The signals that wait for the calling thread or for the process and are blocked here.
pub fn waiting_signals() -> u64 {
    let mut set = 0_u64;
    // SAFETY: a set of eight bytes.
    unsafe { calls::rt_sigpending(address(&raw mut set), 8) };
    set
}

/// Takes a signal that waits for the calling thread, which blocks it, with its `siginfo_t`. Returns whether one waited.
pub fn take_waiting<T>(signal: c_int, info: *mut T) -> bool {
    const { assert!(size_of::<T>() == size_of::<libc::siginfo_t>()) };
    let (set, now) = (bit(signal), [0_u64; 2]);
    // SAFETY: the set and the time live, and the place is as large as it has to be.
    unsafe {
        calls::rt_sigtimedwait(
            address(&raw const set),
            address(info),
            address(now.as_ptr()),
            8,
        ) > 0
    }
}

/// Whether a thread of this process is gone.
pub fn is_gone(tid: u32) -> bool {
    // SAFETY: numbers.
    let result = unsafe { calls::tgkill(u64::from(getpid()), u64::from(tid), 0) };
    result == -i64::from(libc::ESRCH)
}

/// What the kernel says of a thread of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadState {
    /// The letter of proc(5).
    state: u8,
    /// The signals below 32 that are pending for it.
    pub pending: u64,
    /// Those that are blocked in it.
    pub blocked: u64,
}

impl ThreadState {
    /// Whether it waits for something.
    pub fn sleeps(&self) -> bool {
        self.state == b'S'
    }

    /// Whether it runs, or would if there were a processor.
    pub fn runs(&self) -> bool {
        self.state == b'R'
    }
}

/// The state of a thread of this process; `None` when it is gone or the kernel does not say.
pub fn thread_state(tid: u32) -> Option<ThreadState> {
    /// Fields of proc(5), stat, counted from the thread's state on, which follows its name in parentheses.
    const PENDING: usize = 31 - 3;
    const BLOCKED: usize = 32 - 3;
    let (mut text, mut path) = ([0_u8; 512], [0_u8; 48]);
    let mut name = Text::new(&mut path);
    name.put(b"/proc/self/task/");
    name.number(u64::from(tid));
    name.put(b"/stat\0");
    let length = read_file(CStr::from_bytes_until_nul(name.bytes()).ok()?, &mut text);
    let text = text.get(..length)?;
    let name_ends = text.iter().rposition(|byte| *byte == b')')?;
    let mut fields = text.get(name_ends + 2..)?.split(|byte| *byte == b' ');
    let number = |field: &[u8]| {
        field.iter().fold(0_u64, |number, digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        })
    };
    Some(ThreadState {
        state: *fields.next()?.first()?,
        pending: number(fields.nth(PENDING - 1)?),
        blocked: number(fields.nth(BLOCKED - PENDING - 1)?),
    })
}

/// The bit of a signal in a kernel signal set.
pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Reads or sets the thread's alternate signal stack.
pub fn sigaltstack(new: Option<&libc::stack_t>, old: Option<&mut libc::stack_t>) -> i64 {
    let new = new.map_or(0, |stack| address(&raw const *stack));
    let old = old.map_or(0, |stack| address(&raw mut *stack));
    // SAFETY: null or valid.
    unsafe { calls::sigaltstack(new, old) }
}

/// By which the C library cancels a thread (nptl: SIGCANCEL).
const CANCEL: u64 = bit(32);

/// By which the C library has each thread take over the process's user and groups (nptl: SIGSETXID): `setuid` waits until all have answered.
pub const SET_USER: u64 = bit(33);

/// Every signal but those by which the kernel reports a fault of the thread itself, and [`SET_USER`]: a thread that a library makes meanwhile
/// inherits this mask for life.
pub const ALL_BUT_FAULTS: u64 = !(bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP)
    | SET_USER);

/// What threads of ours block: every signal but those that the C library keeps for itself.
pub const OF_OUR_THREADS: u64 = !(CANCEL | SET_USER);
