//! The framehop engine, one per thread: its cache cannot be shared and its list of modules cannot
//! grow in a handler. It is made outside of handlers, when the thread starts.

use std::ffi::c_int;
use std::ffi::c_void;

use rsys_unwind::{Broken, End, Engine, FrameBuffer, FramehopEngine, FramehopModule, Registers};

use crate::sampling::seen::Seen;
use crate::sys::guard::Guarded;
use crate::thread_words;

thread_words! {
    /// The calling thread's engine once more. LeakSanitizer looks for pointers here, and not in the memory that slots are in.
    fn engine() -> *mut *mut c_void = "rsys_framehop_engine"
}

unsafe extern "C" {
    /// Calls a function on the stack below `top`.
    fn rsys_call_on_stack(
        function: extern "C" fn() -> *mut c_void,
        top: *mut c_void,
    ) -> *mut c_void;
}

std::arch::global_asm!(
    ".text",
    ".globl rsys_call_on_stack",
    ".hidden rsys_call_on_stack",
    ".type rsys_call_on_stack, @function",
    "rsys_call_on_stack:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "mov rsp, rsi",
    "call rdi",
    "mov rsp, rbp",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size rsys_call_on_stack, . - rsys_call_on_stack",
);

/// Makes the engine of the calling thread from the libraries that are loaded now, if it has none: that of its parent does in the child of a fork, where the
/// lock of the loader may be held by a thread that is not there. On the stack below `top`, for that of the thread may be tiny.
///
/// # Safety
/// Nothing else uses that stack meanwhile, of [`crate::sys::signal_stack::SIGNAL_STACK_BYTES`].
pub unsafe fn make_engine(top: *mut c_void) -> *mut c_void {
    // SAFETY: the thread's own word.
    let made = unsafe { *engine() };
    if !made.is_null() {
        return made;
    }
    // SAFETY: as the caller says.
    unsafe { rsys_call_on_stack(make, top) }
}

extern "C" fn make() -> *mut c_void {
    let mut modules: Vec<FramehopModule> = Vec::new();
    // SAFETY: the callback matches the signature and only touches `modules`.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut modules).cast()) };
    let made = Box::into_raw(Box::new(FramehopEngine::new(modules))).cast();
    // SAFETY: the thread's own word.
    unsafe { *engine() = made };
    made
}

/// Frees the engine of the calling thread, which ends.
pub fn drop_engine() {
    // SAFETY: the thread's own word.
    let made = unsafe { std::mem::replace(&mut *engine(), std::ptr::null_mut()) };
    if !made.is_null() {
        // SAFETY: made by `make_engine`, and the thread's clock has stopped.
        drop(unsafe { Box::from_raw(made.cast::<FramehopEngine>()) });
    }
}

/// Walks with the thread's engine.
///
/// # Signal safety
/// framehop does not allocate here, but it may panic on damaged tables: this engine is for
/// comparison, not for every day.
#[allow(
    improper_ctypes_definitions,
    reason = "the ABI only says that no panic leaves it"
)]
#[inline(never)]
pub extern "C" fn walk(
    made: *mut c_void,
    registers: &Registers,
    seen: &Seen,
    frames: &mut FrameBuffer<'_>,
) -> End {
    // SAFETY: null or made by `make_engine` for this thread.
    match unsafe { made.cast::<FramehopEngine>().as_mut() } {
        Some(engine) => engine.walk(registers, &Guarded, seen, frames),
        None => End::Broken(Broken::Other),
    }
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a list of modules.
unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    modules: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid entry, and `make_engine` its own vector.
    let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<FramehopModule>>()) };
    let (mut first, mut last) = (u64::MAX, 0);
    let mut loads = Vec::new();
    let mut header = None;
    for index in 0..info.dlpi_phnum {
        // SAFETY: the table has dlpi_phnum entries.
        let segment = unsafe { &*info.dlpi_phdr.add(usize::from(index)) };
        let start = info.dlpi_addr.wrapping_add(segment.p_vaddr);
        let end = start.wrapping_add(segment.p_memsz);
        if segment.p_type == libc::PT_LOAD {
            (first, last) = (first.min(start & !4095), last.max(end));
            loads.push(start..end);
        } else if segment.p_type == libc::PT_GNU_EH_FRAME {
            header = Some((start, segment.p_memsz as usize));
        }
    }
    let Some((header_start, header_bytes)) = header else {
        return 0;
    };
    let bytes = |start: u64, length: usize| {
        let pointer = std::ptr::with_exposed_provenance::<u8>(start as usize);
        // SAFETY: mapped read-only by the loader for as long as the module is loaded.
        unsafe { std::slice::from_raw_parts(pointer, length) }
    };
    let eh_frame_hdr = bytes(header_start, header_bytes);
    // Version, encoding of eh_frame_ptr: every linker writes DW_EH_PE_pcrel | DW_EH_PE_sdata4.
    let Some([1, 0x1b, _, _, offset @ ..]) = eh_frame_hdr.first_chunk::<8>() else {
        return 0;
    };
    let start = header_start
        .wrapping_add(4)
        .wrapping_add_signed(i64::from(i32::from_le_bytes(*offset)));
    let Some(load) = loads.iter().find(|load| load.contains(&start)) else {
        return 0;
    };
    modules.push(FramehopModule {
        range: first..last,
        eh_frame_hdr_address: header_start,
        eh_frame_hdr,
        eh_frame_address: start,
        eh_frame: bytes(start, (load.end - start) as usize),
    });
    0
}
