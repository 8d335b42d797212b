//! Kokkos: its kernels, regions, fences, copies and allocations, from its interface for tools.
//!
//! Kokkos opens the library that `KOKKOS_TOOLS_LIBS` (before 3.7: `KOKKOS_PROFILE_LIBRARY`) names first, which is the agent, and asks it for
//! functions by name ([`hooks`]). A tool of the program's own stands behind the agent in the same variable and gets every call, too
//! ([`chain`]). The interface is that of Kokkos Tools, versions 20171029 to 20240906 (Kokkos 3.0 to 5): functions of the same names have the
//! same arguments in all of them.

mod chain;
mod hooks;
mod sections;

use std::ffi::{CStr, c_char};

use rsys_wire::event::{Arg, ArgWords, Category, Key, Value};

use crate::events;
use crate::events::texts::{self, StaticText};
use crate::sources::marker_words::Nest;
use crate::sources::source::Source;
use crate::state;
use crate::state::pause;

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Kokkos],
    prefix: b"kokkosp_",
    answers: chain::ANSWERS,
    after_fork_in_child,
    at_end: |_| chain::say_why_nothing(),
    ..Source::NONE
};

/// What is known of the calling thread. All zero when it starts.
#[derive(Debug)]
#[repr(C)]
struct Words {
    /// Its open slices.
    levels: Nest,
}

crate::thread_words! {
    fn place_of_words() -> *mut Words = "rsys_kokkos_words"
}

/// The calling thread's words. Nothing that holds the reference calls into the program or a library.
#[inline]
fn words<'a>() -> &'a mut Words {
    // SAFETY: part of the thread's static TLS, for as long as it runs; see above for exclusivity.
    unsafe { &mut *place_of_words() }
}

/// The child does not end what its parent began.
fn after_fork_in_child() {
    words().levels.forget();
    sections::after_fork_in_child();
}

/// Whether something that begins now is recorded.
#[inline]
fn is_recorded() -> bool {
    events::records(Category::Kokkos) && !pause::is_caller_paused()
}

/// Whether a name is longer than the user wants: Kokkos names what has no name by the type of its function.
#[inline]
fn is_too_long(name: &[u8]) -> bool {
    let most = state::settings().kokkos_name_bytes as usize;
    most != 0 && name.len() >= most
}

/// No more of a name is kept: those that Kokkos makes of types may have thousands of bytes.
const MOST_NAME_BYTES: usize = 512;

/// What is recorded of a name, unless it is too long for the user.
#[inline]
fn kept_name<'a>(name: *const c_char) -> Option<&'a [u8]> {
    let text = texts::bytes_of(name);
    (!is_too_long(text)).then(|| text.get(..MOST_NAME_BYTES).unwrap_or(text))
}

/// A slice of the calling thread begins, unless `is_left_out`.
#[inline]
fn begin(name: *const c_char, is_left_out: bool, args: &[Arg<'_>]) {
    let text = kept_name(name).filter(|_| is_recorded() && !is_left_out);
    let text = match text {
        None if !words().levels.may_skip() => Some(&b"..."[..]),
        text => text,
    };
    let recorded =
        text.is_some_and(|text| events::begin(Category::Kokkos, texts::key_of(text), 0, args));
    words().levels.open(recorded);
}

/// A slice of the calling thread begins, with a name of ours.
#[inline]
fn begin_known(name: &'static StaticText, args: &ArgWords) {
    let recorded = (is_recorded() || !words().levels.may_skip())
        && events::begin_with(Category::Kokkos, name.key(), 0, args);
    words().levels.open(recorded);
}

/// The innermost slice of the calling thread ends.
#[inline]
fn end() {
    if words().levels.close() == Some(true) {
        events::end(Category::Kokkos, &[]);
    }
}

/// Something happens.
fn mark(name: *const c_char, args: &[Arg<'_>]) {
    if let Some(text) = kept_name(name).filter(|_| is_recorded()) {
        events::mark(Category::Kokkos, texts::key_of(text), 0, args);
    }
}

/// Kinds of execution spaces, by their numbers in ids of devices since Kokkos 3.1.
static SPACES: [StaticText; 10] = [
    StaticText::new("Serial"),
    StaticText::new("OpenMP"),
    StaticText::new("Cuda"),
    StaticText::new("HIP"),
    StaticText::new("OpenMPTarget"),
    StaticText::new("HPX"),
    StaticText::new("Threads"),
    StaticText::new("SYCL"),
    StaticText::new("OpenACC"),
    StaticText::new("unknown"),
];

/// Where a kernel runs, of an id of a device: its kind (8 bits), its number (7) and that of the instance (17).
fn device(id: u32) -> [Arg<'static>; 3] {
    let kind = SPACES.get((id >> 24) as usize).unwrap_or(&SPACES[9]);
    [
        (Key::Space, Value::Known(kind.key())),
        (Key::Device, Value::Uint(u64::from(id >> 17 & 0x7f))),
        (Key::Instance, Value::Uint(u64::from(id & 0x1_ffff))),
    ]
}

/// A space of memory, as Kokkos passes it: its name.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SpaceHandle {
    name: [u8; 64],
}

impl SpaceHandle {
    /// The key of its name.
    fn key(&self) -> u64 {
        let bytes = CStr::from_bytes_until_nul(&self.name).map_or(&self.name[..], CStr::to_bytes);
        texts::key_of(bytes)
    }
}
