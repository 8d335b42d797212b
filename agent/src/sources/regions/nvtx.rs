//! NVTX (NVIDIA's tools extension): ranges, marks, registered names and domains.
//!
//! A program carries NVTX itself (version 3 is headers only, version 2 `libnvToolsExt.so`), which opens the library that `NVTX_INJECTION64_PATH`
//! names, the agent, and hands it tables of the pointers through which its functions are called (nvtxTypes.h). What is not filled in stays
//! without effect.

use std::ffi::{c_char, c_int, c_uint, c_void};

use rsys_wire::event::{Category, Labelled};

use super::handles::{self, Handle};
use super::values::{Named, Values};
use super::{NO_DOMAIN, mark_of, next_range, pop_of, push_of, records, start_of, stop_of};
use crate::events;
use crate::events::texts;

const NVTX: Category = Category::Nvtx;

/// Where a table of a module's pointers is asked for.
type GetTable = unsafe extern "C" fn(u32, *mut *const *mut *const c_void, *mut c_uint) -> c_int;
/// Where the program's part of NVTX is asked for what it exports.
type Export = unsafe extern "C" fn(u32) -> *const Callbacks;

/// `NvtxExportTableCallbacks`, the export of number 1.
#[derive(Debug)]
#[repr(C)]
pub struct Callbacks {
    bytes: usize,
    get_table: Option<GetTable>,
}

const CALLBACKS: u32 = 1;
/// Modules, by number: functions without a domain, and those with one.
const CORE: u32 = 1;
const CORE2: u32 = 5;

/// The address of one of the functions.
#[derive(Debug)]
struct Code(*const c_void);

// SAFETY: addresses of code, which never change.
unsafe impl Sync for Code {}

/// Module, number in it, and what is called.
static FUNCTIONS: [(u32, u32, Code); 23] = [
    (CORE, 1, Code(mark_ex as *const c_void)),
    (CORE, 2, Code(mark_ascii as *const c_void)),
    (CORE, 3, Code(mark_wide as *const c_void)),
    (CORE, 4, Code(start_ex as *const c_void)),
    (CORE, 5, Code(start_ascii as *const c_void)),
    (CORE, 6, Code(start_wide as *const c_void)),
    (CORE, 7, Code(end as *const c_void)),
    (CORE, 8, Code(push_ex as *const c_void)),
    (CORE, 9, Code(push_ascii as *const c_void)),
    (CORE, 10, Code(push_wide as *const c_void)),
    (CORE, 11, Code(pop as *const c_void)),
    (CORE, 14, Code(name_thread_ascii as *const c_void)),
    (CORE, 15, Code(name_thread_wide as *const c_void)),
    (CORE2, 1, Code(domain_mark as *const c_void)),
    (CORE2, 2, Code(domain_start as *const c_void)),
    (CORE2, 3, Code(domain_end as *const c_void)),
    (CORE2, 4, Code(domain_push as *const c_void)),
    (CORE2, 5, Code(domain_pop as *const c_void)),
    (CORE2, 10, Code(register_ascii as *const c_void)),
    (CORE2, 11, Code(register_wide as *const c_void)),
    (CORE2, 12, Code(create_ascii as *const c_void)),
    (CORE2, 13, Code(create_wide as *const c_void)),
    (CORE2, 14, Code(destroy as *const c_void)),
];

/// NVTX of version 3 asks for functions. Returns 1: they are there.
///
/// # Safety
/// As the program's part of NVTX calls it.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case, reason = "the interface's name")]
pub unsafe extern "C" fn InitializeInjectionNvtx2(export: Option<Export>) -> c_int {
    let Some(export) = export else { return 0 };
    // SAFETY: as the caller says; so below.
    let callbacks = unsafe { export(CALLBACKS).as_ref() };
    let Some(get_table) = callbacks
        .filter(|callbacks| callbacks.bytes >= size_of::<Callbacks>())
        .and_then(|callbacks| callbacks.get_table)
    else {
        return 0;
    };
    for module in [CORE, CORE2] {
        let mut table = std::ptr::null();
        let mut size: c_uint = 0;
        // SAFETY: places for a table and its length.
        let is_there = unsafe { get_table(module, &raw mut table, &raw mut size) } != 0;
        if !is_there || table.is_null() {
            continue;
        }
        let of_module = FUNCTIONS
            .iter()
            .filter(|(of, number, _)| *of == module && *number < size);
        for (_, number, Code(code)) in of_module {
            // SAFETY: within the table, whose pointers lead to those that are called.
            unsafe {
                let place = *table.add(*number as usize);
                if let Some(called) = place.as_mut() {
                    *called = *code;
                }
            }
        }
    }
    1
}

/// The same for version 2.
///
/// # Safety
/// As above.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case, reason = "the interface's name")]
pub unsafe extern "C" fn InitializeInjectionNvtx(export: Option<Export>) -> c_int {
    // SAFETY: as the caller says.
    unsafe { InitializeInjectionNvtx2(export) }
}

/// `nvtxEventAttributes_t`, versions 1 to 3.
#[derive(Debug)]
#[repr(C)]
struct Attributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_kind: c_int,
    color: u32,
    payload_kind: c_int,
    reserved: c_int,
    payload: u64,
    message_kind: c_int,
    message: *const c_void,
}

const _: () = assert!(size_of::<Attributes>() == 48);

const UNNAMED: *const c_char = c"range".as_ptr();

/// Calls `then` with a text of `wchar_t`s as UTF-8, as much as there is room for.
///
/// # Safety
/// Null, or a text with its NUL.
unsafe fn with_wide<R>(wide: *const u32, then: impl FnOnce(*const c_char) -> R) -> R {
    let mut text = [0_u8; 1024];
    let mut used = 0;
    let mut next = wide;
    // SAFETY: as the caller says.
    while let Some(letter) = unsafe { next.as_ref() }.filter(|letter| **letter != 0) {
        let letter = char::from_u32(*letter).unwrap_or(char::REPLACEMENT_CHARACTER);
        let end = used + letter.len_utf8();
        // The last byte stays NUL.
        let Some(room) = text.get_mut(used..end).filter(|_| end < 1024) else {
            break;
        };
        letter.encode_utf8(room);
        used = end;
        next = next.wrapping_add(1);
    }
    then(text.as_ptr().cast())
}

/// Calls `then` with the name and the values that the attributes give.
///
/// # Safety
/// Null, or attributes as `nvToolsExt.h` says.
unsafe fn described<R>(
    attributes: *const Attributes,
    then: impl FnOnce(*const c_char, &Values<'_>) -> R,
) -> R {
    // SAFETY: as the caller says.
    let attributes = unsafe { attributes.as_ref() };
    let Some(attributes) =
        attributes.filter(|given| usize::from(given.bytes) >= size_of::<Attributes>())
    else {
        return then(UNNAMED, &Values::None);
    };
    let bits = attributes.payload;
    let payload = match attributes.payload_kind {
        1 => Some((2, bits)),
        2 => Some((1, bits)),
        3 => Some((3, bits)),
        4 => Some((2, u64::from(bits as u32))),
        5 => Some((1, i64::from(bits as u32 as i32).cast_unsigned())),
        6 => Some((3, f64::from(f32::from_bits(bits as u32)).to_bits())),
        _ => None,
    };
    let value = payload.map(|(kind, value)| Named::new(c"payload", kind, value));
    let values = Values::Own(value.as_slice());
    let message = attributes.message;
    match attributes.message_kind {
        1 if !message.is_null() => then(message.cast(), &values),
        // SAFETY: a text of the program's.
        2 if !message.is_null() => unsafe { with_wide(message.cast(), |text| then(text, &values)) },
        // SAFETY: a handle that we gave.
        3 => then(unsafe { text_of(message.cast()) }, &values),
        _ => then(UNNAMED, &values),
    }
}

/// The text of a handle.
///
/// # Safety
/// Null, or a handle of ours.
unsafe fn text_of(handle: *const Handle) -> *const c_char {
    // SAFETY: as the caller says.
    unsafe { handle.as_ref() }.map_or(UNNAMED, |handle| handle.string.text)
}

/// The name of a domain; null for the one that programs need not make.
///
/// # Safety
/// Null, or a handle of ours.
unsafe fn domain_of(handle: *const Handle) -> *const c_char {
    // SAFETY: as the caller says.
    unsafe { handle.as_ref() }.map_or(NO_DOMAIN, |handle| handle.string.text)
}

/// Begins a range of the thread. Returns its level, from 0.
fn push(name: *const c_char, domain: *const c_char, values: &Values<'_>) -> c_int {
    push_of(NVTX, name, domain, values);
    super::depth().saturating_sub(1)
}

extern "C" fn pop() -> c_int {
    pop_of(NVTX, &Values::None);
    super::depth()
}

fn start(name: *const c_char, domain: *const c_char, values: &Values<'_>) -> u64 {
    let range = next_range();
    start_of(NVTX, range, name, domain, values);
    range
}

extern "C" fn end(range: u64) {
    stop_of(NVTX, range);
}

// The functions of NVTX. SAFETY in all of them: what they are given is the program's own, as `nvToolsExt.h` says.

/// # Safety
/// As programs call it.
unsafe extern "C" fn mark_ex(attributes: *const Attributes) {
    // SAFETY: see above.
    unsafe { domain_mark(std::ptr::null(), attributes) }
}

extern "C" fn mark_ascii(name: *const c_char) {
    mark_of(NVTX, name, NO_DOMAIN, &Values::None);
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn mark_wide(name: *const u32) {
    // SAFETY: see above.
    unsafe { with_wide(name, |name| mark_ascii(name)) }
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn start_ex(attributes: *const Attributes) -> u64 {
    // SAFETY: see above.
    unsafe { domain_start(std::ptr::null(), attributes) }
}

extern "C" fn start_ascii(name: *const c_char) -> u64 {
    start(name, NO_DOMAIN, &Values::None)
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn start_wide(name: *const u32) -> u64 {
    // SAFETY: see above.
    unsafe { with_wide(name, |name| start(name, NO_DOMAIN, &Values::None)) }
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn push_ex(attributes: *const Attributes) -> c_int {
    // SAFETY: see above.
    unsafe { domain_push(std::ptr::null(), attributes) }
}

extern "C" fn push_ascii(name: *const c_char) -> c_int {
    push(name, NO_DOMAIN, &Values::None)
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn push_wide(name: *const u32) -> c_int {
    // SAFETY: see above.
    unsafe { with_wide(name, |name| push(name, NO_DOMAIN, &Values::None)) }
}

extern "C" fn name_thread_ascii(thread: u32, name: *const c_char) {
    if records(NVTX) {
        events::label(
            Labelled::Thread,
            u64::from(thread),
            texts::bytes_of(name),
            &[],
        );
    }
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn name_thread_wide(thread: u32, name: *const u32) {
    // SAFETY: see above.
    unsafe { with_wide(name, |name| name_thread_ascii(thread, name)) }
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn domain_mark(domain: *const Handle, attributes: *const Attributes) {
    // SAFETY: see above.
    unsafe {
        let domain = domain_of(domain);
        described(attributes, |name, values| {
            mark_of(NVTX, name, domain, values)
        });
    }
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn domain_start(domain: *const Handle, attributes: *const Attributes) -> u64 {
    // SAFETY: see above.
    unsafe {
        let domain = domain_of(domain);
        described(attributes, |name, values| start(name, domain, values))
    }
}

extern "C" fn domain_end(_domain: *const Handle, range: u64) {
    end(range);
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn domain_push(domain: *const Handle, attributes: *const Attributes) -> c_int {
    // SAFETY: see above.
    unsafe {
        let domain = domain_of(domain);
        described(attributes, |name, values| push(name, domain, values))
    }
}

extern "C" fn domain_pop(_domain: *const Handle) -> c_int {
    pop()
}

extern "C" fn register_ascii(_domain: *const Handle, text: *const c_char) -> *mut Handle {
    handles::of(text)
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn register_wide(_domain: *const Handle, text: *const u32) -> *mut Handle {
    // SAFETY: see above.
    unsafe { with_wide(text, handles::of) }
}

extern "C" fn create_ascii(name: *const c_char) -> *mut Handle {
    handles::of(name)
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn create_wide(name: *const u32) -> *mut Handle {
    // SAFETY: see above.
    unsafe { with_wide(name, handles::of) }
}

extern "C" fn destroy(_domain: *const Handle) {}
