//! The signals that the agent shares with the program: one for samples ([`SAMPLE_SIGNAL`]), SIGSEGV
//! and SIGBUS for guarded reads, and SIGTRAP where perf samples come by it ([`perf`]).
//!
//! The kernel knows our handlers only. What the program asks for these signals is kept here, told to
//! it when it asks, and done when a signal arrives that is not ours. Those of faults the program may block ([`faults`]); of those that bring
//! samples it believes so ([`program_mask`], [`believed`], [`held`]): none would come if it really did.

pub mod action;
mod again;
pub mod believed;
pub mod death;
pub mod faults;
pub mod held;
pub mod interrupted;
pub mod masks;
pub mod program_mask;
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
use crate::signals::again::Sent;
use crate::signals::sets::set_of;
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

/// Takes our handlers away again and leaves those that the program believes to have. Only when no sample is taken any more, and none of our
/// clocks runs: signals of theirs that wait somewhere are thrown away, for they would end the program.
pub fn uninstall() {
    let ignore = Action {
        handler: libc::SIG_IGN,
        flags: 0,
        mask: 0,
    };
    for &signal in ours() {
        let Some(wanted) = wanted(signal) else {
            continue;
        };
        if signal == SAMPLE_SIGNAL {
            // The kernel throws away what waits for any thread (POSIX, `sigaction`).
            kernel_sigaction(signal, ignore);
        }
        kernel_sigaction(signal, wanted.load());
    }
    INSTALLED.store(false, Ordering::Release);
}

/// Our handlers of signals that the program ignores.
pub type Ignored = [Option<(c_int, Action)>; SHARED.len()];

/// Has the kernel ignore what the program ignores, as a program that is executed inherits it. Returns our handlers.
///
/// A fault ends the process where its signal is ignored, a guarded read's as well. So no thread may read by guess meanwhile: the calling one does not,
/// and where there are others, those two signals stay ours, and the program that is executed has them at their default.
pub fn ignore_as_wished() -> Ignored {
    let is_wished = |signal| {
        is_shared(signal)
            && wanted(signal).is_some_and(|wanted| wanted.load().handler == libc::SIG_IGN)
    };
    let is_of_faults = |signal| [libc::SIGSEGV, libc::SIGBUS].contains(&signal);
    // A child after vfork has dispositions of its own. A confined process may not ask which of the two it is.
    let is_confined = state::is_confined();
    let is_shared_by_threads = state::is_own_process();
    let ignores_faults = SHARED
        .iter()
        .any(|&signal| is_of_faults(signal) && is_wished(signal));
    let mut may_ignore_faults = !is_confined;
    if ignores_faults && is_shared_by_threads && !is_confined {
        let mut threads = 0;
        may_ignore_faults = sys::for_each_thread(|_| threads += 1) && threads == 1;
        faults::set_guarded(!may_ignore_faults);
    }
    SHARED.map(|signal| {
        if !is_wished(signal) || is_of_faults(signal) && !may_ignore_faults {
            return None;
        }
        let ours = current_action(signal)?;
        kernel_sigaction(signal, wanted(signal)?.load());
        Some((signal, ours))
    })
}

/// Ends what [`ignore_as_wished`] began.
pub fn handle_again(ignored: &Ignored) {
    for &(signal, ours) in ignored.iter().flatten() {
        kernel_sigaction(signal, ours);
    }
    if state::is_own_process() && !state::is_confined() {
        faults::set_guarded(true);
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

/// The same for a signal that a wait has taken.
pub fn is_of_program(info: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller's own object, which the kernel has filled in.
    let [signal, _, code, _, sender] = unsafe { info.cast::<[c_int; 5]>().read() };
    is_meant_for_program(signal, code, sender)
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
    // SAFETY: the kernel passes valid pointers.
    let (sent, machine) = unsafe { (Sent::new(info), &mut *context.cast::<libc::ucontext_t>()) };
    let before = set_of(&machine.uc_sigmask);
    let is_early = held::is_early(signal, before);
    held::has_come(signal, machine);
    if is_early && sent.is_sent() && held::hold_back(sent, signal, machine) {
        return;
    }
    match action.handler {
        // The kernel ends a process that blocks the signal of a breakpoint.
        _ if is_early && sent.is_breakpoint() => death::of_signal(signal, machine),
        libc::SIG_IGN if sent.is_sent() => {}
        libc::SIG_DFL | libc::SIG_IGN => death::of_signal(signal, machine),
        _ => {
            let itself = if action.flags & libc::SA_NODEFER != 0 || signal == libc::SIGTRAP {
                0
            } else {
                sys::bit(signal)
            };
            sys::sigmask(
                libc::SIG_SETMASK,
                before | action.mask & !program_mask::of_samples() | itself,
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
    // SAFETY: as above; the third argument of a handler with SA_SIGINFO.
    let (sent, machine) = unsafe { (Sent::new(info), &mut *context.cast::<libc::ucontext_t>()) };
    if faults::hold_back(sent, signal, machine) {
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
        _ => {
            let itself = match action.flags & libc::SA_NODEFER {
                0 => sys::bit(signal),
                _ => 0,
            };
            let before = set_of(&machine.uc_sigmask);
            // The kernel has blocked these. A jump out of the handler leaves more noted than is blocked, which costs a system call.
            faults::note(before | faults::opened() | action.mask | itself);
            // SAFETY: passes the kernel's arguments on.
            unsafe { call(wanted, action, signal, info, context) };
            faults::note(before | faults::opened());
        }
    }
}
