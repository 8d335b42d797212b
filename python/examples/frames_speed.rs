//! What reading the Python frames of a thread costs: `cargo run --release -p rsys-python --example frames_speed -- LIBPYTHON...`
//!
//! Each library is opened in a process of its own, runs a script that calls itself some levels deep, and calls back into this program,
//! which finds the thread state and walks the frames many times, with loads that cost what the agent's guarded ones do. Figures are
//! medians, in nanoseconds: what the handler does for a sample whose code objects are known to the sampler.

use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use rsys_python::stack;
use rsys_python::thread::{self, Key};
use rsys_python::{Found, Interpreter};
use rsys_unwind::Memory;

const DEPTHS: [usize; 3] = [5, 20, 100];
const ROUNDS: usize = 2000;
const WALKS_PER_ROUND: u32 = 20;

/// This process's memory, through loads that the compiler cannot see through, each with a flag that tells whether it worked.
struct Guarded;

macro_rules! load {
    ($name:ident, $type:ty, $load:literal) => {
        #[inline]
        fn $name(&self, address: u64) -> Option<$type> {
            let value: u64;
            let ok: u32;
            // SAFETY: the interpreter is alive and this thread's, so what its structures point to is there.
            unsafe {
                std::arch::asm!(
                    $load,
                    address = in(reg) address,
                    value = inout(reg) 0_u64 => value,
                    inout("ecx") 1_u32 => ok,
                    options(nostack, readonly, preserves_flags),
                );
            }
            (ok != 0).then_some(value as $type)
        }
    };
}

impl Memory for Guarded {
    load!(read_u64, u64, "mov {value}, qword ptr [{address}]");
    load!(read_u32, u32, "mov {value:e}, dword ptr [{address}]");
    load!(read_u16, u16, "movzx {value:e}, word ptr [{address}]");
    load!(read_u8, u8, "movzx {value:e}, byte ptr [{address}]");
}

static FOUND: Mutex<Option<Interpreter>> = Mutex::new(None);
static KEY: Key = Key::new();

fn walk(interpreter: &Interpreter, words: &mut [u64], told: &[u64]) -> usize {
    // SAFETY: these two always succeed.
    let own_id = unsafe { libc::pthread_self() };
    let specific = |key: u32| {
        // SAFETY: as above.
        let value = unsafe { libc::pthread_getspecific(key) };
        value.addr() as u64
    };
    let mut cached = 0;
    let thread = thread::find(&Guarded, interpreter, &KEY, own_id, specific, &mut cached);
    let Some(thread) = thread else { return 0 };
    let walked = stack::walk(&Guarded, interpreter, thread, words, |key, _| {
        // The look into the table of code objects that were told.
        black_box(told[key as usize % told.len()] == key);
    });
    walked.count
}

/// Called by the script, at the bottom of its calls.
extern "C" fn measure() {
    let Some(interpreter) = *FOUND.lock().expect("one thread") else {
        return;
    };
    let mut words = vec![0; 512];
    let told = vec![0; 1 << 15];
    let mut figures: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..WALKS_PER_ROUND {
                black_box(walk(&interpreter, &mut words, &told));
            }
            start.elapsed().as_nanos() as f64 / f64::from(WALKS_PER_ROUND)
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    println!(
        "{:4} frames  python {:6.0} ns",
        walk(&interpreter, &mut words, &told),
        figures[ROUNDS / 2]
    );
}

fn symbol(library: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).expect("no NUL");
    // SAFETY: a library that is open, and a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "no {name:?}");
    found
}

fn run(path: &str) {
    let file = CString::new(path).expect("no NUL");
    // SAFETY: opening an interpreter runs no code of its own.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!library.is_null(), "{path} cannot be opened");
    let runtime = symbol(library, "_PyRuntime");
    // SAFETY: all zeros is a valid value, which the call fills.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address in the library.
    unsafe { libc::dladdr(runtime, &raw mut info) };
    let start = info.dli_fbase.addr() as u64;
    match Interpreter::find(&Guarded, start, start) {
        Some(Found::Known(interpreter)) => {
            println!("{path}: {:x}", interpreter.version);
            *FOUND.lock().expect("one thread") = Some(interpreter);
        }
        other => panic!("{path}: {other:?}"),
    }
    let address = (measure as extern "C" fn()) as usize;
    let script = format!(
        "import ctypes\nmeasure = ctypes.CFUNCTYPE(None)({address})\n\
         def call(depth):\n    if depth:\n        call(depth - 1)\n    else:\n        measure()\n\
         for frames in {DEPTHS:?}:\n    call(frames - 2)\n"
    );
    let script = CString::new(script).expect("no NUL");
    // SAFETY: the documented types of these functions.
    unsafe {
        let initialize: extern "C" fn(c_int) =
            std::mem::transmute(symbol(library, "Py_InitializeEx"));
        let run: extern "C" fn(*const c_char, *mut c_void) -> c_int =
            std::mem::transmute(symbol(library, "PyRun_SimpleStringFlags"));
        initialize(0);
        assert_eq!(run(script.as_ptr(), std::ptr::null_mut()), 0);
    }
}

fn main() {
    let libraries: Vec<String> = std::env::args().skip(1).collect();
    match libraries.as_slice() {
        [] => eprintln!("usage: frames_speed LIBPYTHON..."),
        [library] => run(library),
        libraries => {
            for library in libraries {
                let own = std::env::current_exe().expect("a program has a path");
                let ended = Command::new(own).arg(library).status();
                assert!(ended.is_ok_and(|status| status.success()), "{library}");
            }
        }
    }
}
