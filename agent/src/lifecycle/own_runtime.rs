//! Programs with a runtime of their own, which makes its system calls itself.
//!
//! Go's runtime is one, unless it is linked with C code (cgo): it sets a handler for every signal (`runtime/signal_unix.go`, `initsig`),
//! takes ours away by that, and ends the program at a signal that it did not expect, of which SIGSTKFLT is one
//! (`runtime/sigtab_linux_generic.go`). Such a program can be loaded dynamically all the same (`-buildmode=pie`), and our library with it.

use crate::interpose::symbols;
use crate::sys::guard::read_u64;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
/// No program has more dynamic entries.
const MOST_ENTRIES: u64 = 1 << 12;

/// Whether the program needs no library, not even the C library: then its signal handlers and threads are out of our sight.
#[unsafe(link_section = "rsys_start")]
pub fn is_programs_own() -> bool {
    let Some(dynamic) = symbols::program() else {
        return false;
    };
    let tags =
        (0..MOST_ENTRIES).map(|number| read_u64(dynamic.wrapping_add(number.wrapping_mul(16))));
    let mut tags = tags.take_while(|tag| tag.is_some_and(|tag| tag != DT_NULL));
    !tags.any(|tag| tag == Some(DT_NEEDED))
}
