//! Which libraries of ROCm a given program would load.

use std::io;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::library::{Kind, Library};
use super::loads::Loader;
use super::python;
use crate::roots::{Roots, names};

/// What a program would load.
#[derive(Debug)]
pub struct Program {
    /// The program that the kernel starts: the interpreter of a script.
    pub path: PathBuf,
    /// Its libraries of ROCm, and how each is found.
    pub libraries: Vec<(Library, String)>,
    /// Libraries of ROCm that are needed and not found, with the file that needs them.
    pub missing: Vec<(String, String)>,
    /// Whether a loader loads it: rsys cannot be in static programs.
    pub is_dynamic: bool,
    /// The script that it interprets, if that is what was named.
    pub script: Option<PathBuf>,
    /// Whether it is a Python interpreter.
    pub is_python: bool,
    /// The PyTorch that this Python would import.
    pub torch: Option<PathBuf>,
    /// All files that are loaded, the program first: paths of the machine without links.
    pub files: Vec<PathBuf>,
}

/// Scripts may be interpreted by scripts.
const MOST_INTERPRETERS: usize = 4;

impl Program {
    /// Looks at a program: a path, or a name that is searched in `PATH`.
    ///
    /// # Errors
    /// When there is no such program, or it is neither for this processor nor a script.
    pub fn look_at(roots: &Roots, environment: &Environment, program: &Path) -> io::Result<Self> {
        let named = find(roots, environment, program)?;
        let mut path = named.clone();
        for _ in 0..MOST_INTERPRETERS {
            let Some(words) = interpreter(roots, &path) else {
                break;
            };
            path = find(roots, environment, Path::new(&words))?;
        }
        let mut loader = Loader::start(roots, environment, &path)?;
        let real = roots.resolve(&path).unwrap_or_else(|| path.clone());
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        let is_python = name.starts_with("python");
        let torch = if is_python {
            open_torch(roots, environment, &path, &mut loader)
        } else {
            None
        };
        let of_kind = |path: &Path| Kind::of_file(&path.file_name()?.to_string_lossy());
        let found = loader.loaded.iter().filter_map(|loaded| {
            let kind = of_kind(&loaded.path)?;
            Some((Library::read(roots, kind, &loaded.path), loaded.way.text()))
        });
        let mut libraries: Vec<(Library, String)> = found.collect();
        libraries.sort_by_key(|(library, _)| library.kind);
        let mut missing = loader.missing.clone();
        missing.retain(|(name, _)| Kind::of_file(name).is_some());
        Ok(Self {
            is_dynamic: loader.is_dynamic(),
            script: (named != path).then_some(named),
            path,
            libraries,
            missing,
            is_python,
            torch,
            files: loader
                .loaded
                .iter()
                .map(|loaded| loaded.path.clone())
                .collect(),
        })
    }

    /// What a running process has loaded, by its table of mappings.
    ///
    /// # Errors
    /// When there is no such process, or its files may not be seen.
    pub fn of_process(roots: &Roots, pid: u32) -> io::Result<Self> {
        let process = roots.path(&format!("proc/{pid}"));
        let path = std::fs::read_link(process.join("exe"))?;
        // Paths are whatever bytes somebody chose.
        let maps = std::fs::read(process.join("maps"))?;
        let maps = String::from_utf8_lossy(&maps);
        let mut files = vec![path.clone()];
        for file in maps.lines().filter_map(mapped_code) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        let of_kind = |path: &PathBuf| {
            let kind = Kind::of_file(&path.file_name()?.to_string_lossy())?;
            Some((Library::read(roots, kind, path), "mapped".to_owned()))
        };
        let mut libraries: Vec<(Library, String)> = files.iter().filter_map(of_kind).collect();
        libraries.sort_by_key(|(library, _)| library.kind);
        let is_loader = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("ld-") || name.starts_with("ld.so")
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            is_dynamic: files.iter().any(is_loader),
            is_python: name.starts_with("python"),
            script: None,
            path,
            libraries,
            missing: Vec::new(),
            torch: None,
            files,
        })
    }

    /// Its library of this kind.
    #[must_use]
    pub fn library(&self, kind: Kind) -> Option<&Library> {
        let mut libraries = self.libraries.iter().map(|(library, _)| library);
        libraries.find(|library| library.kind == kind)
    }
}

/// The program's path, links not followed, as it is named or as `PATH` leads to it.
fn find(roots: &Roots, environment: &Environment, program: &Path) -> io::Result<PathBuf> {
    let is_file = |path: &Path| {
        let real = roots.resolve(path);
        real.map(|real| roots.inside(&real).is_file())
    };
    if program.components().count() > 1 || program.is_absolute() {
        let path = environment.absolute(program);
        return match is_file(&path) {
            Some(true) => Ok(path),
            Some(false) => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file")),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        };
    }
    let paths = environment.folders("PATH").into_iter();
    let mut paths = paths.map(|folder| folder.join(program));
    paths
        .find(|path| is_file(path) == Some(true))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such program in PATH"))
}

/// The file of a line of `/proc/PID/maps`, if code of it is mapped there.
fn mapped_code(line: &str) -> Option<PathBuf> {
    let mut words = line.split_ascii_whitespace();
    let is_code = words.nth(1)?.contains('x');
    let at = line.find('/')?;
    is_code.then(|| PathBuf::from(line[at..].trim_end_matches(" (deleted)")))
}

/// What interprets a script: the program of its first line, or the word behind `env` there.
fn interpreter(roots: &Roots, path: &Path) -> Option<String> {
    use std::io::Read;
    // The kernel reads no more of the line either.
    let mut start = Vec::new();
    let file = std::fs::File::open(roots.inside(&roots.resolve(path)?)).ok()?;
    file.take(256).read_to_end(&mut start).ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if Path::new(first).file_name()? == "env" {
        let mut words = words.filter(|word| !word.starts_with('-') && !word.contains('='));
        return Some(words.next()?.to_owned());
    }
    Some(first.to_owned())
}

/// Loads what `import torch` would load in this interpreter.
fn open_torch(
    roots: &Roots,
    environment: &Environment,
    program: &Path,
    loader: &mut Loader<'_>,
) -> Option<PathBuf> {
    let mut sites = python::sites_of(roots, environment, program).into_iter();
    let site = sites.find(|site| roots.inside(&site.join("torch/lib")).is_dir())?;
    let torch = site.join("torch");
    // A PyTorch that goes with ROCm's wheels opens their libraries first.
    if roots.inside(&torch.join("_rocm_init.py")).is_file() {
        for folder in python::rocm_wheels(roots, &site) {
            let files = names(&roots.inside(&folder));
            for file in files.iter().filter(|file| {
                matches!(
                    Kind::of_file(file),
                    Some(Kind::Hip | Kind::Hsa | Kind::Rccl | Kind::Roctx)
                )
            }) {
                // One that cannot be read is found missing where it is needed.
                loader.open(&folder.join(file)).ok();
            }
        }
    }
    for library in ["libtorch_python.so", "libtorch_hip.so"] {
        loader.open(&torch.join("lib").join(library)).ok();
    }
    Some(torch)
}
