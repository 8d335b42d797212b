//! Names of programs that are compiled here, in the shapes in which distributors and users ship them.

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

#[test]
fn inlined_functions_have_frames_and_lines() {
    let directory = Directory::new("inlines");
    for options in [&["-gdwarf-4"][..], &["-gdwarf-5"], &["-gz=zlib"]] {
        let Some(program) = compile_nested(&directory, options) else {
            continue;
        };
        println!("with {options:?}");
        let resolver = directory.resolver(CacheLocation::Disabled);
        assert_nested(&resolver, &program.desc(), program.range("outer"));
        let module = resolver.module(&program.desc());
        let frames = resolver.resolve(module, &[program.range("free_").start]);
        assert_eq!(
            names(&frames[0]),
            ["free_"],
            "a C function keeps its underscore"
        );
        assert_eq!(frames[0][0].mangled, None);
    }
}

#[test]
fn without_inlines_there_is_one_frame() {
    let directory = Directory::new("no-inlines");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        inlines: false,
        ..ResolverOptions::default()
    });
    let module = resolver.module(&program.desc());
    for frames in resolver.resolve(module, &program.range("outer").collect::<Vec<_>>()) {
        assert_eq!(names(&frames), ["outer"]);
    }
}

#[test]
fn split_dwarf_in_a_package() {
    let directory = Directory::new("dwp");
    directory.file("nested.c", NESTED_C);
    if !run(
        &directory,
        "gcc",
        &["-O2", "-gdwarf-4", "-gsplit-dwarf", "-c", "nested.c"],
    ) || !run(
        &directory,
        "gcc",
        &["-Wl,--build-id", "nested.o", "-o", "nested"],
    ) || !run(&directory, "dwp", &["-e", "nested", "-o", "nested.dwp"])
    {
        return;
    }
    let program = Program::open(directory.path("nested"));
    fs::remove_file(directory.path("nested.dwo")).unwrap_or_default();
    assert_nested(
        &directory.resolver(CacheLocation::Disabled),
        &program.desc(),
        program.range("outer"),
    );
}

#[test]
fn separate_debug_file_by_build_id() {
    let directory = Directory::new("by-build-id");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let id: String = program
        .build_id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let place = directory.path("debug/.build-id").join(&id[..2]);
    fs::create_dir_all(&place).unwrap();
    let debug = place.join(format!("{}.debug", &id[2..]));
    if !run(
        &directory,
        "objcopy",
        &["--only-keep-debug", "nested", debug.to_str().unwrap()],
    ) || !run(&directory, "strip", &["nested"])
    {
        return;
    }
    assert_nested(
        &directory.resolver(CacheLocation::Disabled),
        &program.desc(),
        program.range("outer"),
    );

    // The debug file serves even when the program itself is gone.
    fs::remove_file(&program.path).unwrap();
    assert_nested(
        &directory.resolver(CacheLocation::Disabled),
        &program.desc(),
        program.range("outer"),
    );
}

#[test]
fn separate_debug_file_by_link() {
    let directory = Directory::new("by-link");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    if !run(
        &directory,
        "objcopy",
        &["--only-keep-debug", "nested", "nested.debug"],
    ) || !run(
        &directory,
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=nested.debug", "nested"],
    ) {
        return;
    }
    assert_nested(
        &directory.resolver(CacheLocation::Disabled),
        &program.desc(),
        program.range("outer"),
    );

    // A link to a file that was changed since must not cost the module the names that it has itself.
    fs::write(directory.path("nested.debug"), "not what it was").unwrap();
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    let frames = resolver.resolve(module, &[program.range("outer").start]);
    assert_eq!(
        names(&frames[0]),
        [format!("nested+{:#x}", program.range("outer").start)]
    );
    assert!(resolver.problems().is_empty(), "{:?}", resolver.problems());
}

#[test]
fn a_broken_debug_link_leaves_the_dynamic_symbols() {
    let directory = Directory::new("dynamic");
    let Some(program) = compile_nested(&directory, &["-rdynamic"]) else {
        return;
    };
    if !run(
        &directory,
        "objcopy",
        &["--only-keep-debug", "nested", "nested.debug"],
    ) || !run(
        &directory,
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=nested.debug", "nested"],
    ) {
        return;
    }
    fs::write(directory.path("nested.debug"), "not what it was").unwrap();
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    let frames = resolver.resolve(module, &[program.range("outer").start]);
    assert_eq!(names(&frames[0]), ["outer"]);
}

#[test]
fn mini_debug_info() {
    let directory = Directory::new("mini");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    if !run(&directory, "objcopy", &["--strip-debug", "nested", "mini"])
        || !run(&directory, "xz", &["-f", "mini"])
        || !run(&directory, "strip", &["nested"])
        || !run(
            &directory,
            "objcopy",
            &["--add-section=.gnu_debugdata=mini.xz", "nested"],
        )
    {
        return;
    }
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    let frames = resolver.resolve(module, &[program.range("outer").start]);
    assert_eq!(names(&frames[0]), ["outer"]);
}

#[test]
fn cplusplus_names() {
    let directory = Directory::new("cplusplus");
    directory.file(
        "shapes.cc",
        "namespace geometry {
         struct Point { double x; __attribute__((noinline)) double norm(int p) const { return x * p; } };
         template <typename T> __attribute__((noinline)) T area(T side) { return side * side; }
         }
         int main(int argc, char**) {
             auto twice = [](int v) __attribute__((noinline, noipa)) { return v * 2; };
             geometry::Point point{1.5};
             return int(geometry::area<double>(argc) + point.norm(argc)) + geometry::area(argc) + twice(argc);
         }",
    );
    for debug in ["-g", "-g0"] {
        if !run(
            &directory,
            "g++",
            &["-O1", debug, "-Wl,--build-id", "shapes.cc", "-o", "shapes"],
        ) {
            return;
        }
        let program = Program::open(directory.path("shapes"));
        let resolver = directory.resolver(CacheLocation::Disabled);
        let module = resolver.module(&program.desc());
        for (mangled, expected) in [
            (
                "_ZN8geometry4areaIdEET_S1_",
                "double geometry::area<double>(double)",
            ),
            ("_ZN8geometry4areaIiEET_S1_", "int geometry::area<int>(int)"),
            (
                "_ZNK8geometry5Point4normEi",
                "geometry::Point::norm(int) const",
            ),
        ] {
            let frames = resolver.resolve(module, &[program.range(mangled).start]);
            assert_eq!(&*frames[0].last().unwrap().name, expected);
            assert_eq!(frames[0].last().unwrap().mangled.as_deref(), Some(mangled));
        }
        let starts: Vec<u64> = program.symbols.iter().map(|symbol| symbol.1).collect();
        let all = resolver.resolve(module, &starts);
        let found: Vec<&str> = all
            .iter()
            .map(|frames| &*frames.last().unwrap().name)
            .collect();
        assert!(
            found
                .iter()
                .any(|name| name.starts_with("main::{lambda(int)#1}")),
            "{found:?}"
        );
    }
}

#[test]
fn rust_names_in_both_manglings() {
    let directory = Directory::new("rust");
    directory.file(
        "deep.rs",
        "pub mod inner { pub struct Thing(pub u64); impl Thing { #[inline(never)] pub fn grow(&self) -> u64 { self.0 * 3 } } }
         #[inline(never)] pub fn apply<F: Fn(u64) -> u64>(f: F) -> u64 { f(std::env::args().count() as u64) }
         fn main() { let t = inner::Thing(std::process::id() as u64); println!(\"{}\", apply(|x| x + t.grow())); }",
    );
    for (mangling, extra) in [
        ("v0", &["-Csymbol-mangling-version=v0"][..]),
        ("legacy", &[]),
    ] {
        let mut arguments = vec!["-O", "-g", "-Clink-arg=-Wl,--build-id", "deep.rs"];
        arguments.extend(extra);
        if !run(&directory, "rustc", &arguments) {
            return;
        }
        let program = Program::open(directory.path("deep"));
        let (symbol, start, _) = program
            .symbols
            .iter()
            .find(|(name, _, _)| name.contains("grow"))
            .unwrap();
        let resolver = directory.resolver(CacheLocation::Disabled);
        let module = resolver.module(&program.desc());
        let frames = resolver.resolve(module, &[*start]);
        let frame = frames[0].last().unwrap();
        let expected = if symbol.starts_with("_R") {
            "<deep::inner::Thing>::grow"
        } else {
            "deep::inner::Thing::grow"
        };
        assert_eq!(&*frame.name, expected, "{mangling}");
        assert_eq!(frame.mangled.as_deref(), Some(symbol.as_str()));
    }
}

#[test]
fn fortran_names() {
    let directory = Directory::new("fortran");
    directory.file(
        "stencil.f90",
        "module solver
contains
subroutine step(n, a)
  integer, intent(in) :: n
  real(8), intent(inout) :: a(n)
  integer :: i
  do i = 2, n - 1
    a(i) = 0.5d0 * (a(i - 1) + a(i + 1))
  end do
end subroutine
end module
subroutine plain(n)
  integer, intent(inout) :: n
  n = n * 3
end subroutine
program main
  use solver
  real(8) :: a(100)
  integer :: n
  a = 1
  n = 100
  call step(n, a)
  call plain(n)
  print *, a(5), n
end program
",
    );
    if !run(
        &directory,
        "gfortran",
        &[
            "-O1",
            "-g",
            "-fno-inline",
            "-Wl,--build-id",
            "stencil.f90",
            "-o",
            "stencil",
        ],
    ) {
        return;
    }
    let program = Program::open(directory.path("stencil"));
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    for (symbol, expected) in [("__solver_MOD_step", "solver::step"), ("plain_", "plain")] {
        let frames = resolver.resolve(module, &[program.range(symbol).start]);
        assert_eq!(&*frames[0].last().unwrap().name, expected);
    }
}

/// The same rules with names that a C compiler was told to make, for machines without a Fortran compiler.
#[test]
fn fortran_names_made_by_hand() {
    let directory = Directory::new("fortran-c");
    directory.file(
        "made.c",
        "volatile int sink;
         void step(void) __asm__(\"__solver_MOD_step\");
         void plain_(void);
         #line 10 \"made.f90\"
         __attribute__((noinline)) void step(void) { sink = 1; }
         __attribute__((noinline)) void plain_(void) { sink = 2; }
         int main(void) { step(); plain_(); return 0; }",
    );
    if !run(
        &directory,
        "gcc",
        &["-O1", "-g", "-Wl,--build-id", "made.c", "-o", "made"],
    ) {
        return;
    }
    let program = Program::open(directory.path("made"));
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    for (symbol, expected) in [("__solver_MOD_step", "solver::step"), ("plain_", "plain")] {
        let frames = resolver.resolve(module, &[program.range(symbol).start]);
        assert_eq!(
            &*frames[0].last().unwrap().name,
            expected,
            "{:?}",
            frames[0]
        );
    }
}

#[test]
fn a_replaced_file_gives_no_names() {
    let directory = Directory::new("replaced");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let start = program.range("outer").start;
    directory.file(
        "nested.c",
        "int other(void) { return 1; } int main(void) { return other(); }",
    );
    assert!(run(
        &directory,
        "gcc",
        &["-Wl,--build-id", "nested.c", "-o", "nested"]
    ));
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    let frames = resolver.resolve(module, &[start, start]);
    assert_eq!(frames.len(), 2);
    assert_eq!(names(&frames[0]), [format!("nested+{start:#x}")]);
    assert!(matches!(
        resolver.problems()[0].2,
        ModuleProblem::BuildIdMismatch { .. }
    ));
    let stats = resolver.stats();
    assert_eq!(
        (
            stats.modules_unusable,
            stats.modules_replaced,
            stats.unresolved
        ),
        (1, 1, 1)
    );
}

#[test]
fn a_missing_file_is_found_in_the_root_of_its_process() {
    let directory = Directory::new("root");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let root = directory.path("root");
    fs::create_dir_all(root.join("app")).unwrap();
    fs::rename(&program.path, root.join("app/nested")).unwrap();
    let mut desc = ModuleDesc::new("/app/nested (deleted)", program.build_id.clone());
    let resolver = directory.resolver(CacheLocation::Disabled);
    let start = program.range("outer").start;

    let module = resolver.module(&desc);
    assert_eq!(
        names(&resolver.resolve(module, &[start])[0]),
        [format!("nested+{start:#x}")]
    );
    assert_eq!(resolver.stats().modules_missing, 1);

    // Another process knows the way.
    desc.root = Some(root);
    assert_eq!(resolver.module(&desc), module);
    assert_nested(&resolver, &desc, program.range("outer"));
    assert_eq!(resolver.stats().modules_missing, 0);
}

#[test]
fn a_later_run_opens_no_file() {
    let directory = Directory::new("cache");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let cache = CacheLocation::Directory(directory.path("cache"));
    let addresses: Vec<u64> =
        (program.range("outer").start - 64..program.range("outer").end + 64).collect();
    let answer = |resolver: &Resolver| -> Vec<Arc<[Symbolized]>> {
        resolver.resolve(resolver.module(&program.desc()), &addresses)
    };

    let first_run = directory.resolver(cache.clone());
    let expected = answer(&first_run);
    assert_eq!(first_run.stats().modules_opened, 1);
    drop(first_run);

    let second_run = directory.resolver(cache.clone());
    assert_eq!(answer(&second_run), expected);
    let stats = second_run.stats();
    assert_eq!(
        (stats.modules_opened, stats.disk_hits),
        (0, addresses.len() as u64)
    );
    drop(second_run);

    // A damaged file is not believed, and replaced.
    let file = fs::read_dir(directory.path("cache/symbols"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 0xff;
    fs::write(&file, &bad).unwrap();
    let third_run = directory.resolver(cache.clone());
    assert_eq!(answer(&third_run), expected);
    assert_eq!(third_run.stats().cache_files_rejected, 1);
    drop(third_run);
    assert_eq!(fs::read(&file).unwrap().len(), good.len());

    // The file was stripped since (same build-id): old names could be better, but are not of this file.
    assert!(run(&directory, "strip", &["-o", "stripped", "nested"]));
    fs::rename(directory.path("stripped"), &program.path).unwrap();
    let fourth_run = directory.resolver(cache.clone());
    let frames = answer(&fourth_run);
    assert_eq!(fourth_run.stats().modules_opened, 1);
    assert_ne!(frames, expected);
    drop(fourth_run);

    // It was removed: what is known is all there is.
    fs::write(&file, &good).unwrap();
    fs::remove_file(&program.path).unwrap();
    assert_eq!(
        names(&answer(&directory.resolver(cache))[70]).last(),
        Some(&"outer")
    );
}

#[test]
fn a_file_without_build_id_is_known_by_its_time_and_size() {
    let directory = Directory::new("no-build-id");
    let Some(program) = compile_nested(&directory, &["-Wl,--build-id=none"]) else {
        return;
    };
    assert!(program.build_id.is_empty());
    let cache = CacheLocation::Directory(directory.path("cache"));
    let mut opened = Vec::new();
    for run in 0..3 {
        if run == 2 {
            let later = std::time::SystemTime::now() + Duration::from_secs(1);
            let file = fs::File::options()
                .append(true)
                .open(&program.path)
                .unwrap();
            file.set_modified(later).unwrap();
        }
        let resolver = directory.resolver(cache.clone());
        assert_nested(&resolver, &program.desc(), program.range("outer"));
        opened.push(resolver.stats().modules_opened);
    }
    assert_eq!(opened, [1, 0, 1]);
}

#[test]
fn other_inline_options_do_not_share_results() {
    let directory = Directory::new("options");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let cache = CacheLocation::Directory(directory.path("cache"));
    let outer: Vec<u64> = program.range("outer").collect();
    for inlines in [true, false, true] {
        let resolver = Resolver::new(ResolverOptions {
            cache: cache.clone(),
            inlines,
            ..ResolverOptions::default()
        });
        let module = resolver.module(&program.desc());
        let depth = resolver
            .resolve(module, &outer)
            .iter()
            .map(|frames| frames.len())
            .max();
        assert_eq!(depth, Some(if inlines { 3 } else { 1 }));
    }
}

/// Copies of a program with random damage: any answer is right, as long as there is one.
#[test]
fn damaged_files_do_no_harm() {
    let directory = Directory::new("damaged");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let good = fs::read(&program.path).unwrap();
    let addresses: Vec<u64> = program
        .range("outer")
        .chain([0, 1, u64::MAX, 1 << 63])
        .collect();
    let mut state = 99_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        open_idle_max: Duration::from_millis(10),
        ..ResolverOptions::default()
    });
    let mut requests = Vec::new();
    for index in 0..400 {
        let mut bad = good.clone();
        for _ in 0..1 + random(30) {
            // Headers at both ends, debug sections in between.
            let at = match random(3) {
                0 => random(64.min(bad.len())),
                1 => bad.len() - 1 - random(2_000),
                _ => random(bad.len()),
            };
            bad[at] = random(256) as u8;
        }
        if random(4) == 0 {
            bad.truncate(random(good.len()));
        }
        let path = directory.path(&format!("bad{index}"));
        fs::write(&path, &bad).unwrap();
        requests.push((
            resolver.module(&ModuleDesc::new(&path, Vec::new())),
            addresses.clone(),
        ));
    }
    for frames in resolver.resolve_many(&requests) {
        assert_eq!(frames.len(), addresses.len());
        assert!(frames.iter().all(|frames| !frames.is_empty()));
    }
    println!("{:?}", resolver.stats());
}

#[test]
fn many_threads_share_a_resolver() {
    let directory = Directory::new("threads");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        threads: 3,
        open_bytes_max: 1,
        ..ResolverOptions::default()
    });
    let addresses: Vec<u64> = program.range("outer").collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (resolver, program, addresses) = (&resolver, &program, &addresses);
            scope.spawn(move || {
                for round in 0..20 {
                    resolver.set_background((thread + round) % 5 == 0);
                    let module = resolver.module(&program.desc());
                    let slice = &addresses[..1 + (thread * 7 + round) % addresses.len()];
                    for frames in resolver.resolve(module, slice) {
                        assert_eq!(&*frames.last().unwrap().name, "outer");
                    }
                }
            });
        }
    });
    assert_eq!(resolver.stats().modules, 1);
}

#[test]
fn what_cannot_be_cached_is_still_resolved() {
    let directory = Directory::new("no-cache");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let blocked = directory.file("blocked", "a file where the directory should be");
    let resolver = directory.resolver(CacheLocation::Directory(blocked));
    assert_nested(&resolver, &program.desc(), program.range("outer"));
    resolver.flush();
}

#[test]
fn paths_that_are_no_files() {
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        ..ResolverOptions::default()
    });
    for (path, expected) in [
        ("[heap]", "[heap]+0x10"),
        ("", "[anonymous]+0x10"),
        ("/dev/zero", "zero+0x10"),
        ("/dev/shm/gone (deleted)", "gone+0x10"),
        ("relative.so", "relative.so+0x10"),
    ] {
        let module = resolver.module(&ModuleDesc::new(Path::new(path), Vec::new()));
        assert_eq!(names(&resolver.resolve(module, &[0x10])[0]), [expected]);
    }
    assert_eq!(resolver.problems().len(), 5);
}
