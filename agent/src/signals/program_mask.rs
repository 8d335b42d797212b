//! The signal mask that the program sets and reads back, and the one that the kernel gets: the same without the sample signals.

use std::ffi::c_int;

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::clocks::perf;
use crate::signals::action::current_action;
use crate::signals::sets::{set_of, sigset};
use crate::signals::{believed, faults, held};
use crate::state;
use crate::sys;
use crate::sys::calls;

/// The signals that bring samples, as a kernel signal set.
pub fn of_samples() -> u64 {
    if perf::uses_traps() {
        sys::bit(SAMPLE_SIGNAL) | sys::bit(libc::SIGTRAP)
    } else {
        sys::bit(SAMPLE_SIGNAL)
    }
}

/// The signals of samples that we block in the calling thread: those that are held back for the program, and the sample signal where it
/// must not come; see [`crate::lifecycle::restrictions`].
fn blocked_by_us() -> u64 {
    if calls::is_dispatched() {
        held::all() | sys::bit(SAMPLE_SIGNAL)
    } else {
        held::all()
    }
}

/// Changes the mask by `call(set)`, which returns the kernel's mask before, or `None` when it fails. `how` is that of `sigprocmask`. Returns
/// the previous mask as the program is to see it.
pub fn change(
    how: c_int,
    asked: Option<u64>,
    call: impl FnOnce(Option<u64>) -> Option<u64>,
) -> Option<u64> {
    let ours = of_samples();
    let by_us = blocked_by_us();
    let before = call(asked.map(|asked| match how {
        libc::SIG_UNBLOCK => asked & !by_us,
        libc::SIG_SETMASK => for_kernel(asked),
        _ => asked & !ours,
    }))?;
    let believed = believed::with(before);
    if let Some(asked) = asked {
        let (after, blocked) = match how {
            libc::SIG_BLOCK => (before | asked, believed | asked),
            libc::SIG_UNBLOCK => (before & !asked, believed & !asked),
            _ => (asked, asked),
        };
        believed::set(after, blocked & ours);
        faults::note(after);
        // Now that they are no longer believed blocked.
        held::let_go(!blocked);
    }
    Some(before & !by_us | believed)
}

/// The mask for the kernel when the program asks for this one.
pub fn for_kernel(asked: u64) -> u64 {
    asked & !of_samples() | blocked_by_us()
}

/// The calling thread is about to go on in a context with the mask `asked`. Returns the mask for the kernel.
pub fn enter_context(asked: u64) -> u64 {
    let blocked = asked & of_samples();
    // One that the C library has saved has none, and is known by the rest.
    if blocked != 0 {
        believed::set(asked, blocked);
    }
    faults::note(asked);
    for_kernel(asked)
}

/// Lets signals of samples through in the calling thread, but those that are held back. Returns the mask that it had.
pub fn let_samples_through() -> u64 {
    sys::sigmask(libc::SIG_UNBLOCK, of_samples() & !held::all())
}

/// Begins the calling thread, which has inherited its mask: samples come, and the program believes what it believed, or asked for in another
/// way than we see. (If `is_wish`: what its maker blocks for our sake is not the program's.)
pub fn begin_thread(is_wish: bool) {
    let mask = sys::sigmask(libc::SIG_BLOCK, 0);
    faults::note(mask);
    let blocked = mask & of_samples();
    if blocked != 0 {
        if is_wish {
            believed::set(mask, believed::with(mask) | blocked);
        }
        // What waits comes now, and is held back.
        sys::sigmask(libc::SIG_UNBLOCK, blocked);
    }
}

/// Makes a call that waits with the mask `mask`, where it is known. `None` where a signal that was held back has ended the wait.
///
/// Takes the samples before that wait because the calling thread blocks their signals by ways that we do not see, such as the mask of a
/// handler: they would end a wait that lets all signals through.
pub fn wait_with<R>(mask: Option<u64>, call: impl Fn() -> R) -> Option<R> {
    let ours = of_samples();
    let for_samples = ours & !blocked_by_us();
    let blocked = sys::sigmask(libc::SIG_UNBLOCK, for_samples) & for_samples;
    let open = mask.map_or(0, |mask| ours & !mask);
    let result = (!held::begin_wait(open)).then(call);
    held::end_wait();
    if blocked != 0 {
        sys::sigmask(libc::SIG_BLOCK, blocked);
    }
    result
}

/// The set to wait for instead of `set`: our signal must not be consumed by the program.
pub fn without_sample_signal(set: &libc::sigset_t) -> libc::sigset_t {
    sigset(set_of(set) & !sys::bit(SAMPLE_SIGNAL))
}

/// As [`without_sample_signal`], for a thread that takes signals by waiting for them.
///
/// Where a thread waits for (nearly) everything, a SIGPROF that the program has a handler for is left
/// out as well, if another thread can take it. The kernel gives a process's
/// signal to a thread that has no other pending; next to ours, which come at the same ticks as an
/// `ITIMER_PROF`, that would often be the one that waits for everything.
pub fn to_wait_for(set: &libc::sigset_t) -> libc::sigset_t {
    let others = without_sample_signal(set);
    let profiling = sys::bit(libc::SIGPROF);
    let waits_for_everything = set_of(set).count_ones() > 16 && set_of(set) & profiling != 0;
    let handled = waits_for_everything
        && !state::is_confined()
        && current_action(libc::SIGPROF)
            .is_some_and(|action| ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.handler))
        && !all_others_block(profiling);
    if handled {
        sigset(set_of(&others) & !profiling)
    } else {
        others
    }
}

/// Whether all other threads block a signal, one below 32, as far as the kernel says.
fn all_others_block(signal: u64) -> bool {
    let (own, mut open) = (sys::gettid(), false);
    let known = sys::for_each_thread(|tid| {
        open |= tid != own && sys::thread_state(tid).is_some_and(|it| it.blocked & signal == 0);
    });
    known && !open
}
