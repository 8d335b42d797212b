//! Which libraries a program loads when it starts, by the rules of glibc's loader (`man ld.so`).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use super::cache;
use super::elf::Elf;
use super::environment::Environment;
use crate::roots::Roots;

/// The folders that are searched last.
pub const DEFAULT_FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// How the loader found a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// It is the program, or what it opens by its path.
    Itself,
    /// By the DT_RPATH of a file.
    Rpath(String),
    /// By the DT_RUNPATH of a file.
    Runpath(String),
    /// By `LD_LIBRARY_PATH`.
    Variable,
    /// By `LD_PRELOAD`.
    Preload,
    /// By the loader's cache.
    Cache,
    /// In a folder that is always searched.
    Default,
}

impl Way {
    /// As it is said to a user.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Itself => "opened by its path".to_owned(),
            Self::Rpath(of) => format!("RPATH of {of}"),
            Self::Runpath(of) => format!("RUNPATH of {of}"),
            Self::Variable => "LD_LIBRARY_PATH".to_owned(),
            Self::Preload => "LD_PRELOAD".to_owned(),
            Self::Cache => "ld.so.cache".to_owned(),
            Self::Default => "default folder".to_owned(),
        }
    }
}

/// A file that is loaded.
#[derive(Debug)]
pub struct Loaded {
    /// Its path without links.
    pub path: PathBuf,
    /// How it was found.
    pub way: Way,
    elf: Elf,
    /// The names by which it is known.
    names: Vec<String>,
    /// Who needed it first.
    parent: Option<usize>,
}

/// All that is loaded.
#[derive(Debug)]
pub struct Loader<'a> {
    roots: &'a Roots,
    environment: &'a Environment,
    cache: HashMap<String, PathBuf>,
    /// What is loaded, in order.
    pub loaded: Vec<Loaded>,
    /// Names that were needed and not found, with the file that needed them.
    pub missing: Vec<(String, String)>,
}

impl<'a> Loader<'a> {
    /// A loader that has loaded a program, and what that needs.
    ///
    /// # Errors
    /// When the program cannot be read or is none of this processor.
    pub fn start(
        roots: &'a Roots,
        environment: &'a Environment,
        program: &Path,
    ) -> io::Result<Self> {
        let mut loader = Self {
            roots,
            environment,
            cache: HashMap::new(),
            loaded: Vec::new(),
            missing: Vec::new(),
        };
        for (name, path) in cache::read(roots) {
            loader.cache.entry(name).or_insert(path);
        }
        loader.add(program, Way::Itself, None)?;
        // A static program has no loader that would read the variable.
        if loader.loaded[0].elf.is_dynamic {
            let preloaded = environment.value("LD_PRELOAD").split([':', ' ']);
            for name in preloaded.filter(|name| !name.is_empty()) {
                loader.need(name, 0, Some(Way::Preload));
            }
        }
        loader.follow(0);
        Ok(loader)
    }

    /// Whether the program is one that a loader loads.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.loaded[0].elf.is_dynamic
    }

    /// Opens a library by its path, as the program would with `dlopen`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(&mut self, path: &Path) -> io::Result<()> {
        let first = self.loaded.len();
        self.add(path, Way::Itself, Some(0))?;
        self.follow(first);
        Ok(())
    }

    /// Loads what is needed by those from number `first` on: breadth first, as the loader does.
    fn follow(&mut self, first: usize) {
        let mut queue: VecDeque<usize> = (first..self.loaded.len()).collect();
        while let Some(number) = queue.pop_front() {
            for name in self.loaded[number].elf.needed.clone() {
                let before = self.loaded.len();
                self.need(&name, number, None);
                queue.extend(before..self.loaded.len());
            }
        }
    }

    fn add(&mut self, path: &Path, way: Way, parent: Option<usize>) -> io::Result<()> {
        let path = self.roots.resolve(path).ok_or(io::ErrorKind::NotFound)?;
        if self.loaded.iter().any(|loaded| loaded.path == path) {
            return Ok(());
        }
        let elf = Elf::open(&self.roots.inside(&path))?;
        let names = elf.soname.iter().cloned().collect();
        self.loaded.push(Loaded {
            path,
            way,
            elf,
            names,
            parent,
        });
        Ok(())
    }

    /// Loads what number `by` needs by this name, unless that was done.
    fn need(&mut self, name: &str, by: usize, as_way: Option<Way>) {
        let known = |loaded: &Loaded| loaded.names.iter().any(|other| other == name);
        if self.loaded.iter().any(known) {
            return;
        }
        for (path, way) in self.candidates(name, by) {
            // What is no library of this processor is passed over.
            let way = as_way.clone().unwrap_or(way);
            if self.add(&path, way, Some(by)).is_ok() {
                let path = self.roots.resolve(&path);
                let found = self
                    .loaded
                    .iter_mut()
                    .find(|loaded| Some(&loaded.path) == path.as_ref());
                if let Some(found) = found {
                    found.names.push(name.to_owned());
                }
                return;
            }
        }
        let by = file_name(&self.loaded[by].path);
        if !self.missing.iter().any(|(other, _)| other == name) {
            self.missing.push((name.to_owned(), by));
        }
    }

    /// Where a library of this name may be, in the loader's order.
    fn candidates(&self, name: &str, by: usize) -> Vec<(PathBuf, Way)> {
        if name.contains('/') {
            return vec![(self.environment.absolute(Path::new(name)), Way::Itself)];
        }
        let mut candidates = Vec::new();
        let of = &self.loaded[by];
        if of.elf.runpath.is_none() {
            let mut chain: Vec<usize> =
                std::iter::successors(Some(by), |number| self.loaded[*number].parent).collect();
            if !chain.contains(&0) {
                chain.push(0);
            }
            for number in chain {
                let owner = &self.loaded[number];
                // Where there is a RUNPATH, its file's RPATH does not count.
                if owner.elf.runpath.is_none() {
                    let folders = owner
                        .elf
                        .rpath
                        .iter()
                        .flat_map(|folder| expand(folder, &owner.path));
                    let way = Way::Rpath(file_name(&owner.path));
                    candidates.extend(folders.map(|folder| (folder.join(name), way.clone())));
                }
            }
        }
        let listed = self.environment.folders("LD_LIBRARY_PATH");
        candidates.extend(
            listed
                .iter()
                .map(|folder| (folder.join(name), Way::Variable)),
        );
        for folder in of.elf.runpath.iter().flatten() {
            let way = Way::Runpath(file_name(&of.path));
            let folders = expand(folder, &of.path);
            candidates.extend(
                folders
                    .into_iter()
                    .map(|folder| (folder.join(name), way.clone())),
            );
        }
        candidates.extend(self.cache.get(name).map(|path| (path.clone(), Way::Cache)));
        candidates
            .extend(DEFAULT_FOLDERS.map(|folder| (Path::new(folder).join(name), Way::Default)));
        candidates
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A folder of an RPATH or RUNPATH. What `$LIB` is depends on the distribution: both forms.
fn expand(folder: &str, of: &Path) -> Vec<PathBuf> {
    let origin = of.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let replaced = folder
        .replace("${ORIGIN}", &origin)
        .replace("$ORIGIN", &origin)
        .replace("${PLATFORM}", "x86_64")
        .replace("$PLATFORM", "x86_64");
    let forms: Vec<PathBuf> = ["lib/x86_64-linux-gnu", "lib64"]
        .iter()
        .map(|lib| replaced.replace("${LIB}", lib).replace("$LIB", lib).into())
        .collect();
    if forms[0] == forms[1] {
        forms.into_iter().take(1).collect()
    } else {
        forms
    }
}
