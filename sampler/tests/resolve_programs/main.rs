//! Names of programs that are compiled here, in the shapes in which distributors and users ship
//! them.

mod debug_files;
mod files;
mod languages;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};
use rsys_sampler::resolve::{
    CacheLocation, ModuleDesc, ModuleProblem, Resolver, ResolverOptions, Symbolized,
};

/// A directory that is removed with its content.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rsys-resolve-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A resolver that finds debug files below this directory only.
    fn resolver(&self, cache: CacheLocation) -> Resolver {
        Resolver::new(ResolverOptions {
            cache,
            debug_dirs: vec![self.path("debug")],
            ..ResolverOptions::default()
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Runs a tool; `false`, with a line that says why, when it is missing or does not know an option.
fn run(directory: &Directory, tool: &str, arguments: &[&str]) -> bool {
    match Command::new(tool)
        .args(arguments)
        .current_dir(&directory.0)
        .output()
    {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            println!(
                "skipped: {tool} {arguments:?}: {}",
                message.lines().next().unwrap_or_default()
            );
            false
        }
        Err(error) => {
            println!("skipped: {tool}: {error}");
            false
        }
    }
}

struct Program {
    path: PathBuf,
    build_id: Vec<u8>,
    symbols: Vec<(String, u64, u64)>,
}

impl Program {
    fn open(path: PathBuf) -> Self {
        let bytes = fs::read(&path).unwrap();
        let elf = ElfFile64::<object::LittleEndian>::parse(&*bytes).unwrap();
        let build_id = elf.build_id().unwrap().unwrap_or_default().to_vec();
        let symbols = elf
            .symbols()
            .filter(|symbol| symbol.is_definition())
            .filter_map(|symbol| {
                Some((
                    symbol.name().ok()?.to_owned(),
                    symbol.address(),
                    symbol.size(),
                ))
            })
            .collect();
        Self {
            path,
            build_id,
            symbols,
        }
    }

    fn desc(&self) -> ModuleDesc {
        ModuleDesc::new(&self.path, self.build_id.clone())
    }

    fn range(&self, symbol: &str) -> std::ops::Range<u64> {
        let (_, start, size) = self
            .symbols
            .iter()
            .find(|(name, _, _)| name == symbol)
            .unwrap_or_else(|| panic!("{symbol} in {:?}", self.symbols));
        *start..*start + *size
    }
}

fn names(frames: &[Symbolized]) -> Vec<&str> {
    frames.iter().map(|frame| &*frame.name).collect()
}

const NESTED_C: &str = "\
static volatile int sink;
static inline __attribute__((always_inline)) void inner(int value) {
    sink += value; /* line 3 */
}
static inline __attribute__((always_inline)) void middle(int value) {
    inner(value * 7); /* line 6 */
}
__attribute__((noinline)) void outer(int value) {
    middle(value + 1); /* line 9 */
}
__attribute__((noinline)) void free_(void) { sink = 3; }
int main(void) { outer(sink); free_(); return 0; }
";

/// The frames of `outer` and of what is inlined into it.
fn assert_nested(resolver: &Resolver, desc: &ModuleDesc, outer: std::ops::Range<u64>) {
    let module = resolver.module(desc);
    let addresses: Vec<u64> = outer.clone().collect();
    let all = resolver.resolve(module, &addresses);
    assert_eq!(all.len(), addresses.len());
    let deepest = all.iter().max_by_key(|frames| frames.len()).unwrap();
    assert_eq!(
        names(deepest),
        ["inner", "middle", "outer"],
        "{:?}",
        resolver.problems()
    );
    let lines: Vec<_> = deepest.iter().map(|frame| frame.line).collect();
    assert_eq!(lines, [Some(3), Some(6), Some(9)]);
    let inlined: Vec<_> = deepest.iter().map(|frame| frame.inlined).collect();
    assert_eq!(inlined, [true, true, false]);
    for frame in deepest.iter() {
        assert!(
            frame.file.as_deref().unwrap().ends_with("nested.c"),
            "{frame:?}"
        );
        assert_eq!(frame.function_start, outer.start);
    }
    for frames in &all {
        assert_eq!(&*frames.last().unwrap().name, "outer");
    }
}

fn compile_nested(directory: &Directory, options: &[&str]) -> Option<Program> {
    directory.file("nested.c", NESTED_C);
    let mut arguments = vec!["-O2", "-g", "-Wl,--build-id", "nested.c", "-o", "nested"];
    arguments.extend(options);
    run(directory, "gcc", &arguments).then(|| Program::open(directory.path("nested")))
}
