//! Finds the profilers that we compare ourselves with, or installs them under `target/bench-tools`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::process::{self, Terms};

/// Building samply takes a few minutes.
const LIMIT: Duration = Duration::from_secs(1800);

/// Finds a program in PATH.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The interpreter with the distribution's numpy and torch, or whichever there is.
pub fn python() -> Option<PathBuf> {
    let system = PathBuf::from("/usr/bin/python3");
    system
        .is_file()
        .then_some(system)
        .or_else(|| in_path("python3"))
}

/// An interpreter that has `-X perf` (Python 3.12 and newer), from the path or from pyenv.
pub fn new_python() -> Option<PathBuf> {
    let pyenv = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv/versions"));
    let versions = pyenv
        .and_then(|folder| std::fs::read_dir(folder).ok())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(versions).collect();
    ["python3.14", "python3.13", "python3.12"]
        .into_iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        // pyenv's shims are scripts that pick another version.
        .find(|file| file.is_file() && !file.parent().is_some_and(|at| at.ends_with("shims")))
}

/// perf comes with the distribution.
pub fn perf(scratch: &Path) -> Result<PathBuf> {
    if let Some(perf) = in_path("perf") {
        return Ok(perf);
    }
    apt("linux-perf", scratch)?;
    match in_path("perf") {
        Some(perf) => Ok(perf),
        None => bail!("perf is not there"),
    }
}

/// Installs a package of a Debian-like distribution, where we are root.
pub fn apt(package: &str, scratch: &Path) -> Result<()> {
    eprintln!("bench: installing {package}");
    run(
        Command::new("apt-get")
            .args(["install", "-y", "--no-install-recommends", package])
            .env("DEBIAN_FRONTEND", "noninteractive"),
        scratch,
    )
}

/// samply is built by cargo.
pub fn samply(tools: &Path, scratch: &Path) -> Result<PathBuf> {
    let own = tools.join("bin/samply");
    if own.is_file() {
        return Ok(own);
    }
    if let Some(samply) = in_path("samply") {
        return Ok(samply);
    }
    eprintln!("bench: building samply");
    run(
        Command::new("cargo")
            .args(["install", "samply", "--locked", "--root"])
            .arg(tools),
        scratch,
    )?;
    Ok(own)
}

/// py-spy comes from the Python package index, into an environment of its own.
pub fn py_spy(tools: &Path, scratch: &Path) -> Result<PathBuf> {
    let venv = tools.join("venv");
    let own = venv.join("bin/py-spy");
    if own.is_file() {
        return Ok(own);
    }
    if let Some(py_spy) = in_path("py-spy") {
        return Ok(py_spy);
    }
    let Some(python) = python() else {
        bail!("python3 is not there");
    };
    eprintln!("bench: installing py-spy");
    run(
        Command::new(python).args(["-m", "venv"]).arg(&venv),
        scratch,
    )?;
    run(
        Command::new(venv.join("bin/pip")).args(["install", "--quiet", "py-spy"]),
        scratch,
    )?;
    Ok(own)
}

fn run(command: &mut Command, scratch: &Path) -> Result<()> {
    let terms = Terms {
        scratch,
        limit: LIMIT,
        watch_memory: false,
    };
    let finished = process::run(command, terms)?;
    if !finished.status.success() {
        bail!("cannot be installed: {}", finished.last_words());
    }
    Ok(())
}
