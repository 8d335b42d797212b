//! Interpreters of many versions, wherever they come from.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use crate::invocation::Invocation;
use crate::needs::must_not_skip;
use crate::simgpu::stack::{entering, missing_mounts, runtimes_dir};
use crate::workload::workloads_dir;

/// Versions whose frames are understood: 3.8 and what follows.
const UNDERSTOOD: std::ops::RangeInclusive<u32> = 8..=15;
/// Versions that come with a file tree of their own.
const IN_TREE: [u32; 2] = [14, 15];

/// An interpreter, and how its programs are run.
#[derive(Debug, Clone)]
pub struct Interpreter {
    path: PathBuf,
    minor: u32,
    free_threaded: bool,
    /// The file tree that it needs, for its C library is newer than ours.
    tree: Option<PathBuf>,
}

impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl Interpreter {
    /// The one at a path.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Option<Self> {
        let path = path.into();
        let (minor, free_threaded) = identity(&path)?;
        Some(Self {
            path,
            minor,
            free_threaded,
            tree: None,
        })
    }

    /// Whether it was built without the lock (GIL).
    #[must_use]
    pub fn is_free_threaded(&self) -> bool {
        self.free_threaded
    }

    /// The second number of its version: 11 for 3.11.
    #[must_use]
    pub fn minor(&self) -> u32 {
        self.minor
    }

    /// A Python workload.
    #[must_use]
    pub fn workload(&self, name: &str) -> Invocation {
        self.script(&workloads_dir().join(name))
    }

    /// A file with Python code.
    #[must_use]
    pub fn script(&self, file: &Path) -> Invocation {
        self.beside(Invocation::new(&self.path).arg("-u").arg(file))
    }

    /// A Python workload that this program, with these arguments, starts.
    #[must_use]
    pub fn workload_below<const N: usize>(&self, program: [&str; N], name: &str) -> Invocation {
        let [first, arguments @ ..] = program.as_slice() else {
            return self.workload(name);
        };
        let inner = Invocation::new(&self.path)
            .arg("-u")
            .arg(workloads_dir().join(name));
        self.beside(Invocation::new(first).args(arguments).program(inner))
    }

    /// A program, run where the interpreter's own files are.
    #[must_use]
    pub fn beside(&self, program: Invocation) -> Invocation {
        match &self.tree {
            Some(tree) => entering(tree).program(program),
            None => program,
        }
    }

    /// Its shared library, if it has one, by the path that [`Interpreter::beside`] finds it at.
    #[must_use]
    pub fn library(&self) -> Option<PathBuf> {
        if let Some(tree) = &self.tree {
            let name = format!("usr/lib/x86_64-linux-gnu/libpython3.{}.so.1.0", self.minor);
            return tree
                .join(&name)
                .is_file()
                .then(|| Path::new("/").join(name));
        }
        let question = "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('INSTSONAME'))";
        let said = Command::new(&self.path).args(["-c", question]).output();
        let path = PathBuf::from(String::from_utf8_lossy(&said.ok()?.stdout).trim());
        path.is_file().then_some(path)
    }

    /// What `PYTHONHOME` has to be for a program that has its library linked or opened.
    #[must_use]
    pub fn home(&self) -> &Path {
        let home = self.path.parent().and_then(Path::parent);
        home.unwrap_or(Path::new("/usr"))
    }
}

/// The interpreters whose frames are understood: the system's, those of pyenv, and those that `cargo xtask runtimes pythons` unpacks. Each
/// that is left out is told.
///
/// # Panics
/// Where nothing may be missing, when the unpacked ones are.
#[must_use]
pub fn pythons() -> Vec<Interpreter> {
    let folder = env::var_os("PYENV_ROOT").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".pyenv"),
        PathBuf::from,
    );
    let mut paths = vec![PathBuf::from("/usr/bin/python3")];
    paths.extend(
        fs::read_dir(folder.join("versions"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|version| version.path().join("bin/python3")),
    );
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        match Interpreter::at(&path) {
            Some(known) if UNDERSTOOD.contains(&known.minor) => found.push(known),
            Some(other) => println!("without {other} (3.{})", other.minor),
            None => println!("without {}, which does not start", path.display()),
        }
    }
    for minor in IN_TREE {
        match unpacked(minor) {
            Ok(interpreter) => found.push(interpreter),
            Err(why) => {
                assert!(!must_not_skip(), "{why}");
                println!("without 3.{minor}: {why}");
            }
        }
    }
    for interpreter in &found {
        println!("with {interpreter} (3.{})", interpreter.minor);
    }
    found
}

/// The interpreter of a version that is unpacked beside the system.
///
/// # Errors
/// Says why there is none, or why it cannot be used.
pub fn unpacked(minor: u32) -> Result<Interpreter, String> {
    let tree = runtimes_dir().join("pythons");
    if !tree.join(".complete").is_file() {
        return Err(format!(
            "there is no {}: `cargo xtask runtimes pythons` fetches it",
            tree.display()
        ));
    }
    if let Some(why) = missing_mounts() {
        return Err(why);
    }
    let name = format!("usr/bin/python3.{minor}");
    if !tree.join(&name).is_file() {
        return Err(format!("{} has no {name}", tree.display()));
    }
    Ok(Interpreter {
        path: Path::new("/").join(name),
        minor,
        free_threaded: false,
        tree: Some(tree),
    })
}

/// The minor version of a Python 3, and whether it was built without the lock.
fn identity(interpreter: &Path) -> Option<(u32, bool)> {
    let question = "import sys, sysconfig as s; print(sys.version_info[1], bool(s.get_config_var('Py_GIL_DISABLED')))";
    let said = Command::new(interpreter).args(["-c", question]).output();
    let said = String::from_utf8_lossy(&said.ok()?.stdout).into_owned();
    let (minor, free_threaded) = said.trim().split_once(' ')?;
    Some((minor.parse().ok()?, free_threaded == "True"))
}
