//! Makes the stand-ins for `libc.so` and `libm.so`, and has the linker find them first.

mod exports;
mod stub;

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use exports::{Export, read_exports};
use stub::Stubs;

/// The oldest glibc that agent and programs run on.
const FLOOR: [u32; 3] = [2, 17, 0];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return ExitCode::SUCCESS;
    }
    match make() {
        Ok(folder) => println!("cargo:rustc-link-search=native={}", folder.display()),
        // What is built then runs here, and on whatever is newer.
        Err(error) => println!(
            "cargo:warning=what is built needs a C library as new as this machine's: {error}"
        ),
    }
    ExitCode::SUCCESS
}

/// Fills the output folder with `libc.so` and what it refers to.
fn make() -> Outcome<PathBuf> {
    let compiler = Compiler(env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into()));
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("there is no OUT_DIR")?);
    let script = fs::read_to_string(compiler.file("libc.so")?)?;
    // The script names the C library, its loader and an archive of what is linked into every program.
    let words: Vec<&str> = script.split_whitespace().collect();
    let named = |part: &str| words.iter().find(|word| word.contains(part)).copied();
    let library = named("/libc.so.").ok_or("libc.so names no C library")?;
    let loader = named("/ld-linux").ok_or("libc.so names no loader")?;
    let mut exports = read_exports(&fs::read(library)?)?;
    // The loader's few functions are found wherever they are: nothing needs it by name, and other C libraries have another.
    exports.extend(read_exports(&fs::read(loader)?)?);
    let stubs = Stubs::new(exports);
    let start = stubs
        .version_of("__libc_start_main")
        .ok_or("the C library starts no programs")?;
    let mut files = stubs.write(&out, |source, map, soname, library| {
        compiler.run(&[
            "-shared".as_ref(),
            "-nostdlib".as_ref(),
            format!("-Wl,-soname,{soname}").as_ref(),
            format!("-Wl,--version-script={}", map.display()).as_ref(),
            source.as_os_str(),
            "-o".as_ref(),
            library.as_os_str(),
        ])
    })?;
    let start = format!("-DSTART=\"__libc_start_main@{start}\"");
    let old = archive(&compiler, &out, "libold.a", &["old", "start"], &start)?;
    // In front: a function that the floor lacks is taken from here.
    files.insert(0, old.display().to_string());
    files.extend(named("libc_nonshared.a").map(str::to_owned));
    fs::write(
        out.join("libc.so"),
        format!("GROUP ( {} )\n", files.join(" ")),
    )?;
    // The mathematical library has all versions of its functions: it is enough to ask for the old ones.
    let math = archive(&compiler, &out, "libmath.a", &["math"], &start)?;
    let library = compiler.file("libm.so.6")?;
    let group = format!("GROUP ( {} AS_NEEDED ( {library} ) )\n", math.display());
    fs::write(out.join("libm.so"), group)?;
    Ok(out)
}

/// Compiles what the floor's C library lacks, from files of these names.
fn archive(
    compiler: &Compiler,
    out: &Path,
    archive: &str,
    names: &[&str],
    start: &str,
) -> Outcome<PathBuf> {
    let archive = out.join(archive);
    // An old one would keep members that are gone.
    if archive.exists() {
        fs::remove_file(&archive)?;
    }
    let mut command = Command::new(compiler.print("-print-prog-name=ar")?);
    command.arg("crs").arg(&archive);
    for name in names {
        let object = out.join(name).with_extension("o");
        compiler.run(&[
            "-c".as_ref(),
            "-O2".as_ref(),
            "-fPIC".as_ref(),
            "-fvisibility=hidden".as_ref(),
            "-ffunction-sections".as_ref(),
            "-fno-stack-protector".as_ref(),
            "-fno-builtin".as_ref(),
            start.as_ref(),
            Path::new("build").join(name).with_extension("c").as_ref(),
            "-o".as_ref(),
            object.as_ref(),
        ])?;
        command.arg(object);
    }
    finish(&mut command)?;
    Ok(archive)
}

/// The C compiler that links Rust programs.
struct Compiler(OsString);

impl Compiler {
    fn run(&self, arguments: &[&std::ffi::OsStr]) -> Outcome<()> {
        finish(Command::new(&self.0).args(arguments)).map(drop)
    }

    fn print(&self, question: &str) -> Outcome<String> {
        Ok(finish(Command::new(&self.0).arg(question))?
            .trim()
            .to_owned())
    }

    /// The file of this name that the compiler would link with.
    fn file(&self, name: &str) -> Outcome<String> {
        self.print(&format!("-print-file-name={name}"))
    }
}

/// Runs a command; what it prints on success.
fn finish(command: &mut Command) -> Outcome<String> {
    let done = command
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if !done.status.success() {
        let complaint = String::from_utf8_lossy(&done.stderr);
        let complaint: Vec<_> = complaint.split_whitespace().collect();
        return Err(format!("{command:?}: {}", complaint.join(" ")).into());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The numbers in a version's name, such as `GLIBC_2.2.5`; `None` for what is private.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    let mut words = version.strip_prefix("GLIBC_")?.split('.');
    for number in &mut numbers {
        let Some(word) = words.next() else { break };
        *number = word.parse().ok()?;
    }
    Some(numbers)
}

impl Export {
    /// Whether the floor's C library has it.
    fn is_old(&self) -> bool {
        numbers(&self.version).is_some_and(|version| version <= FLOOR)
    }
}
