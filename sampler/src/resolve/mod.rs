//! From program counters to names.
//!
//! The sampler knows, for each address it saw, which ELF file it lies in and where in that file's
//! own address space. This module turns such pairs into frames: function name, source line, and the
//! functions that the compiler inlined there.
//!
//! One [`Resolver`] serves all processes of a run. An address takes the first of these ways that
//! knows it:
//!
//! 1. the table in memory, which remembers each distinct (module, address) of the run;
//! 2. the file of an earlier run, kept per build-id in the user's cache directory (`cache_file`,
//!    `cache_store`);
//! 3. the ELF file with its DWARF, its separate debug file, or at least its symbol table (`locate`,
//!    `image`);
//! 4. a name made from the module and the begin of the function by the unwind table (`libfoo.so+0x1230`), or the address where there is none, with
//!    the reason counted.
//!
//! ELF files are opened only on the threads of a small `pool`: the parser's data is bound to its
//! thread, is kept there while it is in use, and is dropped when idle or beyond a budget. A panic
//! in a parser costs that module its names, nothing else.
//!
//! What the file on disk says is believed only if its build-id is the one that the process had
//! mapped.
//!
//! Names are made fit for display in `names` and `demangle`. Code that has no file is covered by
//! [`PerfMap`] (JIT compilers' `/tmp/perf-PID.map`), [`kernel_frame`] and [`unknown_frame`].
//!
//! This module must not know processes, rings or traces: it sees files and addresses only.

mod cache_file;
mod cache_store;
mod cold;
mod debug_copy;
mod demangle;
mod image;
mod linkage;
mod locate;
mod module;
mod names;
mod perf_map;
mod pool;
mod resolver;
mod types;
mod unpacked;
mod unwind_table;
mod vdso;

pub use demangle::demangled;
pub use names::{KERNEL_START, kernel_frame, module_frame, shorten, unknown_frame};
pub use perf_map::{PerfMap, PerfMapEntry};
pub use resolver::Resolver;
pub use types::{
    CacheLocation, Mapped, ModuleDesc, ModuleId, ModuleProblem, ResolverOptions, ResolverStats,
    Symbolized,
};
