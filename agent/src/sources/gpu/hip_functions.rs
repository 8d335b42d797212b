//! The functions of HIP that we use, looked up in the library that the program has loaded.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::interpose::libraries;

/// Part of the path of every HIP runtime.
pub const PATH: &[u8] = b"/libamdhip64.so";

/// What HIP calls when something happens.
pub type Callback = unsafe extern "C" fn(domain: u32, op: u32, data: *mut c_void) -> c_int;

/// What HIP calls with records of its own profiler.
pub type ChunkCallback =
    unsafe extern "C" fn(records: *const c_void, count: u32, chunk: u32, data: *mut c_void);

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(
            $(#[$doc])*
            pub mod $name {
                use super::*;
                /// The signature.
                pub type Function = unsafe extern "C" fn($($argument),*) $(-> $result)?;
                /// Where it is.
                pub static ADDRESS: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
                /// The function, if HIP has it.
                #[inline]
                pub fn get() -> Option<Function> {
                    let address = ADDRESS.load(Ordering::Relaxed);
                    // SAFETY: HIP has this signature for this name in all versions that have the name; null is None.
                    unsafe { std::mem::transmute::<*mut (), Option<Function>>(address) }
                }
            }
        )*
        fn look_all_up(handle: *mut c_void) {
            $(
                let name = const {
                    match CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without NUL"),
                    }
                };
                $name::ADDRESS.store(libraries::symbol(handle, name), Ordering::Relaxed);
            )*
        }
    };
}

functions! {
    /// Takes the one place for a tracer; null leaves it.
    register_callback = "hipRegisterTracerCallback"(Option<Callback>);
    /// Takes the place for who gets the records of HIP's own profiler (from 7.14 on); null leaves it.
    register_chunks = "hipProfilerRegisterChunkCallbackExt"(Option<ChunkCallback>, *mut c_void) -> c_int;
    /// Switches it on, once more.
    enable_profiler = "hipProfilerEnableExt"(*mut u64, u64) -> c_int;
    /// Switches it off, once less, and waits for the GPUs.
    disable_profiler = "hipProfilerDisableExt"(*mut u64) -> c_int;
    /// Its records: a list of chunks, how many, how many records each holds, and how many records there are.
    profiler_records = "hipProfilerGetRecordsExt"(*mut *const *const c_void, *mut usize, *mut usize, *mut usize) -> c_int;
    /// The name of a call.
    api_name = "hipApiName"(u32) -> *const c_char;
    /// The name of a kind of operation.
    command_name = "hipGetCmdName"(c_uint) -> *const c_char;
    /// The kernel behind a function of the program.
    kernel_by_pointer = "hipKernelNameRefByPtr"(*const c_void, *const c_void) -> *const c_char;
    /// The kernel behind a handle.
    kernel_by_handle = "hipKernelNameRef"(*const c_void) -> *const c_char;
    /// Version of the driver.
    driver_version = "hipDriverGetVersion"(*mut c_int) -> c_int;
    /// Version of HIP.
    runtime_version = "hipRuntimeGetVersion"(*mut c_int) -> c_int;
    /// GPUs that the program may use.
    device_count = "hipGetDeviceCount"(*mut c_int) -> c_int;
    /// The thread's GPU.
    current_device = "hipGetDevice"(*mut c_int) -> c_int;
    /// The GPU of a stream.
    stream_device = "hipGetStreamDeviceId"(*const c_void) -> c_int;
    /// Makes a GPU the thread's.
    set_device = "hipSetDevice"(c_int) -> c_int;
    /// Waits for the thread's GPU.
    synchronize = "hipDeviceSynchronize"() -> c_int;
    /// Whether work is captured that is given to a stream: 0 is no.
    stream_is_capturing = "hipStreamIsCapturing"(*const c_void, *mut c_int) -> c_int;
    /// Waits for a stream.
    stream_synchronize = "hipStreamSynchronize"(*const c_void) -> c_int;
    /// The PCI address of a GPU, as text.
    pci_address = "hipDeviceGetPCIBusId"(*mut c_char, c_int, c_int) -> c_int;
    /// What a GPU is sold as.
    device_name = "hipDeviceGetName"(*mut c_char, c_int, c_int) -> c_int;
}

/// Looks everything up if HIP is loaded. Returns whether it is.
pub fn look_up() -> bool {
    let handle = libraries::handle(PATH);
    if handle.is_null() {
        return false;
    }
    look_all_up(handle);
    true
}

static VERSION: AtomicU32 = AtomicU32::new(0);

/// Asks HIP for its version, 0 where it has none. On a thread of ours.
pub fn ask_version() -> u32 {
    let mut version: c_int = 0;
    if let Some(get) = runtime_version::get() {
        // SAFETY: a valid place.
        unsafe { get(&raw mut version) };
    }
    VERSION.store(version.unsigned_abs(), Ordering::Relaxed);
    version.unsigned_abs()
}

/// Whether records may come after the synchronisation that they belong to: since HIP 6, a thread of the runtime's hands them out.
pub fn is_late() -> bool {
    VERSION.load(Ordering::Relaxed) / 10_000_000 != 5
}

/// Whether HIP's reports of a graph's kernels refer to the graph, which may be gone: since HIP 7.
pub fn shares_names_of_graphs() -> bool {
    VERSION.load(Ordering::Relaxed) / 10_000_000 >= 7
}
