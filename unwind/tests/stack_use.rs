//! How much stack a walk takes: the limits that the crate promises, and those that callers with little room rely on.

mod common;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "common/machine.rs"]
mod machine;

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{OwnMemory, OwnModules, cache, framehop_modules};
use machine::capture;
use rsys_unwind::{CfiEngine, Engine, FRAMEHOP_STACK_BYTES, FrameBuffer, FramehopEngine};

/// The stack below a caller that is looked at, and what lies between it and the painter's own frame.
const PAINTED_WORDS: usize = 8192;
const COLOUR: u64 = 0x5a5a_1234_8765_a5a5;

#[inline(never)]
fn paint() {
    let words = black_box([COLOUR; PAINTED_WORDS]);
    black_box(&words);
}

/// The lowest word below `top` that lost its colour since [`paint`], in bytes from `top`.
#[inline(never)]
fn used(top: u64) -> u64 {
    let word = |at: u64| {
        // SAFETY: this thread's own stack, which `paint` has used down to there.
        unsafe { std::ptr::with_exposed_provenance::<u64>(at as usize).read_volatile() }
    };
    let lowest = top - 8 * PAINTED_WORDS as u64 + 4096;
    let mut words = (lowest..top).step_by(8);
    let first = words.find(|at| word(*at) != COLOUR).unwrap_or(top);
    top - first
}

/// What one walk from here takes, with a reader of memory that makes a system call of its own.
#[inline(never)]
fn taken_by(engine: &mut impl Engine) -> u64 {
    let mut words = [0; 256];
    let mut registers = [0; 16];
    capture(&mut registers);
    let registers = machine::registers(&registers);
    let mut frames = FrameBuffer::new(&mut words);
    paint();
    black_box(engine.walk(&registers, &OwnMemory, &OwnModules, &mut frames));
    assert!(frames.len() > 5);
    used(registers.sp() & !7)
}

static TAKEN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Called by the C library, whose code was compiled by GCC: its tables keep rows aside, which costs framehop the most.
extern "C" fn compare(_: *const c_void, _: *const c_void) -> c_int {
    let [ours, framehop] = &TAKEN;
    ours.store(
        taken_by(&mut CfiEngine::new(cache(1024))),
        Ordering::Relaxed,
    );
    framehop.store(
        taken_by(&mut FramehopEngine::new(framehop_modules())),
        Ordering::Relaxed,
    );
    0
}

#[test]
fn walks_take_no_more_stack_than_is_promised() {
    let mut words = [0_u64; 4];
    // SAFETY: four elements of eight bytes.
    unsafe { libc::qsort(words.as_mut_ptr().cast(), 4, 8, Some(compare)) };
    let [ours, framehop] = TAKEN.each_ref().map(|taken| taken.load(Ordering::Relaxed));
    println!("cfi takes {ours} bytes, framehop {framehop}");
    assert!(ours > 0 && ours <= 2560, "{ours}");
    assert!(framehop <= FRAMEHOP_STACK_BYTES as u64, "{framehop}");
    // A limit far above the truth would leave small stacks alone for nothing.
    assert!(framehop * 2 > FRAMEHOP_STACK_BYTES as u64, "{framehop}");
}
