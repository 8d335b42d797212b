//! ROCm's libraries as they are installed: all that can be found, and those that a given program would load. Nothing is loaded or run;
//! files are read.

mod cache;
mod elf;
mod environment;
mod library;
mod loads;
mod program;
mod python;

use std::path::{Path, PathBuf};

pub(crate) use elf::Elf;
pub use environment::Environment;
pub use library::{Kind, Library};
pub use program::Program;

use crate::roots::{Roots, names};

/// All libraries of ROCm that are where they mostly are, each with the places that lead to it.
#[must_use]
pub fn installed(roots: &Roots, environment: &Environment) -> Vec<(Library, Vec<String>)> {
    let mut found: Vec<(Kind, PathBuf, Vec<String>)> = Vec::new();
    let mut add = |kind: Kind, path: &Path, place: &str| {
        let Some(path) = roots.resolve(path) else {
            return;
        };
        match found.iter_mut().find(|(_, other, _)| *other == path) {
            Some((_, _, places)) if places.iter().any(|other| other == place) => {}
            Some((_, _, places)) => places.push(place.to_owned()),
            None => found.push((kind, path, vec![place.to_owned()])),
        }
    };
    for (folder, place) in folders(roots, environment) {
        let Some(folder) = roots.resolve(&folder) else {
            continue;
        };
        for name in names(&roots.inside(&folder)) {
            if let Some(kind) = Kind::of_file(&name) {
                add(kind, &folder.join(&name), &place);
            }
        }
    }
    for (name, path) in cache::read(roots) {
        if let Some(kind) = Kind::of_file(&name) {
            add(kind, &path, "ld.so.cache");
        }
    }
    let mut found: Vec<(Library, Vec<String>)> = found
        .into_iter()
        .map(|(kind, path, places)| (Library::read(roots, kind, &path), places))
        .collect();
    found.sort_by_key(|(library, _)| library.kind);
    found
}

/// The folders in which libraries of ROCm may be, with what leads there.
fn folders(roots: &Roots, environment: &Environment) -> Vec<(PathBuf, String)> {
    let mut folders = Vec::new();
    let mut tree = |tree: &Path, place: &str| {
        for lib in ["lib", "lib64"] {
            folders.push((tree.join(lib), place.to_owned()));
        }
        // ROCm 7.9 and later: `core-7.9` and the like stand inside.
        for name in names(&roots.inside(tree)) {
            if name == "core" || name.starts_with("core-") {
                folders.push((tree.join(&name).join("lib"), format!("{place}/{name}")));
            }
        }
    };
    if let Some(path) = environment.folder("ROCM_PATH") {
        tree(&path, "ROCM_PATH");
    }
    let opt = Path::new("/opt");
    for name in names(&roots.inside(opt)) {
        if name == "rocm" || name.starts_with("rocm-") {
            tree(&opt.join(&name), &format!("/opt/{name}"));
        }
    }
    let listed = environment.folders("LD_LIBRARY_PATH").into_iter();
    folders.extend(listed.map(|folder| (folder, "LD_LIBRARY_PATH".to_owned())));
    for folder in loads::DEFAULT_FOLDERS {
        folders.push((PathBuf::from(folder), "default folder".to_owned()));
    }
    for site in python::all_sites(roots, environment) {
        for folder in python::library_folders(roots, &site) {
            let package = folder.parent().and_then(Path::file_name);
            let package = package.unwrap_or_default().to_string_lossy();
            let place = format!("Python package {}", package.trim_start_matches('_'));
            folders.push((folder, place));
        }
    }
    folders
}
