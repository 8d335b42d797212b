//! The shapes of an operator's inputs, read from PyTorch's own objects.
//!
//! Where the list of inputs is within `at::RecordFunction` follows from its fields, which are the same from 1.12 to 2.15; that it is there, PyTorch confirms by the
//! number of inputs each time. Where a tensor has its sizes is different in each version and found out: they stand in front of the number of
//! elements, which is their product. Until one place has fitted several tensors, and no other place half as many, no shapes are recorded. All is read with guarded loads.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::interpose::symbols;
use crate::signals::faults;
use crate::sys::guard::{read_u32, read_u64};
use crate::sys::text::Text;

/// Bytes of the text with all shapes; what does not fit is left out.
pub const ROOM: usize = 240;

/// Where the inputs are in `at::RecordFunction`: behind the table of virtual functions (8), the functions to call (96), a flag (8), the contexts of
/// observers (48), the name or schema (40), and a number (8).
const INPUTS: u64 = 208;
/// `c10::IValue`: a value and its kind, which is 1 for tensors.
const INPUT_BYTES: u64 = 16;
const TENSOR: u32 = 1;
/// `c10::impl::SizesAndStrides`: the number of dimensions, then the sizes and strides of up to five, or where they are.
const MOST_INLINE: u64 = 5;
const MOST_DIMENSIONS: u64 = 64;
/// Behind them the offset in memory, and behind that the number of elements.
const ELEMENTS_BEHIND: u64 = 8 + 2 * MOST_INLINE * 8 + 8;
/// Places in `c10::TensorImpl` where they may be.
const FIRST_PLACE: u64 = 32;
const PLACES: usize = 20;
/// Tensors that must have fitted.
const ENOUGH: u32 = 6;

static NUM_INPUTS: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// What stands for a tensor that is not there.
static UNDEFINED: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// How many tensors each place has fitted.
static FITTED: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
/// The place, when it is known; 0 before.
static PLACE: AtomicU64 = AtomicU64::new(0);

/// Finds what is needed beside this function. Returns whether it is there.
pub fn begin(function: *const ()) -> bool {
    let found = symbols::beside(function, c"_ZNK2at14RecordFunction10num_inputsEv");
    NUM_INPUTS.store(found, Ordering::Release);
    let undefined = symbols::behind(c"_ZN3c1019UndefinedTensorImpl10_singletonE");
    UNDEFINED.store(undefined, Ordering::Relaxed);
    !found.is_null()
}

/// The shapes of an operator's tensors, as `[64, 3] [3]`; empty where there are none, or they are not wanted or not known.
pub fn of(operator: *const c_void, room: &mut [u8; ROOM]) -> &[u8] {
    let count = NUM_INPUTS.load(Ordering::Acquire);
    // SAFETY: the function of this name; null is None.
    let count = unsafe {
        std::mem::transmute::<*mut (), Option<unsafe extern "C" fn(*const c_void) -> usize>>(count)
    };
    let Some(count) = count else {
        return &[];
    };
    // SAFETY: an operator that begins.
    let count = unsafe { count(operator) } as u64;
    // Where things are is guessed.
    faults::while_open(|| of_inputs(operator, count, room)).unwrap_or(&[])
}

fn of_inputs(operator: *const c_void, count: u64, room: &mut [u8; ROOM]) -> &[u8] {
    let at = (operator.addr() as u64).wrapping_add(INPUTS);
    let (inputs, length) = (read_u64(at), read_u64(at.wrapping_add(8)));
    let Some(inputs) = inputs.filter(|inputs| *inputs != 0 && length == Some(count)) else {
        return &[];
    };
    let undefined = UNDEFINED.load(Ordering::Relaxed).addr() as u64;
    let is_there = |tensor: &u64| *tensor != 0 && *tensor != undefined;
    let mut text = Text::new(room);
    for number in 0..count.min(32) {
        let input = inputs.wrapping_add(number.wrapping_mul(INPUT_BYTES));
        if read_u32(input.wrapping_add(8)) != Some(TENSOR) {
            continue;
        }
        let Some(tensor) = read_u64(input).filter(is_there) else {
            continue;
        };
        match PLACE.load(Ordering::Relaxed) {
            0 => learn(tensor),
            place => put(&mut text, tensor, place),
        }
    }
    text.into_bytes()
}

/// The sizes at a place, if they can be sizes: how many there are, and where.
fn sizes(tensor: u64, place: u64) -> Option<(u64, u64)> {
    let at = tensor.wrapping_add(place);
    let dimensions = read_u64(at)?;
    if dimensions > MOST_DIMENSIONS {
        return None;
    }
    let inline = at.wrapping_add(8);
    let sizes = match dimensions {
        0..=MOST_INLINE => inline,
        _ => read_u64(inline)?,
    };
    Some((dimensions, sizes))
}

/// Counts the places that fit a tensor. Only one with two dimensions or more, and more than one element, says anything.
fn learn(tensor: u64) {
    for (number, fitted) in FITTED.iter().enumerate() {
        let place = FIRST_PLACE.wrapping_add((number as u64).wrapping_mul(8));
        if fits(tensor, place) && fitted.fetch_add(1, Ordering::Relaxed) >= ENOUGH {
            let is_other = |count: &&AtomicU32| !std::ptr::eq(*count, fitted);
            let mut others = FITTED.iter().filter(is_other);
            if others.all(|other| other.load(Ordering::Relaxed) <= ENOUGH / 2) {
                PLACE.store(place, Ordering::Relaxed);
            }
        }
    }
}

/// Whether the product of the sizes at `place` equals the number of elements (`numel`) that the tensor stores behind them.
fn fits(tensor: u64, place: u64) -> bool {
    let Some((dimensions @ 2..=MOST_INLINE, at)) = sizes(tensor, place) else {
        return false;
    };
    let elements = (0..dimensions).try_fold(1_u64, |product, dimension| {
        product.checked_mul(read_u64(at.wrapping_add(dimension.wrapping_mul(8)))?)
    });
    let told = read_u64(tensor.wrapping_add(place).wrapping_add(ELEMENTS_BEHIND));
    elements.is_some_and(|elements| elements > 1) && elements == told
}

/// Adds the shape of a tensor that has its sizes at a place.
fn put(text: &mut Text<'_>, tensor: u64, place: u64) {
    let Some((dimensions, at)) = sizes(tensor, place) else {
        return;
    };
    if !text.bytes().is_empty() {
        text.put(b" ");
    }
    text.put(b"[");
    for dimension in 0..dimensions {
        if dimension != 0 {
            text.put(b", ");
        }
        text.number(read_u64(at.wrapping_add(dimension.wrapping_mul(8))).unwrap_or(0));
    }
    text.put(b"]");
}
