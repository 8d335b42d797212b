//! One call, from the caller's to the library's and back.

use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{ArgWords, Key, Value};
use rsys_wire::sources::Category;

use crate::events;
use crate::interpose::trampoline::Call;
use crate::interpose::weak;
use crate::sources::library_calls::{Callers, Names, record};
use crate::sources::ucx::table::{self, Function};
use crate::state::pause;
use crate::sys;
use crate::sys::text::Text;

static NAMES: Names = Names::new();
static CALLERS: Callers = Callers::of(&[b"libucp.", b"libucp-", b"libuct", b"libucs"]);
/// Of [`weak::restore`].
static SEEN: weak::Seen = weak::Seen::new();

/// What a function returns that no library has: `UCS_ERR_UNSUPPORTED`, as a status or as a pointer.
const NO_LIBRARY: usize = -22_isize as usize;

/// Calls that make progress, and the time in them.
static PROGRESS_CALLS: AtomicU64 = AtomicU64::new(0);
static PROGRESS_EVENTS: AtomicU64 = AtomicU64::new(0);
static PROGRESS_NS: AtomicU64 = AtomicU64::new(0);

/// Answers for a stub: where to jump, or null when the call was made here.
pub extern "C" fn handle(function: u32, call: &mut Call) -> *const () {
    let real = table::TABLE.real(function);
    let function = function as u16;
    if function == Function::init_version as u16 {
        weak::restore(|symbol| table::find(symbol.to_bytes()).is_some(), &SEEN);
    }
    if real.is_null() {
        call.set_result(NO_LIBRARY);
        return std::ptr::null();
    }
    if !events::records(Category::Ucx)
        || pause::is_caller_paused()
        || CALLERS.is_library(call.return_address())
    {
        return real;
    }
    let (returns, letters) = table::roles(function)
        .split_first()
        .map_or((b'v', &[][..]), |(returns, letters)| (*returns, letters));
    if returns == b'n' {
        progress(call, real, letters.len());
        return std::ptr::null();
    }
    let name = NAMES.key(function, table::symbol);
    let args = describe(call, letters);
    record(
        Category::Ucx,
        name,
        &args,
        (call, real, letters.len()),
        |result| error(returns, result),
    );
    std::ptr::null()
}

/// The error that a function returned.
fn error(returns: u8, result: usize) -> Option<i64> {
    match returns {
        // `UCS_ERR_LAST` is -100 (ucs/type/status.h).
        b'p' => Some(result as i64).filter(|result| (-100..0).contains(result)),
        b'i' => Some(i64::from(result as i32)).filter(|result| *result < 0),
        _ => None,
    }
}

/// A call that makes progress: thousands of them may find nothing to do.
#[inline]
fn progress(call: &mut Call, real: *const (), words: usize) {
    let begin_ns = sys::boottime_ns();
    call.forward(real, words);
    let ns = sys::boottime_ns().saturating_sub(begin_ns);
    PROGRESS_CALLS.fetch_add(1, Ordering::Relaxed);
    PROGRESS_NS.fetch_add(ns, Ordering::Relaxed);
    let progressed = u64::from(call.result() as u32);
    if progressed != 0 {
        PROGRESS_EVENTS.fetch_add(progressed, Ordering::Relaxed);
    }
}

/// What is known of a call before it is made.
fn describe(call: &Call, letters: &[u8]) -> ArgWords {
    let mut args = ArgWords::new();
    let (mut buffer, mut count, mut bytes) = (0, None, None);
    // Elements are single bytes unless the caller says otherwise.
    let mut datatype = CONTIGUOUS_BYTES;
    let mut header_bytes = 0;
    for (place, letter) in letters.iter().enumerate() {
        let word = || call.argument(place);
        match letter {
            b'e' => args.push(Key::Endpoint, Value::Pointer(word() as u64)),
            b'b' => buffer = word(),
            b'n' => count = Some(word() as u64),
            b't' => datatype = word() as u64,
            b'x' => datatype = datatype_of(word()),
            b'l' => bytes = Some(word() as u64),
            b'h' => header_bytes = word() as u64,
            b'g' => args.push(Key::Tag, Value::Uint(word() as u64)),
            b'4' => bytes = Some(4),
            b'8' => bytes = Some(8),
            _ => {}
        }
    }
    let bytes = bytes.or_else(|| size(buffer, count?, datatype));
    if let Some(bytes) = bytes {
        let bytes = bytes.saturating_add(header_bytes);
        args.push(Key::Bytes, Value::Uint(bytes));
    }
    args
}

/// `ucp_dt_make_contig(1)`: the kind in the three lowest bits, above them the size of an element.
const CONTIGUOUS_BYTES: u64 = 1 << 3;
const KIND: u64 = 7;
const CONTIGUOUS: u64 = 0;
const VECTOR: u64 = 2;
/// `UCP_OP_ATTR_FIELD_DATATYPE`.
const HAS_DATATYPE: u32 = 1 << 3;
/// Where `ucp_request_param_t` has its type: behind two numbers of 32 bits and two pointers.
const DATATYPE_AT: usize = 24;
/// Parts of a vector that are looked at.
const MOST_PARTS: u64 = 1024;

/// The type that a structure of parameters names.
fn datatype_of(param: usize) -> u64 {
    if param == 0 {
        return CONTIGUOUS_BYTES;
    }
    let at = |offset: usize| std::ptr::with_exposed_provenance::<u8>(param).wrapping_add(offset);
    // SAFETY: the caller's own structure, of which the mask says what it has.
    unsafe {
        if at(0).cast::<u32>().read_unaligned() & HAS_DATATYPE == 0 {
            return CONTIGUOUS_BYTES;
        }
        at(DATATYPE_AT).cast::<u64>().read_unaligned()
    }
}

/// How many bytes a buffer has; `None` where only the program's own functions know.
fn size(buffer: usize, count: u64, datatype: u64) -> Option<u64> {
    match datatype & KIND {
        CONTIGUOUS => Some(count.saturating_mul(datatype >> 3)),
        // Pairs of an address and a length.
        VECTOR if count <= MOST_PARTS => (0..count as usize).try_fold(0_u64, |sum, part| {
            let at = buffer.wrapping_add(part.wrapping_mul(16)).wrapping_add(8);
            let length: *const u64 = std::ptr::with_exposed_provenance(at);
            // SAFETY: the caller's own array of `count` pairs.
            (buffer != 0).then(|| sum.saturating_add(unsafe { length.read_unaligned() }))
        }),
        _ => None,
    }
}

/// The child of a fork counts anew.
pub fn forget() {
    for counter in [&PROGRESS_CALLS, &PROGRESS_EVENTS, &PROGRESS_NS] {
        counter.store(0, Ordering::Relaxed);
    }
}

/// The process ends: says what was counted.
pub fn report() {
    if PROGRESS_CALLS.load(Ordering::Relaxed) == 0 {
        return;
    }
    for (key, counter) in [
        (&b"ucx_progress_calls"[..], &PROGRESS_CALLS),
        (b"ucx_progress_events", &PROGRESS_EVENTS),
        (b"ucx_progress_ns", &PROGRESS_NS),
    ] {
        let mut buffer = [0; 24];
        let mut text = Text::new(&mut buffer);
        text.number(counter.load(Ordering::Relaxed));
        events::fact(key, text.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_types() {
        let parts: [[usize; 2]; 2] = [[0x1000, 10], [0x2000, 32]];
        let vector = parts.as_ptr().expose_provenance();
        assert_eq!(size(0, 100, CONTIGUOUS_BYTES), Some(100));
        assert_eq!(size(0, 100, 8 << 3), Some(800));
        assert_eq!(size(vector, 2, VECTOR), Some(42));
        assert_eq!(size(0, 2, VECTOR), None);
        assert_eq!(size(0, 100, 7), None);
    }

    #[test]
    fn a_structure_names_a_type_only_if_its_mask_says_so() {
        let mut param = [0_u64; 16];
        param[3] = 16 << 3;
        let address = |param: &[u64; 16]| param.as_ptr().expose_provenance();
        assert_eq!(datatype_of(address(&param)), CONTIGUOUS_BYTES);
        param[0] = u64::from(HAS_DATATYPE);
        assert_eq!(datatype_of(address(&param)), 16 << 3);
        assert_eq!(datatype_of(0), CONTIGUOUS_BYTES);
    }

    #[test]
    fn errors_are_told_from_requests() {
        assert_eq!(error(b'p', 0), None);
        assert_eq!(error(b'p', 0x7f00_0000_1000), None);
        assert_eq!(error(b'p', NO_LIBRARY), Some(-22));
        assert_eq!(error(b'i', 0xffff_fff6), Some(-10));
        assert_eq!(error(b'i', 1), None);
        assert_eq!(error(b'v', NO_LIBRARY), None);
    }
}
