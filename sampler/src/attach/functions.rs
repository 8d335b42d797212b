//! Functions of the process's libraries, found in their symbol tables.

use std::collections::HashMap;
use std::ops::Range;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind};

use super::Refusal;
use super::code::Library;
use crate::waits::maps::Module;

/// What is known of a module's file.
#[derive(Debug, Default)]
pub struct Functions {
    /// Addresses in the file of the functions that it exports, in order.
    exported: Vec<(Range<u64>, String)>,
    /// Ends of its segments of code: addresses in the file.
    code_ends: Vec<u64>,
}

impl Functions {
    /// Those of a module of process `pid`; `None` when its file cannot be read. Of all but the C library, only those that `wanted` wants.
    #[must_use]
    pub fn read(pid: u32, module: &Module, wanted: impl Fn(&str) -> bool) -> Option<Self> {
        let file = std::fs::File::open(format!("/proc/{pid}/root{}", module.path)).ok()?;
        // SAFETY: read alone; who shortens a file that a program executes ends that program first.
        let bytes = unsafe { memmap2::Mmap::map(&file) }.ok()?;
        let file = ElfFile64::<object::Endianness>::parse(&*bytes).ok()?;
        let mut exported: Vec<_> = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
            .filter_map(|symbol| {
                let name = symbol.name().ok()?;
                let range = symbol.address()..symbol.address() + symbol.size().max(1);
                wanted(name).then(|| (range, name.to_owned()))
            })
            .collect();
        exported.sort_by_key(|(range, _)| range.start);
        let is_code =
            |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0);
        let code = file.segments().filter(|segment| is_code(segment.flags()));
        Some(Self {
            exported,
            code_ends: code
                .map(|segment| segment.address() + segment.size())
                .collect(),
        })
    }

    /// The address of a function in the file.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u64> {
        let mut named = self.exported.iter().filter(|(_, known)| known == name);
        named.next().map(|(range, _)| range.start)
    }

    /// The names of the function at an address in the file: it may have several.
    pub fn names_at(&self, address: u64) -> impl Iterator<Item = &str> {
        let hits = self
            .exported
            .iter()
            .filter(move |(range, _)| range.contains(&address));
        hits.map(|(_, name)| name.as_str())
    }

    /// Where segments of code end.
    #[must_use]
    pub fn code_ends(&self) -> &[u64] {
        &self.code_ends
    }
}

/// The functions of all modules of a process that were asked for.
#[derive(Debug)]
pub struct AllFunctions {
    pid: u32,
    wanted: fn(&str) -> bool,
    files: HashMap<String, Functions>,
}

impl AllFunctions {
    /// None yet; of all modules but the C library those will be known that `wanted` wants.
    #[must_use]
    pub fn new(pid: u32, wanted: fn(&str) -> bool) -> Self {
        Self {
            pid,
            wanted,
            files: HashMap::new(),
        }
    }

    /// Those of a module.
    pub fn of(&mut self, module: &Module) -> &Functions {
        let (pid, wanted) = (self.pid, self.wanted);
        self.files.entry(module.path.clone()).or_insert_with(|| {
            let all = is_c_library(&module.path);
            Functions::read(pid, module, |name| all || wanted(name)).unwrap_or_default()
        })
    }
}

/// The file name in a path.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether this is a part of glibc with functions that wait.
#[must_use]
pub fn is_c_library(path: &str) -> bool {
    const PARTS: [&str; 4] = ["libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"];
    let file = file_name(path);
    // Before glibc 2.34 files had the version in their names: libc-2.31.so.
    let is_old = ["libc-2", "libpthread-2", "libdl-2", "librt-2"]
        .iter()
        .any(|part| file.starts_with(part) && file.ends_with(".so"));
    PARTS.contains(&file) || is_old
}

/// Whether this is glibc's loader.
#[must_use]
pub fn is_loader(path: &str) -> bool {
    let file = file_name(path);
    file.starts_with("ld-linux-x86-64.so") || file.starts_with("ld-2") && file.ends_with(".so")
}

/// What is called in the process's C library.
///
/// # Errors
/// When it lacks one of the functions.
pub fn library(all: &mut AllFunctions, modules: &[Module]) -> Result<Library, Refusal> {
    let parts: Vec<&Module> = modules
        .iter()
        .filter(|module| is_c_library(&module.path))
        .collect();
    let mut find = |names: &[&str]| {
        names.iter().find_map(|name| {
            parts.iter().find_map(|module| {
                let address = all.of(module).find(name)?;
                Some(module.bias.wrapping_add(address))
            })
        })
    };
    let missing = |name: &str| {
        Refusal::new(format!(
            "its C library has no {name} that a thread could be made with; start it under rsys-sample instead"
        ))
    };
    let dlopen = find(&["dlopen"]);
    Ok(Library {
        pthread_create: find(&["pthread_create"]).ok_or_else(|| missing("pthread_create"))?,
        pthread_detach: find(&["pthread_detach"]).ok_or_else(|| missing("pthread_detach"))?,
        errno_location: find(&["__errno_location"]).ok_or_else(|| missing("__errno_location"))?,
        dlopen: dlopen
            .or_else(|| find(&["__libc_dlopen_mode"]))
            .ok_or_else(|| missing("dlopen"))?,
        // RTLD_NOW; glibc's own way in wants its mark as well (__RTLD_DLOPEN of include/dlfcn.h).
        dlopen_flags: if dlopen.is_some() { 2 } else { 0x8000_0002 },
        dlsym: match dlopen {
            Some(_) => find(&["dlsym"]),
            None => find(&["__libc_dlsym"]),
        }
        .ok_or_else(|| missing("dlsym"))?,
    })
}
