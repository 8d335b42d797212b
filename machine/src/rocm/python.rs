//! Where the packages of Pythons are, and what those with GPU runtimes of their own bring along.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::roots::{Roots, names};

/// The folders of packages that an interpreter searches, in its order. `program` is the interpreter's path, links not followed: a
/// virtual environment is known by the place of its link.
#[must_use]
pub fn sites_of(roots: &Roots, environment: &Environment, program: &Path) -> Vec<PathBuf> {
    let mut sites = environment.folders("PYTHONPATH");
    let prefix_of = |program: &Path| Some(program.parent()?.parent()?.to_owned());
    let real = roots.resolve(program).unwrap_or_else(|| program.to_owned());
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    // `python3.12`; a name without the minor version stands for all that are there.
    let version = if name.contains('.') {
        &*name
    } else {
        "python3"
    };
    let virtual_prefix = prefix_of(program);
    let configuration = virtual_prefix
        .as_ref()
        .and_then(|prefix| roots.text_inside(&prefix.join("pyvenv.cfg")));
    let mut outside = true;
    if let (Some(prefix), Some(text)) = (&virtual_prefix, &configuration) {
        sites.extend(below(roots, prefix, version));
        outside = text.lines().any(|line| {
            let setting = line.split_once('=');
            setting.is_some_and(|(key, value)| {
                key.trim() == "include-system-site-packages"
                    && value.trim().eq_ignore_ascii_case("true")
            })
        });
    }
    if outside {
        if let Some(home) = environment.folder("HOME") {
            sites.extend(below(roots, &home.join(".local"), version));
        }
        if let Some(prefix) = prefix_of(&real) {
            // Debian's interpreter also searches what is installed locally.
            sites.extend(below(roots, &prefix.join("local"), version));
            sites.extend(below(roots, &prefix, version));
            sites.push(prefix.join("lib/python3/dist-packages"));
        }
    }
    sites
}

/// The folders of packages of all interpreters that are where interpreters mostly are.
#[must_use]
pub fn all_sites(roots: &Roots, environment: &Environment) -> Vec<PathBuf> {
    let mut sites = environment.folders("PYTHONPATH");
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .iter()
        .filter_map(|name| environment.folder(name))
        .collect();
    if let Some(home) = environment.folder("HOME") {
        prefixes.push(home.join(".local"));
    }
    // Those of AMD's containers among them.
    prefixes.extend(["/usr/local", "/usr", "/opt/venv", "/opt/conda"].map(PathBuf::from));
    let conda = Path::new("/opt/conda/envs");
    prefixes.extend(
        names(&roots.inside(conda))
            .iter()
            .map(|name| conda.join(name)),
    );
    for prefix in &prefixes {
        sites.extend(below(roots, prefix, "python3"));
        sites.push(prefix.join("lib/python3/dist-packages"));
    }
    sites
}

/// The folders of packages below a prefix, of interpreters whose name begins like `version` does.
fn below(roots: &Roots, prefix: &Path, version: &str) -> Vec<PathBuf> {
    let mut sites = Vec::new();
    for lib in ["lib", "lib64"].map(|lib| prefix.join(lib)) {
        for name in names(&roots.inside(&lib)) {
            let fits = name == version || version == "python3" && name.starts_with("python3.");
            if fits {
                sites.extend(
                    ["site-packages", "dist-packages"].map(|kind| lib.join(&name).join(kind)),
                );
            }
        }
    }
    sites
}

/// The folders of libraries that the packages of a site bring along: PyTorch's, and those of ROCm's own wheels.
#[must_use]
pub fn library_folders(roots: &Roots, site: &Path) -> Vec<PathBuf> {
    let mut folders = rocm_wheels(roots, site);
    folders.push(site.join("torch/lib"));
    folders.retain(|folder| roots.inside(folder).is_dir());
    folders
}

/// Those of ROCm's own wheels only.
#[must_use]
pub fn rocm_wheels(roots: &Roots, site: &Path) -> Vec<PathBuf> {
    let packages = names(&roots.inside(site));
    packages
        .iter()
        .filter(|name| name.starts_with("_rocm_sdk_"))
        .map(|name| site.join(name).join("lib"))
        .collect()
}
