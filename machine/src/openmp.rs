//! Runtimes of OpenMP that can run a program of gcc in place of libgomp: LLVM's libomp and what is made of it.
//!
//! They have libgomp's functions (`GOMP_*`) under their own names and versions, and the interface for tools that libgomp lacks.

use std::path::{Path, PathBuf};

use crate::rocm::{Elf, Environment};
use crate::roots::{Roots, names};

/// What to do where no such runtime is installed.
pub const REMEDY: &str = "Install one: apt install libomp5-19 (Debian, Ubuntu; any number), dnf install libomp (Fedora, RHEL), zypper install \
                          libomp-devel (SUSE), pip install intel-openmp in the environment of the program; or name its path.";

/// Files of runtimes by the names that distributions and vendors give them.
const FILES: [&str; 3] = ["libomp.so.5", "libomp.so", "libiomp5.so"];

/// The runtimes of this machine that can take libgomp's place, those first that should be taken: what the environment leads to, then newer ones of LLVM before
/// older ones, then those of ROCm and Intel. Paths of the machine itself.
#[must_use]
pub fn installed(roots: &Roots, environment: &Environment) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders(roots, environment) {
        let files = FILES.iter().map(|file| folder.join(file));
        let fits = |path: &PathBuf| can_replace_libgomp(&roots.inside(path));
        let Some(path) = files.into_iter().find(fits) else {
            continue;
        };
        // One that links lead to twice is listed once, by the first name.
        let real = roots.resolve(&path);
        if !found.iter().any(|known| roots.resolve(known) == real) {
            found.push(path);
        }
    }
    found
}

/// The folders in which runtimes may be, in the order in which they are looked at.
fn folders(roots: &Roots, environment: &Environment) -> Vec<PathBuf> {
    let mut folders = environment.folders("LD_LIBRARY_PATH");
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        folders.extend(
            environment
                .folder(variable)
                .map(|prefix| prefix.join("lib")),
        );
    }
    // `/usr/lib/llvm-14/lib` of Debian, `/usr/lib64/llvm17/lib` of others, and `/opt/rocm-7.0.0`: newer ones first.
    let numbered = |parent: &str, start: &str, below: &[&str]| -> Vec<PathBuf> {
        let mut versions = names(&roots.path(parent));
        versions.retain(|name| name.starts_with(start));
        let newest_first = versions.iter().rev();
        newest_first
            .flat_map(|name| {
                below
                    .iter()
                    .map(move |below| Path::new("/").join(parent).join(name).join(below))
            })
            .collect()
    };
    folders.extend(numbered("usr/lib", "llvm", &["lib"]));
    folders.extend(numbered("usr/lib64", "llvm", &["lib", "lib64"]));
    let of_system = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    folders.extend(
        [
            of_system.as_str(),
            "/usr/lib64",
            "/usr/lib",
            "/usr/local/lib",
        ]
        .map(PathBuf::from),
    );
    let of_rocm = ["llvm/lib", "lib/llvm/lib"];
    if let Some(rocm) = environment.folder("ROCM_PATH") {
        folders.extend(of_rocm.map(|below| rocm.join(below)));
    }
    folders.extend(numbered("opt", "rocm", &of_rocm));
    if let Some(intel) = environment.folder("ONEAPI_ROOT") {
        folders.push(intel.join("compiler/latest/lib"));
    }
    folders.push(PathBuf::from("/opt/intel/oneapi/compiler/latest/lib"));
    folders
}

/// Whether a file is a runtime with libgomp's functions and the interface for tools.
#[must_use]
pub fn can_replace_libgomp(library: &Path) -> bool {
    let needed = ["GOMP_parallel", "ompt_start_tool"];
    let Ok(elf) = Elf::open(library) else {
        return false;
    };
    let Ok(there) = elf.names(library, |_| true) else {
        return false;
    };
    needed.iter().all(|name| has(&there, name))
}

/// The functions of libgomp that a program uses and a runtime lacks: it cannot run that program. Nothing where the program cannot be read.
#[must_use]
pub fn missing_functions(program: &Path, library: &Path) -> Vec<String> {
    let used = Elf::open(program).and_then(|elf| elf.names(program, is_of_libgomp));
    let used = used.unwrap_or_default();
    if used.is_empty() {
        return used;
    }
    let Ok(there) = Elf::open(library).and_then(|elf| elf.names(library, |_| true)) else {
        return used;
    };
    used.into_iter().filter(|name| !has(&there, name)).collect()
}

/// Whether a table of strings holds a name. Linkers keep a name once that another one ends with.
fn has(table: &[String], name: &str) -> bool {
    table.iter().any(|known| known.ends_with(name))
}

/// Whether a name is that of a function of libgomp, and not that of a version (`GOMP_4.0`).
fn is_of_libgomp(name: &str) -> bool {
    ["GOMP_", "GOACC_", "omp_", "acc_"]
        .iter()
        .filter_map(|start| name.strip_prefix(start))
        .any(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_are_not_those_of_versions() {
        for (name, is_function) in [
            ("GOMP_parallel", true),
            ("omp_get_num_threads", true),
            ("GOACC_parallel_keyed", true),
            ("GOMP_4.0", false),
            ("GOMP_", false),
            ("OMP_1.0", false),
            ("comp_level", false),
        ] {
            assert_eq!(is_of_libgomp(name), is_function, "{name}");
        }
    }

    #[test]
    fn only_a_runtime_for_tools_replaces_libgomp() {
        assert!(!can_replace_libgomp(Path::new("/proc/self/exe")));
        assert!(!can_replace_libgomp(Path::new("/nowhere/libomp.so")));
        // This program uses nothing of OpenMP.
        let this = Path::new("/proc/self/exe");
        assert!(missing_functions(this, this).is_empty());
    }
}
