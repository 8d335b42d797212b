//! Libraries in a wheel of the Python package index.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::steps::step;

/// Fetches a wheel into a folder.
fn download(folder: &Path, requirement: &str, more: &[&str]) -> Result<()> {
    let words = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
    ];
    step(
        Command::new("python3")
            .args(words)
            .args(more)
            .arg("--dest")
            .arg(folder)
            .arg(requirement),
    )
}

/// Unpacks a package for this machine's Python into `folder/lib`, but for what lies in the folder `without`.
pub fn unpack_package(folder: &Path, requirement: &str, without: &str) -> Result<()> {
    download(folder, requirement, &[])?;
    let unpack = "import glob, os, sys, zipfile\n\
         folder, without = sys.argv[1:]\n\
         path = glob.glob(folder + '/*.whl')[0]\n\
         wheel = zipfile.ZipFile(path)\n\
         names = [name for name in wheel.namelist() if not name.startswith(without)]\n\
         wheel.extractall(folder + '/lib', names)\n\
         for name in names:\n\
         \x20   if wheel.getinfo(name).external_attr >> 16 & 0o100:\n\
         \x20       os.chmod(os.path.join(folder, 'lib', name), 0o755)\n\
         os.remove(path)\n";
    step(
        Command::new("python3")
            .args(["-c", unpack])
            .arg(folder)
            .arg(without),
    )
}

/// Unpacks the libraries in `inside` of a wheel into `folder/lib`, under the names by which programs ask for them.
pub fn unpack(folder: &Path, requirement: &str, python: &str, inside: &str) -> Result<()> {
    let platform = [
        "--python-version",
        python,
        "--platform",
        "manylinux2014_x86_64",
        "--platform",
        "manylinux_2_17_x86_64",
    ];
    download(folder, requirement, &platform)?;
    let unpack = "import glob, os, sys, zipfile\n\
         folder, inside = sys.argv[1:]\n\
         path = glob.glob(folder + '/*.whl')[0]\n\
         wheel = zipfile.ZipFile(path)\n\
         for name in wheel.namelist():\n\
         \x20   if name.startswith(inside) and not name.endswith('/'):\n\
         \x20       target = os.path.join(folder, 'lib', name[len(inside):])\n\
         \x20       os.makedirs(os.path.dirname(target), exist_ok=True)\n\
         \x20       open(target, 'wb').write(wheel.read(name))\n\
         os.remove(path)\n";
    step(
        Command::new("python3")
            .args(["-c", unpack])
            .arg(folder)
            .arg(inside),
    )?;
    for (name, file) in [
        ("libamdhip64.so.5", "libamdhip64.so"),
        ("libhsa-runtime64.so.1", "libhsa-runtime64.so"),
    ] {
        let library = folder.join("lib").join(file);
        fs::metadata(&library).with_context(|| format!("{} is missing", library.display()))?;
        symlink(file, folder.join("lib").join(name))?;
    }
    Ok(())
}
