//! Walks in a thread that blocks the signals of faults.
//!
//! They are the program's to block, and the kernel blocks one while its handler runs, the program's as well as ours, which stands in front. A
//! guarded read that faults would kill then. So the signal is let through for the time of a walk. One that was sent is not taken
//! meanwhile: it is sent again when the walk is over, and waits as it would have.
//!
//! One that is sent while a sample is taken waits for the end of the sample in any thread: the program's handler must not run within ours.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use crate::signals::again::Sent;
use crate::sys;
use crate::sys::guard;
use crate::thread_words;

/// What a walk holds open in the calling thread.
#[derive(Debug)]
#[repr(C)]
struct Words {
    /// Signals that the thread blocks, and that we let through.
    let_through: u64,
    /// Those that the thread seems to block: what it asked for, or what the last sample has seen.
    blocked: u64,
    /// Those that wait for the end of the sample that the thread takes.
    in_sample: u64,
    /// Those that came at the border of the sample handler, and are blocked in it.
    at_border: u64,
    /// SIGSEGV and SIGBUS that were sent meanwhile.
    held_back: [Sent; 2],
}

thread_words! {
    /// The calling thread's words.
    fn words() -> *mut Words = "rsys_fault_words"
}

/// SIGSEGV and SIGBUS, as a kernel set.
const FAULTS: u64 = sys::bit(libc::SIGSEGV) | sys::bit(libc::SIGBUS);

/// Whether the kernel ignores the signals of faults for a moment, and so kills at each.
static IS_UNGUARDED: AtomicBool = AtomicBool::new(false);

/// Says whether our handlers are in place. For the process's only thread.
pub fn set_guarded(is_guarded: bool) {
    IS_UNGUARDED.store(!is_guarded, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// Lets the fault signals through of those that were `blocked` in the sampled code. Returns what [`block_again`] is to block; `None` where that
/// may not be, so that guarded reads are not safe.
///
/// # Signal safety
/// One system call where one is blocked, none else.
#[inline]
pub fn let_through(blocked: u64) -> Option<u64> {
    note(blocked | opened());
    if IS_UNGUARDED.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the thread's own words.
    let blocked = (blocked | unsafe { (*words()).at_border }) & FAULTS;
    if blocked == 0 { Some(0) } else { open(blocked) }
}

#[inline(never)]
fn open(blocked: u64) -> Option<u64> {
    let words = words();
    // SAFETY: the thread's own words. What waits comes within the call.
    unsafe { (*words).let_through |= blocked };
    let before = sys::try_sigmask(libc::SIG_UNBLOCK, blocked);
    let opened = blocked & before.unwrap_or(0);
    // SAFETY: as above.
    unsafe { (*words).let_through &= !blocked | opened };
    before.map(|_| opened)
}

/// Ends what [`let_through`] began.
///
/// # Signal safety
/// A system call where one is to be blocked again, and some for each signal that came meanwhile.
#[inline]
pub fn block_again(opened: u64) {
    if opened != 0 {
        close(opened);
    }
}

#[inline(never)]
fn close(opened: u64) {
    sys::sigmask(libc::SIG_BLOCK, opened);
    // SAFETY: the thread's own words.
    let words = unsafe { &mut *words() };
    words.let_through &= !opened;
    words.send_held_back(opened);
}

impl Words {
    /// Sends those of these signals again that came meanwhile. They are blocked.
    fn send_held_back(&mut self, signals: u64) {
        for (held_back, signal) in self.held_back.iter_mut().zip([libc::SIGSEGV, libc::SIGBUS]) {
            if signals & sys::bit(signal) != 0 && held_back.is_signal(signal) {
                std::mem::replace(held_back, Sent::NONE).send_again();
            }
        }
    }

    fn has_held_back(&self) -> bool {
        self.at_border != 0 || self.held_back.iter().any(|sent| !sent.is_signal(0))
    }
}

/// Takes a sample. A SIGSEGV or SIGBUS that is sent meanwhile comes when the handler returns. For the handler alone, which has
/// a section of its own, by which [`hold_back`] knows code of the handler outside of this function.
///
/// # Signal safety
/// Within the sample handler. Some system calls where a signal came, none else.
#[inline(always)]
pub fn in_sample<R>(sample: impl FnOnce() -> R) -> R {
    let words = words();
    // SAFETY: the thread's own words. Samples nest where one clock's interrupts that of the other.
    let outer = unsafe { (*words).in_sample };
    // SAFETY: as above.
    unsafe { (&raw mut (*words).in_sample).write_volatile(FAULTS) };
    compiler_fence(Ordering::SeqCst);
    let result = sample();
    compiler_fence(Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { (&raw mut (*words).in_sample).write_volatile(outer) };
    // SAFETY: as above.
    if outer == 0 && unsafe { (*words).has_held_back() } {
        send_when_handler_returns();
    }
    result
}

#[cold]
#[inline(never)]
fn send_when_handler_returns() {
    // The return puts back the mask of the interrupted code.
    sys::sigmask(libc::SIG_BLOCK, FAULTS);
    // SAFETY: the thread's own words.
    let words = unsafe { &mut *words() };
    words.at_border = 0;
    words.send_held_back(FAULTS);
}

unsafe extern "C" {
    // The linker's names for the ends of the section of the sample handler.
    #[link_name = "__start_rsys_sample_handler"]
    static HANDLER_START: u8;
    #[link_name = "__stop_rsys_sample_handler"]
    static HANDLER_END: u8;
}

/// Whether this is code of the sample handler, but of nothing that it calls.
fn is_of_sample_handler(pc: u64) -> bool {
    let [start, end] = [&raw const HANDLER_START, &raw const HANDLER_END];
    (start.addr()..end.addr()).contains(&(pc as usize))
}

/// Does something that may read in vain, in a thread that may block the signals of faults. `None` where it must not be done.
pub fn while_open<R>(what: impl FnOnce() -> R) -> Option<R> {
    // SAFETY: the thread's own words.
    let opened = let_through(unsafe { (*words()).blocked })?;
    let result = what();
    block_again(opened);
    Some(result)
}

/// A guarded load at an address that the program has passed.
pub fn read_u64(address: u64) -> Option<u64> {
    while_open(|| guard::read_u64(address))?
}

/// The same of four bytes.
pub fn read_u32(address: u64) -> Option<u32> {
    while_open(|| guard::read_u32(address))?
}

/// The same of one byte.
pub fn read_u8(address: u64) -> Option<u8> {
    while_open(|| guard::read_u8(address))?
}

/// Notes the mask that the calling thread has.
#[inline]
pub fn note(mask: u64) {
    // SAFETY: the thread's own words.
    unsafe { (*words()).blocked = mask & FAULTS };
}

/// The signals that a walk holds open at the moment.
#[inline]
pub fn opened() -> u64 {
    // SAFETY: as above.
    unsafe { (*words()).let_through }
}

/// Keeps a signal that was sent for later, if the thread takes a sample, or has blocked it and is only letting it through.
///
/// # Signal safety
/// Writes the thread's own words; some system calls at the border of the sample handler.
pub fn hold_back(sent: Sent, signal: c_int, machine: &mut libc::ucontext_t) -> bool {
    if !sent.is_sent() {
        return false;
    }
    let bit = sys::bit(signal);
    // SAFETY: the thread's own words.
    let words = unsafe { &mut *words() };
    if (words.let_through | words.in_sample) & bit != 0 {
        let [segv, bus] = &mut words.held_back;
        *(if signal == libc::SIGSEGV { segv } else { bus }) = sent;
        return true;
    }
    let pc = machine.uc_mcontext.gregs[libc::REG_RIP as usize].cast_unsigned();
    if !is_of_sample_handler(pc) || sys::try_sigmask(libc::SIG_BLOCK, bit).is_none() {
        return false;
    }
    // The handler has not yet said that it takes a sample, or says so no more: it goes on with the signal blocked, and its return lets it through.
    words.at_border |= bit;
    // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
    unsafe { *(&raw mut machine.uc_sigmask).cast::<u64>() |= bit };
    sent.send_again();
    true
}
