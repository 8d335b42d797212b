//! What a source of events is to the rest of the agent.

use std::ffi::CStr;

use rsys_wire::sources::Category;

use crate::interpose::table::FunctionTable;
use crate::interpose::wrapped::Wrapped;

/// How the process ends, or seems to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exits.
    Exit,
    /// It becomes another program, unless that fails.
    Exec,
    /// It aborts itself; locks of its libraries may be held.
    Abort,
}

/// What `dlsym` returns for a function that the agent exports itself, where the real one returns `found` in some library. `ask_next` is
/// the real one for what comes behind us.
pub type Answer = fn(found: *const (), ask_next: &dyn Fn() -> *const ()) -> *const ();

/// One source. A new one is a row in `rsys_wire::sources`, a folder or file beside this one, and its line in [`crate::sources::SOURCES`].
#[derive(Debug)]
pub struct Source {
    /// Its rows in `rsys_wire::sources`: it works where one of them is on.
    pub categories: &'static [Category],
    /// What the names of its functions begin with.
    pub prefix: &'static [u8],
    /// The functions that are wrapped however the program comes by them.
    pub wrapped: &'static [&'static Wrapped],
    /// The functions that pass through one trampoline.
    pub table: Option<&'static FunctionTable>,
    /// Whether its functions do their part without any library: marks do no harm, communication cannot be made up.
    pub is_always_there: bool,
    /// Functions of its own that `dlsym` answers with, whether the source is on or not.
    pub answers: &'static [(&'static CStr, Answer)],
    /// A fork's child begins: forgets what concerns its parent. Allocates and locks nothing.
    pub after_fork_in_child: fn(),
    /// The process ends: records what is still to come. Not in a child that shares its parent's memory, nor in a confined process.
    pub at_end: fn(Ending),
    /// CPU time of threads that are not sampled, in nanoseconds: it is none of the program's.
    pub unsampled_cpu_ns: fn() -> u64,
}

impl Source {
    /// A source without any part; each sets its own.
    pub const NONE: Source = Source {
        categories: &[],
        prefix: b"",
        wrapped: &[],
        table: None,
        is_always_there: false,
        answers: &[],
        after_fork_in_child: || {},
        at_end: |_| {},
        unsampled_cpu_ns: || 0,
    };
}
