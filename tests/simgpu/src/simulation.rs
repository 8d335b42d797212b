//! Whether this process has simulated GPUs, and which.
//!
//! The answer is looked up when first needed: hooks run before any constructor of ours. A process without the
//! variable pays one load and one comparison per hooked call.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use crate::board::Board;
use crate::clock::Clock;
use crate::settings::{ENV_ROOT, FILE_NAME, Machine};
use crate::sys;

const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const SIMULATED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// The folder's path, NUL-terminated, never freed: the environment may change later.
static ROOT: AtomicPtr<libc::c_char> = AtomicPtr::new(std::ptr::null_mut());
static SIMULATION: OnceLock<Option<Simulation>> = OnceLock::new();

/// The simulated machine, as this process sees it.
#[derive(Debug)]
pub struct Simulation {
    /// Its description.
    pub machine: Machine,
    /// The counters that all processes share.
    pub board: &'static Board,
    /// The GPUs' clock.
    pub clock: Clock,
}

/// The machine's folder, or none when nothing is simulated. Does not allocate once it is known.
pub fn root() -> Option<&'static CStr> {
    match STATE.load(Ordering::Acquire) {
        NONE => None,
        SIMULATED => {
            // SAFETY: set before the state, to a string that is never freed.
            Some(unsafe { CStr::from_ptr(ROOT.load(Ordering::Relaxed)) })
        }
        _ => look_up(),
    }
}

#[cold]
fn look_up() -> Option<&'static CStr> {
    // SAFETY: the name is NUL-terminated. That nobody changes the environment meanwhile is every program's own duty.
    let value = unsafe { libc::getenv(c"RSYS_SIMGPU_ROOT".as_ptr()) };
    debug_assert_eq!(ENV_ROOT, "RSYS_SIMGPU_ROOT");
    // SAFETY: a string of the environment, or null.
    let copy = match value.is_null() || unsafe { *value } == 0 {
        true => std::ptr::null_mut(),
        // SAFETY: as above.
        false => unsafe { copy_of(value) },
    };
    if copy.is_null() {
        STATE.store(NONE, Ordering::Release);
        return None;
    }
    // Two threads may come here at once; both copies say the same.
    ROOT.store(copy, Ordering::Relaxed);
    STATE.store(SIMULATED, Ordering::Release);
    // SAFETY: just made.
    Some(unsafe { CStr::from_ptr(copy) })
}

/// A copy that is never freed, of memory of its own: the program's allocator may be what opens a file, while it sets itself up.
///
/// # Safety
/// It must be a string.
unsafe fn copy_of(value: *const libc::c_char) -> *mut libc::c_char {
    // SAFETY: the caller says so.
    let bytes = unsafe { CStr::from_ptr(value) }.to_bytes_with_nul();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which overwrites nothing; it has room for the string.
    unsafe {
        let place = libc::mmap(std::ptr::null_mut(), bytes.len(), protection, flags, -1, 0);
        if place == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len());
        place.cast()
    }
}

/// The simulated machine; none when nothing is simulated or its folder cannot be read.
pub fn get() -> Option<&'static Simulation> {
    let root = root()?;
    SIMULATION.get_or_init(|| load(root)).as_ref()
}

/// Whether [`get`] was called before: nobody can have a device open otherwise, but by inheritance.
pub fn is_loaded() -> bool {
    SIMULATION.get().is_some()
}

fn load(root: &CStr) -> Option<Simulation> {
    let folder = Path::new(OsStr::from_bytes(root.to_bytes()));
    let text = std::fs::read(folder.join(FILE_NAME)).ok()?;
    let machine: Machine = serde_json::from_slice(&text).ok()?;
    let board = std::ffi::CString::new(machine.board.as_os_str().as_bytes()).ok()?;
    let fd = sys::open(&board, libc::O_RDWR | libc::O_CLOEXEC).ok()?;
    let mapped = sys::map(fd, 0, size_of::<Board>());
    sys::close(fd);
    // SAFETY: the launcher made the file as large as a board; zeros are valid, all fields are atomics, and the
    // mapping is never removed.
    let board = unsafe { &*mapped.ok()?.cast::<Board>() };
    let clock = Clock::new(&machine.clock);
    Some(Simulation {
        machine,
        board,
        clock,
    })
}

/// Writes a line into the log, if there is one.
pub fn log(line: &str) {
    let Some(path) = get().and_then(|simulation| simulation.machine.log.as_ref()) else {
        return;
    };
    let Ok(mut file) = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
    else {
        return;
    };
    let line = format!("[{}] {line}\n", std::process::id());
    // Nobody could be told of a failure.
    drop(std::io::Write::write_all(&mut file, line.as_bytes()));
}
