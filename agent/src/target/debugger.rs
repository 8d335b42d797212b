//! Who traces or emulates this process.
//!
//! A debugger stops its program at every signal that it does not know as harmless, and SIGSTKFLT is one
//! that gdb cannot even be told about: a program that a debugger starts is left alone. Tracers of
//! system calls pass signals on. Valgrind dies of perf's SIGTRAP, and would tell its user of our guarded reads.

use rsys_wire::launchers::base_name;

use crate::sys;
use crate::target::environment::Environment;

/// Words that the names of debuggers contain: gdb, rocgdb, cuda-gdb, gdbserver, lldb, lldb-server.
const DEBUGGERS: [&[u8]; 2] = [b"gdb", b"lldb"];

/// What the kernel leaves of the sampler's names, in 15 bytes: rsys-sample, rocprof-sys-sample, omnitrace-sample.
const SAMPLERS: [&[u8]; 2] = [b"sys-sam", b"omnitrace-sam"];

/// Whether anybody traces this process.
pub fn is_traced() -> bool {
    tracer() != 0
}

/// Whether a debugger does, judged by its name.
pub fn is_debugged() -> bool {
    is_debugger(tracer())
}

/// Whether this program is a debugger, by the name under which it was executed. (That of the parent would have to be read from `/proc`, by
/// each process: that costs as much as all other system calls of a start together.)
pub fn is_this() -> bool {
    sys::execution_path().is_some_and(|path| is_name_of_debugger(base_name(path.to_bytes())))
}

fn is_name_of_debugger(name: &[u8]) -> bool {
    DEBUGGERS.iter().any(|debugger| contains(name, debugger))
}

/// Whether this process, if there is one, is a debugger by its name.
fn is_debugger(pid: u32) -> bool {
    is_called(pid, is_name_of_debugger)
}

/// Whether this process, if there is one, is a sampler by its name.
pub fn is_sampler(pid: u32) -> bool {
    is_called(pid, |name| SAMPLERS.iter().any(|word| contains(name, word)))
}

fn is_called(pid: u32, is_such: impl Fn(&[u8]) -> bool) -> bool {
    if pid == 0 {
        return false;
    }
    let mut path = [0_u8; 32];
    let mut name = [0_u8; 16];
    let Some(path) = path_of_name(pid, &mut path) else {
        return false;
    };
    let length = sys::read_file(path, &mut name);
    is_such(name.get(..length).unwrap_or(&[]))
}

/// Whether Valgrind executes this program, judged by the library that all its tools preload.
pub fn is_emulated(environment: &Environment<'_>) -> bool {
    let preloaded = environment.get("LD_PRELOAD");
    preloaded.is_some_and(|list| contains(list.to_bytes(), b"vgpreload_core"))
}

/// The process id of the tracer, or 0 (proc(5), status).
fn tracer() -> u32 {
    const KEY: &[u8] = b"\nTracerPid:\t";
    let mut text = [0_u8; 1024];
    let length = sys::read_file(c"/proc/self/status", &mut text);
    let status = text.get(..length).unwrap_or(&[]);
    let Some(at) = status.windows(KEY.len()).position(|window| window == KEY) else {
        return 0;
    };
    let digits = status.iter().skip(at + KEY.len());
    digits
        .take_while(|digit| digit.is_ascii_digit())
        .fold(0, |number: u32, digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(u32::from(*digit - b'0'))
        })
}

/// `/proc/PID/comm`, written into `buffer`.
fn path_of_name(pid: u32, buffer: &mut [u8; 32]) -> Option<&std::ffi::CStr> {
    let mut digits = [0_u8; 20];
    let parts: [&[u8]; 3] = [
        b"/proc/",
        sys::decimal(u64::from(pid), &mut digits),
        b"/comm\0",
    ];
    let mut length = 0;
    for part in parts {
        buffer
            .get_mut(length..length + part.len())?
            .copy_from_slice(part);
        length += part.len();
    }
    let path = buffer.get(..length)?;
    // SAFETY: the only NUL ends the last part. (The check of the standard library is code that a handler may not reach.)
    Some(unsafe { std::ffi::CStr::from_bytes_with_nul_unchecked(path) })
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
