//! Where HIP's record of a call has the two functions that HIP calls before and after it.
//!
//! That depends on the size of the arguments of HIP's largest call, and so on its version. HIP's record lies uninitialised on the
//! stack when we are asked about a call. So on a thread of our own the stack is filled with addresses of numbered functions, one call is
//! made, and HIP itself calls the function that happens to lie where it takes its own from: the number tells the place.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::library;
use crate::events;
use crate::gpu::devices;
use crate::gpu::helper::Work;
use crate::gpu::text::Text;
use crate::sys;

/// Numbered functions; their numbers repeat on the stack at this distance in words.
const NUMBERED: usize = 1024;
/// Bytes between two of them.
const STRIDE: usize = 16;
/// Words of the stack that are filled: deeper than any record lies below the call.
const FILLED: usize = 4096;
/// What every record has at least.
const LEAST_RECORD: usize = 512;
/// How long a first call waits for the answer.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Where the two functions are, as byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Called before the call, with its arguments.
    pub enter: usize,
    /// Called after it.
    pub exit: usize,
}

const UNKNOWN: u32 = 0;
const UNDER_WAY: u32 = 1;
const FOUND: u32 = 2;
const FAILED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static ENTER: AtomicUsize = AtomicUsize::new(0);
static EXIT: AtomicUsize = AtomicUsize::new(0);
static WORK: Work = Work::new(work);

/// Of the one call: the record, how far it was filled, and the numbers that HIP called.
static RECORD: AtomicUsize = AtomicUsize::new(0);
static FILLED_BYTES: AtomicUsize = AtomicUsize::new(0);
static CALLED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static IS_TRYING: AtomicU32 = AtomicU32::new(0);

/// The layout. The first who asks, by a first call, waits until it was found; `None` when it cannot be.
#[inline]
pub fn layout() -> Option<Layout> {
    if STATE.load(Ordering::Acquire) != FOUND && !find() {
        return None;
    }
    Some(Layout {
        enter: ENTER.load(Ordering::Relaxed),
        exit: EXIT.load(Ordering::Relaxed),
    })
}

#[cold]
fn find() -> bool {
    let first = STATE
        .compare_exchange(UNKNOWN, UNDER_WAY, Ordering::AcqRel, Ordering::Acquire)
        .is_ok();
    if first && !WORK.begin() {
        STATE.store(FAILED, Ordering::Release);
    }
    if STATE.load(Ordering::Acquire) == UNDER_WAY
        && !WORK.wait_until(sys::boottime_ns().saturating_add(PATIENCE_NS))
    {
        STATE.store(FAILED, Ordering::Release);
    }
    STATE.load(Ordering::Acquire) == FOUND
}

fn work() {
    let version = library::ask_version();
    let found = measure();
    let mut buffer = [0_u8; 128];
    let mut note = Text::new(&mut buffer);
    if let Some(layout) = found {
        ENTER.store(layout.enter, Ordering::Relaxed);
        EXIT.store(layout.exit, Ordering::Relaxed);
        note.put(b"measured: functions at ");
        note.number(layout.enter as u64);
        note.put(b" and ");
        note.number(layout.exit as u64);
        note.put(match expected(version) {
            Some(expected) if expected == layout => b", as expected of this version" as &[u8],
            Some(_) => b", not as expected of this version",
            None => b"; nothing was known of this version",
        });
    } else {
        note.put(b"failed: HIP's calls are not recorded, its GPU operations have no calls");
    }
    events::fact(b"hip calibration", note.bytes());
    devices::tell_of_hip(version);
    let state = if found.is_some() { FOUND } else { FAILED };
    // Unless whoever waited has given up.
    if STATE
        .compare_exchange(UNDER_WAY, state, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        events::fact(b"hip calibration", b"came too late");
    }
}

/// What was found for versions that were looked at before.
fn expected(version: u32) -> Option<Layout> {
    let enter = match version / 100_000 {
        503..=507 => 856,
        604 => 1536,
        _ => return None,
    };
    Some(Layout {
        enter,
        exit: enter + 8,
    })
}

fn measure() -> Option<Layout> {
    // The first call of a thread does more than the others.
    call_once();
    fill_stack();
    IS_TRYING.store(1, Ordering::Relaxed);
    call_once();
    IS_TRYING.store(0, Ordering::Relaxed);
    let filled = FILLED_BYTES.load(Ordering::Relaxed);
    let [enter, exit] = [&CALLED[0], &CALLED[1]].map(|called| {
        let number = called.load(Ordering::Relaxed).checked_sub(1)? as usize;
        let record = RECORD.load(Ordering::Relaxed) / 8 % NUMBERED;
        Some(number.wrapping_sub(record) % NUMBERED * 8)
    });
    let (enter, exit) = (enter?, exit?);
    (exit == enter + 8 && exit + 8 <= filled).then_some(Layout { enter, exit })
}

#[inline(never)]
fn call_once() {
    let mut version: c_int = 0;
    if let Some(get) = library::driver_version::get() {
        // SAFETY: a valid place.
        unsafe { get(&raw mut version) };
    }
    std::hint::black_box(version);
}

/// What a word of the stack is filled with: the address of the function that has the word's number.
fn numbered(address: usize) -> u64 {
    let number = address / 8 % NUMBERED;
    ((&raw const NUMBERED_FUNCTIONS).addr() + number * STRIDE) as u64
}

#[inline(never)]
fn fill_stack() {
    let mut words = [std::mem::MaybeUninit::<u64>::uninit(); FILLED];
    for word in &mut words {
        let value = numbered((&raw const *word).addr());
        // SAFETY: within the array. Volatile, because nobody reads it here.
        unsafe { word.as_mut_ptr().write_volatile(value) };
    }
    std::hint::black_box(&mut words);
}

/// HIP asks about a call of the helper's.
///
/// # Safety
/// As HIP calls it, on the helper's thread.
pub unsafe fn on_call(data: *mut c_void) -> c_int {
    const SKIPPED: c_int = 1;
    if IS_TRYING.load(Ordering::Relaxed) == 0 {
        return SKIPPED;
    }
    let base = data.cast::<u64>();
    let filled = (0..NUMBERED)
        .take_while(|at| {
            let word = base.wrapping_add(*at);
            // SAFETY: above the record are the frames of the call and of this thread's functions.
            unsafe { word.read_volatile() == numbered(word.addr()) }
        })
        .count()
        * 8;
    if filled < LEAST_RECORD {
        return SKIPPED;
    }
    RECORD.store(base.addr(), Ordering::Relaxed);
    FILLED_BYTES.store(filled, Ordering::Relaxed);
    // SAFETY: the first word of every record is the correlation id.
    unsafe { base.write(0) };
    0
}

/// HIP has called the function with a number.
extern "C" fn note_number(_op: u32, _data: *const c_void, number: u32) {
    let place = &CALLED[usize::from(CALLED[0].load(Ordering::Relaxed) != 0)];
    place.store(u64::from(number) + 1, Ordering::Relaxed);
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.rsys_numbered, \"ax\", @progbits",
    ".balign 16",
    ".globl rsys_numbered_functions",
    ".hidden rsys_numbered_functions",
    "rsys_numbered_functions:",
    ".set rsys_number, 0",
    ".rept 1024",
    "mov edx, offset rsys_number",
    "jmp {note}",
    ".balign 16",
    ".set rsys_number, rsys_number + 1",
    ".endr",
    ".popsection",
    note = sym note_number,
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.rsys_numbered, \"ax\", @progbits",
    ".balign 16",
    ".globl rsys_numbered_functions",
    ".hidden rsys_numbered_functions",
    "rsys_numbered_functions:",
    ".set rsys_number, 0",
    ".rept 1024",
    "mov w2, #rsys_number",
    "b {note}",
    ".balign 16",
    ".set rsys_number, rsys_number + 1",
    ".endr",
    ".popsection",
    note = sym note_number,
);

unsafe extern "C" {
    #[link_name = "rsys_numbered_functions"]
    static NUMBERED_FUNCTIONS: [u8; NUMBERED * STRIDE];
}
