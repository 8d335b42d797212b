//! AMD's library of counter commands in the target: loaded when the first queue is made of a GPU whose kernels are counted.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use rsys_wire::counter_library::{CounterLibrary, Handle, NAME, Runtime};

use crate::interpose::libraries;
use crate::sources::gpu::hsa::kernel_counters::say;
use crate::sources::gpu::hsa::table;
use crate::sys;
use crate::sys::guard;
use crate::sys::text::Text;

/// What is needed of the library and of the runtime.
#[derive(Debug, Clone, Copy)]
pub struct Loaded {
    /// The library's functions.
    pub library: CounterLibrary,
    /// The runtime's.
    pub runtime: Runtime,
    /// Memory for commands.
    pub pool: Handle,
}

/// There is none, which was said.
#[derive(Debug)]
pub struct AlreadySaid;

/// What was found of the library; null before it was looked for.
static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// In its place where there is none.
const MISSING: *mut c_void = std::ptr::without_provenance_mut(1);

/// The library and the runtime. What is missing is said once. For one thread at a time.
pub fn library() -> Result<Loaded, AlreadySaid> {
    let handle = match LIBRARY.load(Ordering::Acquire) {
        handle if handle.is_null() => {
            let handle = open().unwrap_or(MISSING);
            LIBRARY.store(handle, Ordering::Release);
            handle
        }
        handle => handle,
    };
    if handle == MISSING {
        return Err(AlreadySaid);
    }
    // SAFETY: the library of this name, which is never closed.
    let found = unsafe { CounterLibrary::find(|name| libraries::symbol(handle, name)) };
    let refuse = |why: &[&[u8]]| {
        say(why);
        LIBRARY.store(MISSING, Ordering::Release);
        AlreadySaid
    };
    let library = found.map_err(|missing| {
        let (name, missing) = (NAME.to_bytes(), missing.to_bytes());
        refuse(&[
            b"(",
            name,
            b" has no ",
            missing,
            b": it is older than ROCm 6.2)",
        ])
    })?;
    let runtime = runtime().ok_or_else(|| refuse(&[b"(the HSA runtime is too old)"]))?;
    let pool = runtime
        .pool()
        .ok_or_else(|| refuse(&[b"(the HSA runtime has no memory for commands)"]))?;
    Ok(Loaded {
        library,
        runtime,
        pool,
    })
}

fn runtime() -> Option<Runtime> {
    Some(Runtime {
        agents: table::iterate_agents::get()?,
        agent_info: table::agent_get_info::get()?,
        pools: table::agent_iterate_memory_pools::get()?,
        pool_info: table::memory_pool_get_info::get()?,
        allocate: table::memory_pool_allocate::get()?,
        allow: table::agents_allow_access::get()?,
    })
}

/// By the loader's rules, else below ROCM_PATH or in /opt/rocm. Says why not.
fn open() -> Option<*mut c_void> {
    const VARIABLE: &CStr = c"ROCM_PATH";
    const ROCM: &[u8] = b"/opt/rocm";
    let by_name = open_at(NAME);
    if by_name.is_some() {
        return by_name;
    }
    let mut reason = [0_u8; 512];
    let bytes = last_reason(&mut reason);
    // SAFETY: a name; what it returns is read at once.
    let rocm = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    let mut path = [0_u8; libraries::MOST_PATH];
    let mut text = Text::new(&mut path);
    match rocm.is_null() {
        true => text.put(ROCM),
        // SAFETY: a variable of the environment.
        false => text.put(unsafe { CStr::from_ptr(rocm) }.to_bytes()),
    }
    text.put(b"/lib/");
    text.put(NAME.to_bytes_with_nul());
    let in_rocm = CStr::from_bytes_until_nul(text.into_bytes())
        .ok()
        .and_then(open_at);
    if in_rocm.is_none() {
        last_reason(&mut [0; 1]);
        let reason = reason.get(..bytes).unwrap_or(&[]);
        let parts: [&[u8]; 5] = [
            b"(",
            NAME.to_bytes(),
            b" cannot be loaded: ",
            reason,
            b"); it comes with ROCm 6.2 and newer: install it, or set ROCM_PATH",
        ];
        say(&parts);
    }
    in_rocm
}

fn open_at(path: &CStr) -> Option<*mut c_void> {
    // SAFETY: a name with its NUL; its functions are called only as their headers say.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!handle.is_null()).then_some(handle)
}

/// What the loader says of its last failure, which is not the program's: its bytes.
fn last_reason(buffer: &mut [u8]) -> usize {
    // SAFETY: no arguments.
    let text: *mut c_char = unsafe { libc::dlerror() };
    match text.is_null() {
        true => 0,
        false => guard::copy_c_string(text.addr() as u64, buffer),
    }
}

/// Memory of our own for a value, zeroed, never unmapped.
pub fn zeroed<T>() -> Option<*mut T> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    Some(sys::mmap(size_of::<T>(), flags, -1).ok()?.cast())
}
