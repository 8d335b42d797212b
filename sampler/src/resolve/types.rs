//! The types that callers of the resolver see.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A module of the resolver: one (path, build-id) pair. Only valid for the resolver that gave it
/// out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub(super) u32);

impl ModuleId {
    /// The index of the module in the resolver's table; counts from zero.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// What is known about a module when a process maps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleDesc {
    /// The path as the process sees it; `[vdso]` and `linux-vdso.so.1` mean the kernel's own
    /// module.
    pub path: PathBuf,
    /// The build-id of the mapped file; empty when it has none. The file on disk is used only if it
    /// has the same one.
    pub build_id: Vec<u8>,
    /// The process's root directory (`/proc/PID/root`), tried first, for processes in containers.
    pub root: Option<PathBuf>,
    /// Where a process has it, for files that are not at their path any more.
    pub mapped: Option<Mapped>,
}

/// A file that a process has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The process, as we see it.
    pub host_pid: u32,
    /// Where it begins; `None` for the program itself.
    pub address: Option<u64>,
}

impl ModuleDesc {
    /// A module at `path` with the given build-id, in our own root directory.
    pub fn new(path: impl Into<PathBuf>, build_id: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            build_id: build_id.into(),
            root: None,
            mapped: None,
        }
    }
}

/// One frame: a function at an address, or a function inlined there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbolized {
    /// The name to show: demangled, without noise, at most about 256 characters.
    pub name: Arc<str>,
    /// The name in the symbol table, where it differs from `name`.
    pub mangled: Option<Arc<str>>,
    /// The source file, with its directory where that is known.
    pub file: Option<Arc<str>>,
    /// The line in `file`; for a caller, the line of the call.
    pub line: Option<u32>,
    /// Whether the function was inlined into the frame that follows.
    pub inlined: bool,
    /// The start of the function in the module's address space: the function's identity, which
    /// equal names do not give. For an inlined function, that of the function that holds it. Zero
    /// where it is not known.
    pub function_start: u64,
}

impl Symbolized {
    /// A frame that has a name and nothing else.
    pub fn from_name(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            mangled: None,
            file: None,
            line: None,
            inlined: false,
            function_start: 0,
        }
    }

    /// Whether the name comes from the file: it is not made from the address of the code or of its function.
    #[must_use]
    pub fn is_named(&self) -> bool {
        match (offset_at_end(&self.name), self.function_start) {
            // Where the start is not known, as of a function in several pieces, the name of an address ends with that.
            (offset, 0) => offset.is_none(),
            (offset, start) => offset != Some(start),
        }
    }
}

/// The number that a name ends with, as in `libm.so.6+0x1234`.
fn offset_at_end(name: &str) -> Option<u64> {
    // From the end: this is asked of each name that an earlier run found, and most end otherwise.
    let from_end = name.bytes().rev();
    let digits = from_end.take_while(u8::is_ascii_hexdigit).count();
    let (before, digits) = name.split_at(name.len() - digits);
    let digits = before.ends_with("+0x").then_some(digits)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Where the resolver keeps what it found, for later runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheLocation {
    /// `$XDG_CACHE_HOME/rsys`, else `$HOME/.cache/rsys`, else nowhere.
    #[default]
    User,
    /// This directory; made when needed.
    Directory(PathBuf),
    /// Nowhere.
    Disabled,
}

/// How a [`Resolver`](super::Resolver) works.
#[derive(Clone, Debug)]
pub struct ResolverOptions {
    /// Where results are kept for later runs.
    pub cache: CacheLocation,
    /// What all cache files may take together; the oldest are removed beyond it.
    pub cache_bytes_max: u64,
    /// Threads that read ELF files; 0 takes the number of CPUs, four at most.
    pub threads: usize,
    /// Directories with separate debug files.
    pub debug_dirs: Vec<PathBuf>,
    /// Whether inlined functions become frames of their own.
    pub inlines: bool,
    /// What the ELF files held open by all threads may have in size together. Modules beyond it are
    /// closed after use.
    pub open_bytes_max: u64,
    /// How long an unused module stays open.
    pub open_idle_max: Duration,
}

impl Default for ResolverOptions {
    fn default() -> Self {
        Self {
            cache: CacheLocation::User,
            cache_bytes_max: 256 << 20,
            threads: 0,
            debug_dirs: vec![PathBuf::from("/usr/lib/debug")],
            inlines: true,
            open_bytes_max: 1 << 30,
            open_idle_max: Duration::from_secs(10),
        }
    }
}

/// Why a module gives no names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModuleProblem {
    /// No file at the module's path, in the process's root directory or ours.
    #[error("{path}: not found")]
    FileMissing {
        /// The module's path.
        path: String,
    },
    /// A file is there and cannot be read.
    #[error("{path}: cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system said.
        error: String,
    },
    /// The file is another one than the process has mapped.
    #[error("{path}: the file was replaced (build-id {found}, the process has {expected})")]
    BuildIdMismatch {
        /// The file.
        path: String,
        /// The build-id in the process, in hexadecimal.
        expected: String,
        /// The build-id in the file, or "none".
        found: String,
    },
    /// The file is no ELF file of this machine's kind.
    #[error("{path}: not an ELF file that can be read: {error}")]
    NotElf {
        /// The file.
        path: String,
        /// What is wrong with it.
        error: String,
    },
    /// The parser gave up.
    #[error("{path}: malformed: {error}")]
    Malformed {
        /// The file.
        path: String,
        /// What the parser said.
        error: String,
    },
    /// The parser panicked.
    #[error("{path}: the parser of symbols failed: {message}")]
    Panicked {
        /// The file.
        path: String,
        /// The panic's message.
        message: String,
    },
}

/// What a resolver has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverStats {
    /// Modules in the table.
    pub modules: u64,
    /// Modules whose ELF file was opened (again, if it was closed in between).
    pub modules_opened: u64,
    /// Modules that give no names.
    pub modules_unusable: u64,
    /// Of these, the ones whose file was not found.
    pub modules_missing: u64,
    /// Of these, the ones whose file was replaced.
    pub modules_replaced: u64,
    /// Distinct addresses that have a name.
    pub resolved: u64,
    /// Distinct addresses that have none.
    pub unresolved: u64,
    /// Asked addresses answered from memory.
    pub memory_hits: u64,
    /// Distinct addresses answered from the file of an earlier run.
    pub disk_hits: u64,
    /// Cache files that were there and could not be used.
    pub cache_files_rejected: u64,
    /// No thread could be made to read files.
    pub threadless: bool,
    /// Time spent by the threads that read files.
    pub busy: Duration,
}
