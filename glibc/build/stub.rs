//! Shared libraries without code, for the linker alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::exports::Export;

/// The libraries that a program of the floor's time is linked with: how the loader calls them, and by which names their functions
/// are known among those that glibc 2.32 to 2.34 moved into the C library itself. What fits none was there before.
const LIBRARIES: [(&str, &[&str]); 5] = [
    ("libpthread.so.0", &["pthread_", "sem_"]),
    ("libdl.so.2", &["dl"]),
    (
        "librt.so.1",
        &["timer_", "aio_", "lio_", "mq_", "shm_", "clock_"],
    ),
    (
        "libutil.so.1",
        &["openpty", "forkpty", "login", "logout", "logwtmp"],
    ),
    (C_LIBRARY, &[""]),
];

const C_LIBRARY: &str = "libc.so.6";

/// All versions of all functions and variables, by name.
pub struct Stubs(BTreeMap<String, Vec<Export>>);

impl Stubs {
    pub fn new(exports: Vec<Export>) -> Self {
        let mut by_name: BTreeMap<String, Vec<Export>> = BTreeMap::new();
        for export in exports {
            by_name.entry(export.name.clone()).or_default().push(export);
        }
        Stubs(by_name)
    }

    /// The newest version of a function that the floor has.
    pub fn version_of(&self, name: &str) -> Option<&str> {
        newest_old(self.0.get(name)?).map(|export| export.version.as_str())
    }

    /// Writes sources into `out` and has each linked by `link(source, version script, name, library)`. Returns the words for a
    /// linker script.
    pub fn write(
        &self,
        out: &Path,
        link: impl Fn(&Path, &Path, &str, &Path) -> Outcome<()>,
    ) -> Outcome<Vec<String>> {
        let mut words = Vec::new();
        for (soname, _) in LIBRARIES {
            let (source, map) = self.sources(soname)?;
            let source_path = out.join(soname).with_extension("s");
            let map_path = out.join(soname).with_extension("map");
            // Not under a name that anybody asks the linker for.
            let library = out.join(format!("stub-{soname}"));
            fs::write(&source_path, source)?;
            fs::write(&map_path, map)?;
            link(&source_path, &map_path, soname, &library)?;
            words.push(format!("AS_NEEDED ( {} )", library.display()));
        }
        Ok(words)
    }

    /// The library's source in assembler, and its version script.
    fn sources(&self, soname: &str) -> Outcome<(String, String)> {
        let mut source = Source::default();
        for (name, exports) in &self.0 {
            let chosen = newest_old(exports).map(|export| export.version.as_str());
            if library_of(exports) == soname {
                match (chosen, exports.first()) {
                    // `start.c` calls it under its version.
                    (Some(_), _) if name == "__libc_start_main" => {}
                    (Some(version), Some(export)) => source.add(export, Some(("@@@", version)))?,
                    // Whatever the C library at run time has is taken: fit for weak references.
                    (None, Some(export)) if export.is_default => source.add(export, None)?,
                    _ => {}
                }
            }
            if soname == C_LIBRARY {
                // Other libraries that programs are linked with may be built for any version.
                let is_default = library_of(exports) == soname && name != "__libc_start_main";
                for export in exports {
                    if !is_default || chosen != Some(&export.version) {
                        source.add(export, Some(("@", &export.version)))?;
                    }
                }
            }
        }
        Ok(source.finish())
    }
}

/// Assembler that defines functions and variables, and the versions in it.
#[derive(Default)]
struct Source {
    text: String,
    symbols: usize,
    versions: BTreeSet<String>,
}

impl Source {
    /// Adds one under its name, and, where it has one, under a version that is the default (`@@@`) or not (`@`).
    fn add(&mut self, export: &Export, version: Option<(&str, &str)>) -> Outcome<()> {
        let name = &export.name;
        let symbol = match version {
            Some(_) => format!("stub_{}", self.symbols),
            None => name.clone(),
        };
        self.symbols += 1;
        let bytes = export.variable_bytes;
        let (section, kind) = bytes.map_or((".text", "%function"), |_| (".data", "%object"));
        writeln!(
            self.text,
            "{section}\n.globl {symbol}\n.type {symbol}, {kind}\n.size {symbol}, {bytes}\n{symbol}: .zero {room}",
            bytes = bytes.unwrap_or(0),
            room = bytes.unwrap_or(0).max(1),
        )?;
        if let Some((binding, version)) = version {
            writeln!(self.text, ".symver {symbol}, {name}{binding}{version}")?;
            self.versions.insert(version.to_owned());
        }
        Ok(())
    }

    fn finish(mut self) -> (String, String) {
        self.text
            .push_str(".section .note.GNU-stack,\"\",%progbits\n");
        let map = self.versions.iter().fold(String::new(), |map, version| {
            map + version + " { local: stub_*; };\n"
        });
        (self.text, map)
    }
}

/// What a program of the floor's time would be linked with. Nothing if nothing of this name is for programs of today: some functions
/// are only there for old programs, and today in `libc_nonshared.a`.
fn newest_old(exports: &[Export]) -> Option<&Export> {
    let is_current = exports.iter().any(|export| export.is_default);
    let old = exports
        .iter()
        .filter(|export| is_current && export.is_old());
    old.max_by_key(|export| crate::numbers(&export.version))
}

/// The library that had these versions of a function in the floor's time.
fn library_of(exports: &[Export]) -> &'static str {
    let moved = exports
        .iter()
        .any(|export| export.is_default && !export.is_old())
        && newest_old(exports).is_some();
    let name = exports.first().map_or("", |export| &export.name);
    let is_home = |prefixes: &[&str]| {
        prefixes
            .iter()
            .any(|prefix| prefix.is_empty() || (moved && name.starts_with(prefix)))
    };
    LIBRARIES
        .into_iter()
        .find(|(_, prefixes)| is_home(prefixes))
        .map_or(C_LIBRARY, |(soname, _)| soname)
}
