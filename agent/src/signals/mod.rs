//! The signals that the agent shares with the program: one for samples ([`SAMPLE_SIGNAL`]), SIGSEGV
//! and SIGBUS for guarded reads, and SIGTRAP where perf samples come by it ([`perf`]).
//!
//! The kernel knows our handlers only. What the program asks for these signals is kept here, told to
//! it when it asks, and done when a signal arrives that is not ours. The program may also believe
//! that it blocks them: nothing of ours would work if it really did.

pub mod action;
pub mod believed;
pub mod death;
pub mod faults;
pub mod masks;
pub mod sets;

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::clocks::perf;
use crate::signals::action::{
    Action, KernelAction, current_action, kernel_sigaction, learn_restorer,
};
use crate::signals::sets::{set_of, sigset};
use crate::state;
use crate::sys;
use crate::sys::calls;
use crate::sys::guard;

/// The signals that we may handle; the last one only where it brings samples.
const SHARED: [c_int; 4] = [SAMPLE_SIGNAL, libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP];

/// The signals that we handle.
fn ours() -> &'static [c_int] {
    let [always @ .., _trap] = &SHARED;
    if perf::uses_traps() { &SHARED } else { always }
}

/// The same as a kernel signal set.
fn our_set() -> u64 {
    const ALWAYS: u64 = sys::bit(SAMPLE_SIGNAL) | FAULT_SIGNALS;
    if perf::uses_traps() {
        ALWAYS | sys::bit(libc::SIGTRAP)
    } else {
        ALWAYS
    }
}

/// Those that report faults.
const FAULT_SIGNALS: u64 = sys::bit(libc::SIGSEGV) | sys::bit(libc::SIGBUS);

/// What the program wants of one signal: the fields of its `struct sigaction`.
#[derive(Debug)]
struct Wanted {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

impl Wanted {
    const fn new() -> Self {
        Wanted {
            handler: AtomicUsize::new(libc::SIG_DFL),
            flags: AtomicU64::new(0),
            mask: AtomicU64::new(0),
        }
    }

    fn load(&self) -> Action {
        Action {
            handler: self.handler.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Relaxed) as c_int,
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    fn store(&self, action: Action) {
        self.flags.store(action.flags as u64, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.handler.store(action.handler, Ordering::Release);
    }
}

static WANTED: [Wanted; SHARED.len()] = [const { Wanted::new() }; SHARED.len()];
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether a signal is one that we stand in front of, in this very process.
pub fn is_shared(signal: c_int) -> bool {
    ours().contains(&signal) && INSTALLED.load(Ordering::Acquire)
}

fn is_for_samples(signal: c_int) -> bool {
    signal == SAMPLE_SIGNAL || signal == libc::SIGTRAP
}

/// Whether masks have to be translated.
pub fn is_installed() -> bool {
    INSTALLED.load(Ordering::Acquire)
}

fn wanted(signal: c_int) -> Option<&'static Wanted> {
    SHARED
        .iter()
        .position(|ours| *ours == signal)
        .and_then(|index| WANTED.get(index))
}

/// Our registration of a fault signal. The kernel gives the program's handler what it asked for:
/// its mask, its stack, its flags.
fn fault_action(wanted: Action) -> Action {
    const KEPT: c_int = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
    Action {
        handler: handler as usize,
        flags: libc::SA_SIGINFO | (wanted.flags & KEPT),
        mask: masks::without_traps(wanted.mask),
    }
}

/// The function that the kernel calls for a sample signal.
pub type SampleHandler = unsafe extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Puts our handlers in place, `sample` for the signals that bring samples, and keeps what was there.
#[unsafe(link_section = "rsys_start")]
pub fn install(sample: SampleHandler) {
    const FAULTS: u64 = sys::bit(libc::SIGSEGV)
        | sys::bit(libc::SIGBUS)
        | sys::bit(libc::SIGILL)
        | sys::bit(libc::SIGFPE)
        | sys::bit(libc::SIGTRAP);
    for &signal in ours() {
        let Some(before) = current_action(signal) else {
            continue;
        };
        let action = if is_for_samples(signal) {
            Action {
                handler: sample as usize,
                // SIGTRAP may come during samples, its own too: see `perf`.
                flags: libc::SA_SIGINFO
                    | libc::SA_RESTART
                    | libc::SA_ONSTACK
                    | if signal == libc::SIGTRAP {
                        libc::SA_NODEFER
                    } else {
                        0
                    },
                // A handler of the program's must not interrupt ours: it might jump out of it.
                mask: !FAULTS,
            }
        } else {
            // A library's constructor may have been here before us.
            fault_action(before)
        };
        if let Some(wanted) = wanted(signal) {
            wanted.store(before);
        }
        if signal == SAMPLE_SIGNAL {
            learn_restorer(signal, action);
        }
        kernel_sigaction(signal, action);
    }
    INSTALLED.store(true, Ordering::Release);
}

/// Lets our signals through in the calling thread, whatever it inherited.
///
/// Returns those of ours that were blocked.
pub fn unblock_ours() -> u64 {
    sys::sigmask(libc::SIG_UNBLOCK, our_set()) & our_set()
}

/// Lets our signals through in a thread that begins. Returns those of ours that were blocked.
pub fn open_inherited_mask() -> u64 {
    let blocked = sys::sigmask(libc::SIG_BLOCK, 0) & our_set();
    if blocked != 0 {
        faults::open_inherited(blocked);
    }
    blocked
}

/// Our handlers of signals that the program ignores.
pub type Ignored = [Option<(c_int, Action)>; SHARED.len()];

/// Has the kernel ignore what the program ignores, as a program that is executed inherits it. Returns our handlers.
pub fn ignore_as_wished() -> Ignored {
    SHARED.map(|signal| {
        let wish = wanted(signal)?.load();
        if !is_shared(signal) || wish.handler != libc::SIG_IGN {
            return None;
        }
        let ours = current_action(signal)?;
        kernel_sigaction(signal, wish);
        Some((signal, ours))
    })
}

/// Ends what [`ignore_as_wished`] began.
pub fn handle_again(ignored: &Ignored) {
    for &(signal, ours) in ignored.iter().flatten() {
        kernel_sigaction(signal, ours);
    }
}

/// `sigaction` for a shared signal: keeps the program's wish and returns the one before.
pub fn exchange(signal: c_int, new: Option<Action>) -> Option<Action> {
    let wanted = wanted(signal)?;
    let before = wanted.load();
    if let Some(new) = new {
        wanted.store(new);
        if !is_for_samples(signal) {
            kernel_sigaction(signal, fault_action(new));
        }
    }
    Some(before)
}

/// `rt_sigaction` for a shared signal: as [`exchange`], for the kernel's own structure.
///
/// # Safety
/// `new` and `old` must be 0 or addresses of the kernel's `struct sigaction`.
pub unsafe fn exchange_raw(signal: c_int, new: u64, old: u64) -> std::ffi::c_long {
    let pointer =
        |address: u64| std::ptr::with_exposed_provenance_mut::<KernelAction>(address as usize);
    // SAFETY: null or valid, as the caller says.
    let wish = unsafe { pointer(new).as_ref() }.map(KernelAction::action);
    if let Some(before) = exchange(signal, wish)
        // SAFETY: as above.
        && let Some(old) = unsafe { pointer(old).as_mut() }
    {
        old.handler = before.handler;
        old.flags = before.flags as u64;
        old.mask = before.mask;
    }
    0
}

/// What a thread's mask must be when the program asks for `asked`, and what it will believe.
///
/// `how` is that of `sigprocmask`. Returns the set for the kernel.
pub fn translate_mask(how: c_int, asked: u64) -> u64 {
    let before = believed::get();
    match how {
        libc::SIG_BLOCK => believed::set(before | asked & our_set()),
        libc::SIG_UNBLOCK => believed::set(before & !(asked & our_set())),
        libc::SIG_SETMASK => believed::set(before & !our_set() | asked & our_set()),
        _ => {}
    }
    match how {
        libc::SIG_UNBLOCK => asked & !blocked_by_us(),
        libc::SIG_SETMASK => mask_of_context(asked),
        _ => asked & !our_set(),
    }
}

/// The mask for the kernel of a context with this one, which the calling thread is about to go on in.
///
/// What the thread believes stays as it is: where the context ends, the C library sets the mask of the next one by itself.
pub fn mask_of_context(asked: u64) -> u64 {
    asked & !our_set() | blocked_by_us()
}

/// The mask `set`, which the kernel returned, as the calling thread believes it.
pub fn add_believed(set: u64, believed: u64) -> u64 {
    set & !blocked_by_us() | believed & our_set()
}

/// Takes the samples that wait because the calling thread blocks their signals by ways that we do not see, such as the mask of a handler:
/// they would end a wait that lets all signals through. Returns the signals that are to be blocked again by [`block_again`].
pub fn take_pending_samples() -> u64 {
    let for_samples = our_set() & !FAULT_SIGNALS & !blocked_by_us();
    sys::sigmask(libc::SIG_UNBLOCK, for_samples) & for_samples
}

/// Ends what [`take_pending_samples`] began.
pub fn block_again(blocked: u64) {
    if blocked != 0 {
        sys::sigmask(libc::SIG_BLOCK, blocked);
    }
}

/// The signals that we block in the calling thread and that the program does not: the sample signal where it must not come; see
/// [`crate::lifecycle::restrictions`].
fn blocked_by_us() -> u64 {
    if calls::is_dispatched() {
        sys::bit(SAMPLE_SIGNAL)
    } else {
        0
    }
}

/// The set to wait for instead of `set`: our signal must not be consumed by the program.
pub fn without_sample_signal(set: &libc::sigset_t) -> libc::sigset_t {
    sigset(set_of(set) & !sys::bit(SAMPLE_SIGNAL))
}

/// As [`without_sample_signal`], for a thread that takes signals by waiting for them.
///
/// Where a thread waits for (nearly) everything, a SIGPROF that the program has a handler for is left
/// out as well. The kernel gives a process's
/// signal to a thread that has no other pending; next to ours, which come at the same ticks as an
/// `ITIMER_PROF`, that would often be the one that waits for everything.
pub fn to_wait_for(set: &libc::sigset_t) -> libc::sigset_t {
    let others = without_sample_signal(set);
    let profiling = sys::bit(libc::SIGPROF);
    let waits_for_everything = set_of(set).count_ones() > 16 && set_of(set) & profiling != 0;
    let handled = waits_for_everything
        && !state::is_confined()
        && current_action(libc::SIGPROF)
            .is_some_and(|action| ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.handler));
    if handled {
        sigset(set_of(&others) & !profiling)
    } else {
        others
    }
}

/// Whether this signal is meant for the program, to be told apart from leftovers of clocks that were
/// stopped: those must not end it.
pub fn is_meant_for_program(signal: c_int, code: c_int, sender: c_int) -> bool {
    match code {
        // A breakpoint of the program's own, or its own use of perf.
        perf::TRAP_PERF if signal == libc::SIGTRAP => {
            wanted(signal).is_some_and(|wanted| wanted.load().handler != libc::SIG_DFL)
        }
        _ if signal == libc::SIGTRAP && code > 0 => true,
        libc::SI_USER => sender != 0,
        libc::SI_TKILL | libc::SI_QUEUE => true,
        _ => false,
    }
}

/// Does with a sample signal that is not ours what the program wants.
///
/// # Safety
/// Within the sample handler, with its arguments.
///
/// # Signal safety
/// As safe as the program's own handler.
#[inline(never)]
pub unsafe extern "C" fn forward(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(wanted) = wanted(signal) else { return };
    let action = wanted.load();
    // SAFETY: the kernel passes a valid pointer.
    let raised_by_kernel = unsafe { (*info).si_code } > 0;
    if !raised_by_kernel && faults::hold_back(signal) {
        return;
    }
    match action.handler {
        libc::SIG_IGN if !raised_by_kernel => {}
        // SAFETY: the third argument of a handler with SA_SIGINFO.
        libc::SIG_DFL | libc::SIG_IGN => death::of_signal(signal, unsafe { &mut *context.cast() }),
        _ => {
            // SAFETY: the third argument of a handler with SA_SIGINFO.
            let before = unsafe { set_of(&(*context.cast::<libc::ucontext_t>()).uc_sigmask) };
            let itself = if action.flags & libc::SA_NODEFER != 0 || signal == libc::SIGTRAP {
                0
            } else {
                sys::bit(signal)
            };
            sys::sigmask(
                libc::SIG_SETMASK,
                before | action.mask & !our_set() | itself,
            );
            // SAFETY: passes the kernel's arguments on.
            unsafe { call(wanted, action, signal, info, context) };
        }
    }
}

/// Calls the program's handler.
///
/// # Safety
/// Within our handler, with its arguments.
unsafe fn call(
    wanted: &Wanted,
    action: Action,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    if action.flags & libc::SA_RESETHAND != 0 {
        wanted.handler.store(libc::SIG_DFL, Ordering::Release);
    }
    // SAFETY: the program registered a function at this address. A handler without SA_SIGINFO takes
    // one argument and ignores the others.
    unsafe {
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            std::mem::transmute(action.handler);
        handler(signal, info, context);
    }
}

/// The SIGSEGV and SIGBUS handler that the kernel calls.
///
/// # Safety
/// For the kernel alone.
///
/// # Signal safety
/// Mends guarded loads; everything else is as safe as the program's own handler.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers.
    let raised_by_kernel = unsafe { (*info).si_code } > 0;
    // SAFETY: as above.
    if raised_by_kernel && unsafe { guard::mend(context.cast()) } {
        counters::count(Counter::MendedFaults, 1);
        return;
    }
    if !raised_by_kernel && faults::hold_back(signal) {
        return;
    }
    let Some(wanted) = wanted(signal) else { return };
    let action = wanted.load();
    match action.handler {
        libc::SIG_IGN if !raised_by_kernel => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            calls::end_dispatch_for_good();
            // SAFETY: the third argument of a handler with SA_SIGINFO.
            let machine = unsafe { &mut *context.cast() };
            if raised_by_kernel {
                death::of_fault(signal, machine);
            } else {
                death::of_signal(signal, machine);
            }
        }
        // SAFETY: passes the kernel's arguments on.
        _ => unsafe { call(wanted, action, signal, info, context) },
    }
}
