//! Workloads: small programs in `tests/workloads`, compiled when a test asks for them.
//!
//! `NAME.c` (or `.cpp`, `.f90`) is a program. `NAME/main.c` is a program with companions in the same folder: every
//! `lib*.c` becomes a shared library that it is linked to, every `plugin*.c` one that it may open at run time. The
//! results are kept below `target/workloads` under a name made from sources, compiler and flags.

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use crate::invocation::Invocation;
use crate::paths::{target_dir, workspace_dir};

const SOURCE_ENDINGS: &[(&str, &str)] = &[("c", "gcc"), ("cpp", "g++"), ("f90", "gfortran")];
const DEFAULT_FLAGS: &[&str] = &["-O2", "-g"];

/// A program to compile.
#[derive(Debug, Clone)]
pub struct Workload {
    name: String,
    compiler: Option<String>,
    flags: Vec<String>,
    invocation: Invocation,
}

/// The workload of this name, to be compiled by gcc with `-O2 -g`.
#[must_use]
pub fn workload(name: &str) -> Workload {
    let flags = DEFAULT_FLAGS.iter().map(|&flag| flag.to_owned()).collect();
    Workload {
        name: name.to_owned(),
        compiler: None,
        flags,
        invocation: Invocation::new(""),
    }
}

/// A Python workload, run by the system's interpreter.
#[must_use]
pub fn python(name: &str) -> Invocation {
    Invocation::new("/usr/bin/python3")
        .arg("-u")
        .arg(workloads_dir().join(name))
}

/// The source of a program in a language that brings its own run-time system.
#[must_use]
pub fn language_source(name: &str) -> PathBuf {
    workloads_dir().join("languages").join(name)
}

/// A line for the shell.
#[must_use]
pub fn script(line: &str) -> Invocation {
    Invocation::new("/bin/sh").args(["-c", line])
}

impl Workload {
    /// Another compiler.
    #[must_use]
    pub fn compiler(mut self, compiler: &str) -> Self {
        self.compiler = Some(compiler.to_owned());
        self
    }

    /// These flags instead of `-O2 -g`.
    #[must_use]
    pub fn flags<S: AsRef<str>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags = flags
            .into_iter()
            .map(|flag| flag.as_ref().to_owned())
            .collect();
        self
    }

    /// Arguments for the program.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.invocation = self.invocation.args(args);
        self
    }

    /// Compiles, unless that was done before, and returns the program's path.
    ///
    /// # Errors
    /// When the compiler is missing or not content.
    pub fn build(&self) -> Result<PathBuf> {
        let sources = Sources::find(&self.name)?;
        let compiler = self
            .compiler
            .clone()
            .unwrap_or_else(|| sources.compiler.to_owned());
        let folder = target_dir()
            .join("workloads")
            .join(format!("{:016x}", self.fingerprint(&compiler, &sources)?));
        let program = folder.join(&self.name);
        if program.is_file() {
            return Ok(program);
        }
        // Several tests may want the same program: whoever is ready first puts the folder into place.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let draft = folder.with_extension(format!("{}-{number}.draft", process::id()));
        fs::create_dir_all(&draft)?;
        self.compile(&compiler, &sources, &draft)?;
        if fs::rename(&draft, &folder).is_err() {
            fs::remove_dir_all(&draft)?;
        }
        if program.is_file() {
            Ok(program)
        } else {
            bail!("{} was not made", program.display())
        }
    }

    fn compile(&self, compiler: &str, sources: &Sources, folder: &Path) -> Result<()> {
        let include = workloads_dir();
        let common = || {
            let mut command = Command::new(compiler);
            // Some compilers leave files where they run.
            command
                .current_dir(folder)
                .args(&self.flags)
                .arg("-pthread")
                .arg("-I")
                .arg(&include);
            command
        };
        for library in sources.libraries.iter().chain(&sources.plugins) {
            let stem = library.file_stem().unwrap_or_default().to_string_lossy();
            let made = folder.join(format!("{stem}.so"));
            run_compiler(
                common()
                    .args(["-shared", "-fPIC"])
                    .arg(library)
                    .arg("-o")
                    .arg(made),
            )?;
        }
        let mut command = common();
        command
            .arg(&sources.main)
            .arg("-o")
            .arg(folder.join(&self.name))
            .arg("-L")
            .arg(folder);
        for library in &sources.libraries {
            let stem = library.file_stem().unwrap_or_default().to_string_lossy();
            command.arg(format!("-l:{stem}.so"));
        }
        run_compiler(command.args(["-Wl,-rpath,$ORIGIN", "-lm", "-ldl", "-lrt"]))
    }

    fn fingerprint(&self, compiler: &str, sources: &Sources) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        (compiler, &self.name, &self.flags).hash(&mut hasher);
        let headers = fs::read_dir(workloads_dir())?
            .flatten()
            .map(|entry| entry.path());
        let mut inputs: Vec<PathBuf> = headers
            .filter(|path| path.extension() == Some(OsStr::new("h")))
            .collect();
        inputs.sort();
        inputs.extend(sources.all());
        for input in inputs {
            fs::read(&input)
                .with_context(|| format!("cannot read {}", input.display()))?
                .hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
}

impl From<Workload> for Invocation {
    /// Compiles the program.
    ///
    /// # Panics
    /// When it does not compile: a test cannot go on without its workload.
    fn from(workload: Workload) -> Self {
        let program = workload
            .build()
            .unwrap_or_else(|error| panic!("workload {}: {error:#}", workload.name));
        let mut invocation = workload.invocation;
        invocation.words[0] = program.into();
        invocation
    }
}

struct Sources {
    compiler: &'static str,
    main: PathBuf,
    libraries: Vec<PathBuf>,
    plugins: Vec<PathBuf>,
}

impl Sources {
    fn find(name: &str) -> Result<Self> {
        for &(ending, compiler) in SOURCE_ENDINGS {
            let alone = workloads_dir().join(format!("{name}.{ending}"));
            if alone.is_file() {
                return Ok(Self {
                    compiler,
                    main: alone,
                    libraries: Vec::new(),
                    plugins: Vec::new(),
                });
            }
            let main = workloads_dir().join(name).join(format!("main.{ending}"));
            if main.is_file() {
                let (libraries, plugins) = (
                    companions(&main, "lib", ending)?,
                    companions(&main, "plugin", ending)?,
                );
                return Ok(Self {
                    compiler,
                    main,
                    libraries,
                    plugins,
                });
            }
        }
        bail!(
            "there is no workload `{name}` in {}",
            workloads_dir().display()
        )
    }

    fn all(&self) -> impl Iterator<Item = PathBuf> {
        [&self.main]
            .into_iter()
            .chain(&self.libraries)
            .chain(&self.plugins)
            .cloned()
    }
}

fn companions(main: &Path, start: &str, ending: &str) -> Result<Vec<PathBuf>> {
    let folder = main.parent().context("a source without a folder")?;
    let belongs = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(&format!(".{ending}"))
    };
    let mut found: Vec<PathBuf> = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(belongs)
        .collect();
    found.sort();
    Ok(found)
}

fn run_compiler(command: &mut Command) -> Result<()> {
    let done = command
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !done.status.success() {
        bail!("{command:?}\n{}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

pub(crate) fn workloads_dir() -> PathBuf {
    workspace_dir().join("tests/workloads")
}
