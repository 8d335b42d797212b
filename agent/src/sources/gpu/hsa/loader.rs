//! What the runtime's loader says of code that was loaded.

use std::ffi::c_void;

use crate::sources::gpu::hsa::abi::{SUCCESS, Status};
use crate::sources::gpu::hsa::table;

const EXTENSION: u16 = 0x201;

/// `hsa_ven_amd_loader_1_01_pfn_t` in `hsa_ven_amd_loader.h`, the same in ROCr 5.2.3 to 7.2.4.
#[derive(Debug)]
#[repr(C)]
struct Functions {
    others: [*const (); 4],
    get_info: Option<unsafe extern "C" fn(u64, u32, *mut c_void) -> Status>,
}

const STORAGE_BASE: u32 = 5;
const STORAGE_BYTES: u32 = 6;

/// The bytes of a code object, as it was given to the runtime.
///
/// # Safety
/// It was loaded just now, and its reader is not destroyed while the bytes are used.
pub unsafe fn image<'a>(loaded: u64) -> Option<&'a [u8]> {
    let mut functions = Functions {
        others: [std::ptr::null(); 4],
        get_info: None,
    };
    let ask = table::system_get_major_extension_table::get()?;
    let bytes = size_of::<Functions>();
    // SAFETY: there is room for what is asked for.
    if unsafe { ask(EXTENSION, 1, bytes, (&raw mut functions).cast()) } != SUCCESS {
        return None;
    }
    let get_info = functions.get_info?;
    let asked = |what: u32| {
        let mut value = 0_u64;
        // SAFETY: the code object is loaded, and what is asked for has eight bytes.
        let status = unsafe { get_info(loaded, what, (&raw mut value).cast()) };
        (status == SUCCESS && value != 0).then_some(value)
    };
    let (base, bytes) = (asked(STORAGE_BASE)?, asked(STORAGE_BYTES)?);
    let bytes = usize::try_from(isize::try_from(bytes).ok()?).ok()?;
    let start = std::ptr::with_exposed_provenance(usize::try_from(base).ok()?);
    // SAFETY: the runtime has read the code object there; the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(start, bytes) })
}
