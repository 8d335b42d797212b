//! Walks of this process's own stacks, compared with libgcc's unwinder, from ordinary code and from signal handlers.

#[path = "common/machine.rs"]
mod machine;

mod common;

use std::ffi::c_void;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{mem, ptr};

use machine::{capture, without_tables};

use common::{DirectMemory, OwnMemory, OwnModules, cache, pc, show};
use rsys_unwind::{CfiEngine, EXACT, End, Engine, FrameBuffer, Registers, RuleCache};

const DEPTH: usize = 256;

// ---- What libgcc says ----

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIPInfo(context: *mut c_void, before: *mut i32) -> usize;
}

extern "C" fn collect(context: *mut c_void, argument: *mut c_void) -> i32 {
    let mut before = 0;
    // SAFETY: libgcc calls this with its context, and the argument is the vector that `libgcc_stack` passes.
    unsafe {
        let ip = _Unwind_GetIPInfo(context, &mut before) as u64;
        let frames = &mut *argument.cast::<Vec<u64>>();
        if ip != 0 {
            frames.push(ip | if before != 0 { EXACT } else { 0 });
        }
    }
    0
}

#[inline(never)]
fn libgcc_stack() -> Vec<u64> {
    let mut frames = Vec::with_capacity(DEPTH);
    // SAFETY: the callback gets the vector for the duration of the call.
    unsafe { _Unwind_Backtrace(collect, ptr::from_mut(&mut frames).cast()) };
    frames
}

// ---- Registers of here ----

macro_rules! registers_here {
    () => {{
        let mut words = [0; 16];
        capture(&mut words);
        machine::registers(&words)
    }};
}

fn walk(engine: &mut impl Engine, registers: &Registers) -> (Vec<u64>, End) {
    let mut words = [0; DEPTH];
    let mut frames = FrameBuffer::new(&mut words);
    let end = engine.walk(registers, &OwnMemory, &OwnModules, &mut frames);
    (frames.words().to_vec(), end)
}

/// Asserts that the walk from `registers` has the frames of `libgcc` from the caller of the code at `registers` on.
fn assert_same_callers(what: &str, registers: &Registers, libgcc: &[u64]) {
    let mut cached = CfiEngine::new(cache(1024));
    for round in ["cold", "warm"] {
        let (frames, end) = walk(&mut cached, registers);
        assert_eq!(end, End::Root, "{what} {round}: {}", show(&frames));
        let callers = &frames[1..];
        let at = libgcc
            .len()
            .checked_sub(callers.len())
            .unwrap_or_else(|| panic!("{what}: {} against {}", show(&frames), show(libgcc)));
        assert_eq!(
            callers.iter().map(|word| pc(*word)).collect::<Vec<_>>(),
            libgcc[at..]
                .iter()
                .map(|word| pc(*word))
                .collect::<Vec<_>>(),
            "{what} {round}"
        );
        assert!(
            (1..=3).contains(&at),
            "{what}: {at} frames of libgcc before"
        );
        assert!(callers.len() >= 3);
    }
    let (uncached, _) = walk(&mut CfiEngine::without_cache(), registers);
    assert_eq!(uncached, walk(&mut cached, registers).0);
}

#[inline(never)]
fn compare_here(what: &str) {
    let libgcc = libgcc_stack();
    let registers = registers_here!();
    // This function's own frame is in both, at different instructions.
    assert_same_callers(what, &registers, &libgcc);
}

// ---- Ordinary code ----

#[inline(never)]
fn recurse(depth: u32) -> u32 {
    if depth == 0 {
        compare_here("recursion");
        return 0;
    }
    black_box(recurse(depth - 1)) + 1
}

#[test]
fn deep_recursion_agrees_with_libgcc() {
    for depth in [0, 1, 10, 100] {
        assert_eq!(recurse(black_box(depth)), depth);
    }
}

extern "C" fn compare_in_qsort(a: *const c_void, b: *const c_void) -> i32 {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    if CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(16) {
        compare_here("qsort");
    }
    // SAFETY: qsort passes pointers to two of the numbers.
    unsafe { *a.cast::<i32>() - *b.cast::<i32>() }
}

#[test]
fn a_callback_of_libc_agrees_with_libgcc() {
    let mut numbers: Vec<i32> = (0..64).map(|n| n * 7919 % 101).collect();
    // SAFETY: the array has 64 numbers of four bytes.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 64, 4, Some(compare_in_qsort)) };
    assert!(numbers.is_sorted());
}

#[test]
fn every_length_of_buffer_holds_the_first_frames() {
    let registers = registers_here!();
    let (all, end) = walk(&mut CfiEngine::without_cache(), &registers);
    assert_eq!(end, End::Root);
    for length in 0..all.len() {
        let mut words = vec![0; length];
        let mut frames = FrameBuffer::new(&mut words);
        let end = CfiEngine::without_cache().walk(&registers, &OwnMemory, &OwnModules, &mut frames);
        assert_eq!(end, End::Truncated);
        assert_eq!(frames.words(), &all[..length]);
    }
}

// ---- Signal handlers ----

/// Frames of the last handler's walk, which starts at the interrupted code, and libgcc's stack in the handler.
static RECORD: Mutex<Vec<(Vec<u64>, End)>> = Mutex::new(Vec::new());
/// How many there are: the list cannot be asked where a signal may come.
static RECORDED: AtomicU64 = AtomicU64::new(0);
static SERIAL: Mutex<()> = Mutex::new(());
static HANDLER_CACHE: OnceLock<RuleCache<'static>> = OnceLock::new();

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a ucontext_t to a handler with SA_SIGINFO.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let registers = machine::interrupted(context);
    // The signals of these tests interrupt system calls and loops that hold no lock and allocate nothing.
    let mut engine = CfiEngine::new(*HANDLER_CACHE.get().unwrap());
    let walked = walk(&mut engine, &registers);
    // From within the handler, through the signal frame.
    let here = registers_here!();
    let (through, end) = walk(&mut engine, &here);
    assert_eq!(end, End::Root, "{}", show(&through));
    assert!(
        through.ends_with(&walked.0),
        "through the signal frame:\n{}\n{}",
        show(&through),
        show(&walked.0)
    );
    let trampoline = through[through.len() - walked.0.len() - 1];
    assert_ne!(
        trampoline & EXACT,
        0,
        "the trampoline is symbolised as it is"
    );
    RECORD.lock().unwrap().push(walked);
    RECORDED.fetch_add(1, Ordering::Relaxed);
}

fn install(signal: i32, flags: i32) {
    HANDLER_CACHE.get_or_init(|| cache(4096));
    // SAFETY: a zeroed sigaction is a valid one; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | flags;
        assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
    }
}

/// The frames of `function`'s caller upwards, when called through `raise` or the like.
fn recorded(run: impl FnOnce()) -> Vec<(Vec<u64>, End)> {
    let _serial = SERIAL
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    RECORD.lock().unwrap().clear();
    RECORDED.store(0, Ordering::Relaxed);
    run();
    mem::take(&mut *RECORD.lock().unwrap())
}

#[inline(never)]
fn raise_and_compare(signal: i32) {
    // SAFETY: the handler of the signal is installed.
    unsafe { libc::raise(signal) };
    let libgcc = libgcc_stack();
    let (frames, end) = RECORD.lock().unwrap().last().cloned().unwrap();
    assert_eq!(end, End::Root);
    // Our caller and everything above it is the same as when the signal came.
    let callers = &libgcc[2..];
    assert!(
        frames.ends_with(callers),
        "{}\n{}",
        show(&frames),
        show(&libgcc)
    );
    assert!(frames.len() > callers.len() + 1);
}

#[test]
fn a_signal_in_raise_is_walked_through() {
    install(libc::SIGUSR1, 0);
    let stacks = recorded(|| raise_and_compare(libc::SIGUSR1));
    assert_eq!(stacks.len(), 1);
}

#[test]
fn a_handler_on_another_stack_is_walked_through() {
    install(libc::SIGUSR2, libc::SA_ONSTACK);
    let mut stack = vec![0_u8; 256 << 10];
    let stacks = recorded(|| {
        // SAFETY: the stack outlives its use, which the second call ends.
        unsafe {
            let mut new: libc::stack_t = mem::zeroed();
            let mut old: libc::stack_t = mem::zeroed();
            new.ss_sp = stack.as_mut_ptr().cast();
            new.ss_size = stack.len();
            assert_eq!(libc::sigaltstack(&new, &mut old), 0);
            raise_and_compare(libc::SIGUSR2);
            assert_eq!(libc::sigaltstack(&old, ptr::null_mut()), 0);
        }
    });
    assert_eq!(stacks.len(), 1);
}

#[test]
fn interrupts_in_the_vdso_and_anywhere_reach_the_root() {
    install(libc::SIGALRM, 0);
    let stacks = recorded(|| {
        // SAFETY: an interval timer of this process, armed and disarmed here.
        unsafe {
            let mut timer: libc::itimerspec = mem::zeroed();
            timer.it_interval.tv_nsec = 5_000_000;
            timer.it_value.tv_nsec = 5_000_000;
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = libc::gettid();
            let mut id = ptr::null_mut();
            assert_eq!(
                libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut id),
                0
            );
            assert_eq!(libc::timer_settime(id, 0, &timer, ptr::null_mut()), 0);
            let mut now: libc::timespec = mem::zeroed();
            let mut sum = 0;
            while RECORDED.load(Ordering::Relaxed) < 20 {
                for _ in 0..1000 {
                    libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
                    sum += now.tv_nsec & 1;
                }
            }
            black_box(sum);
            assert_eq!(libc::timer_delete(id), 0);
        }
    });
    for (frames, end) in &stacks {
        assert_eq!(*end, End::Root, "{}", show(frames));
    }
}

// ---- Code without call frame information ----

static GUESSED: AtomicU64 = AtomicU64::new(0);

extern "C" fn walk_through_a_guess() {
    let registers = registers_here!();
    let libgcc = libgcc_stack();
    let (frames, end) = walk(&mut CfiEngine::new(cache(64)), &registers);
    assert_eq!(end, End::Root, "{}", show(&frames));
    assert!(
        frames.len() > libgcc.len(),
        "libgcc stops where the tables do"
    );
    let guessed = frames
        .iter()
        .filter(|word| *word & rsys_unwind::SCANNED != 0)
        .count();
    GUESSED.store(guessed as u64, Ordering::Relaxed);
}

#[test]
fn code_without_tables_is_crossed_by_scanning_and_marked() {
    without_tables(walk_through_a_guess);
    assert_eq!(GUESSED.load(Ordering::Relaxed), 1);
}

#[test]
fn a_call_of_a_null_pointer_leads_to_its_caller() {
    let here = registers_here!();
    // As after `call` with a null pointer: the return address is on the stack, the program counter is 0.
    let mut stack = [here.pc(), 0, 0, 0];
    let mut registers = here;
    registers.set(rsys_unwind::register::RIP, 0);
    registers.set(rsys_unwind::register::RSP, stack.as_mut_ptr().addr() as u64);
    let (frames, _) = walk(&mut CfiEngine::without_cache(), &registers);
    assert_eq!(frames[..2], [EXACT, here.pc()]);
}

#[test]
fn garbage_registers_end_as_broken() {
    for sp in [0, 8, 0x1000, u64::MAX, u64::MAX - 7, 1 << 63] {
        for pc in [0, 1, 0x1234, u64::MAX] {
            let registers = Registers::new(pc, sp, sp);
            let (frames, end) = walk(&mut CfiEngine::without_cache(), &registers);
            assert_eq!(frames.len(), 1);
            assert!(matches!(end, End::Broken(_)), "{end:?}");
        }
    }
}

// ---- The other engines ----

/// The modules of this process, as if none had an `.eh_frame_hdr`.
#[cfg(feature = "framehop")]
struct WithoutHeaders(Vec<rsys_unwind::FramehopModule>);

#[cfg(feature = "framehop")]
impl rsys_unwind::Modules for WithoutHeaders {
    fn find(&self, pc: u64) -> Option<rsys_unwind::ModuleTables> {
        let module = self.0.iter().find(|module| module.range.contains(&pc))?;
        Some(rsys_unwind::ModuleTables {
            range: module.range.clone(),
            eh_frame_hdr: 0,
            eh_frame: module.eh_frame_address,
        })
    }

    fn generation(&self) -> u32 {
        1
    }
}

#[inline(never)]
fn engines_agree(depth: u32) -> u32 {
    if depth > 0 {
        return black_box(engines_agree(depth - 1)) + 1;
    }
    let registers = registers_here!();
    let ours = walk(&mut CfiEngine::without_cache(), &registers);
    let mut direct = [0; DEPTH];
    let mut frames = FrameBuffer::new(&mut direct);
    let end = CfiEngine::without_cache().walk(&registers, &DirectMemory, &OwnModules, &mut frames);
    assert_eq!(ours, (frames.words().to_vec(), end));
    #[cfg(feature = "framehop")]
    {
        let mut framehop = rsys_unwind::FramehopEngine::new(common::framehop_modules());
        let theirs = walk(&mut framehop, &registers);
        assert_eq!(theirs, ours);

        // Without the sorted table, .eh_frame is searched entry by entry.
        let mut linear = [0; DEPTH];
        let mut frames = FrameBuffer::new(&mut linear);
        let modules = WithoutHeaders(common::framehop_modules());
        let end = CfiEngine::new(cache(64)).walk(&registers, &DirectMemory, &modules, &mut frames);
        assert_eq!(ours, (frames.words().to_vec(), end));
    }
    0
}

#[test]
fn framehop_finds_the_same_ordinary_frames() {
    assert_eq!(engines_agree(black_box(20)), 20);
}
