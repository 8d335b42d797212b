//! A stack that is filled with addresses of numbered functions, to find out which of its words HIP calls.
//!
//! A HIP that was compiled without stack protectors lets other variables of the same function share the record's memory before we are
//! asked, so words of the record may be touched: mostly the first. What lies among the arguments does not matter, for HIP calls none of it.
//! Behind them single touched words are passed over; two in a row are the end of what is free. Of versions that were looked at
//! the place is known, and its two words are made ours in any case.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::sources::gpu::hip::calibrate::Layout;
use crate::sources::gpu::hip_functions;

/// Numbered functions; their numbers repeat on the stack at this distance in words.
const NUMBERED: usize = 1024;
/// Bytes between two of them.
const STRIDE: usize = 16;
/// Words of the stack that are filled: deeper than any record lies below the call.
const FILLED: usize = 4096;

/// Byte offset of the function that HIP calls first where that is known of the version, else 0.
static KNOWN: AtomicUsize = AtomicUsize::new(0);
/// Below this offset there are arguments in any case.
static LEAST: AtomicUsize = AtomicUsize::new(0);
/// Of the one call: the record, how far it was free, and the numbers that HIP called.
static RECORD: AtomicUsize = AtomicUsize::new(0);
static FREE_BYTES: AtomicUsize = AtomicUsize::new(0);
static CALLED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static IS_TRYING: AtomicU32 = AtomicU32::new(0);

/// Measures the layout of HIP's record, where `known` is what is known of this version; the functions are not below `least` bytes in any case.
/// On a thread of ours.
pub fn measure(known: Option<Layout>, least: usize) -> Option<Layout> {
    KNOWN.store(known.map_or(0, |known| known.enter), Ordering::Relaxed);
    LEAST.store(least, Ordering::Relaxed);
    // The first call of a thread does more than the others.
    call_once();
    fill_stack();
    IS_TRYING.store(1, Ordering::Relaxed);
    call_once();
    IS_TRYING.store(0, Ordering::Relaxed);
    let [enter, exit] = [&CALLED[0], &CALLED[1]].map(|called| {
        let number = called.load(Ordering::Relaxed).checked_sub(1)? as usize;
        let record = RECORD.load(Ordering::Relaxed) / 8 % NUMBERED;
        Some(number.wrapping_sub(record) % NUMBERED * 8)
    });
    let found = Layout {
        enter: enter?,
        exit: exit?,
    };
    let is_free = found.exit + 8 <= FREE_BYTES.load(Ordering::Relaxed);
    (found.exit == found.enter + 8 && (is_free || Some(found) == known)).then_some(found)
}

#[inline(never)]
fn call_once() {
    let mut version: c_int = 0;
    if let Some(get) = hip_functions::driver_version::get() {
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
        // SAFETY: within the array. Volatile, because it is not read here.
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
    let word = |offset: usize| data.wrapping_byte_add(offset).cast::<u64>();
    let is_free = |offset: usize| {
        // SAFETY: above the record are the frames of the call and of this thread's functions.
        unsafe { word(offset).read_volatile() == numbered(word(offset).addr()) }
    };
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        for place in [word(known), word(known + 8)] {
            // SAFETY: the record of this version reaches that far.
            unsafe { place.write_volatile(numbered(place.addr())) };
        }
    }
    let least = LEAST.load(Ordering::Relaxed);
    let free = (least..NUMBERED * 8)
        .step_by(8)
        .find(|offset| !is_free(*offset) && !is_free(offset + 8))
        .unwrap_or(least);
    // HIP calls what lies at its place, most probably the least.
    let is_plausible = free >= least + 16 && is_free(least) && is_free(least + 8);
    if known == 0 && !is_plausible {
        return SKIPPED;
    }
    RECORD.store(data.addr(), Ordering::Relaxed);
    FREE_BYTES.store(free, Ordering::Relaxed);
    // SAFETY: the first word of every record is the correlation id.
    unsafe { data.cast::<u64>().write(0) };
    0
}

/// HIP has called the function with a number.
extern "C" fn note_number(_op: u32, _data: *const c_void, number: u32) {
    let place = &CALLED[usize::from(CALLED[0].load(Ordering::Relaxed) != 0)];
    place.store(u64::from(number) + 1, Ordering::Relaxed);
}

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

unsafe extern "C" {
    #[link_name = "rsys_numbered_functions"]
    static NUMBERED_FUNCTIONS: [u8; NUMBERED * STRIDE];
}
