//! Packages for rpm, in a root that rpm fills from outside.
//!
//! The root is one of Debian's packages, as no registry has others in this form. It has no database of rpm, so what the packages need is
//! not looked up there (`--nodeps`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::super::tools;
use super::Extent;
use super::place::check_nothing_left;
use super::root::{RELEASES, Root};

/// Installs them in the oldest release, or in all.
pub fn run(files: &[PathBuf], scratch: &Path, extent: Extent) -> Result<Vec<String>> {
    let count = if extent == Extent::One {
        1
    } else {
        RELEASES.len()
    };
    let mut lines = Vec::new();
    for release in RELEASES.into_iter().take(count) {
        lines.push(match Root::make(release, scratch)? {
            Ok(root) => in_root(files, &root)?,
            Err(missing) => format!("{release}: skipped: {missing}"),
        });
    }
    Ok(lines)
}

fn in_root(files: &[PathBuf], root: &Root) -> Result<String> {
    let rpm = || {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(root.folder());
        rpm.args(["--dbpath", "/var/log/rpm", "--nodeps"]);
        rpm
    };
    // Every system that rpm is at home on has this folder.
    fs::create_dir_all(root.folder().join("usr/lib64"))?;
    let before = root.content()?;
    let start = Instant::now();
    tools::run(rpm().arg("--install").args(files))?;
    let seconds = start.elapsed().as_secs_f64();
    let used_for = root.use_it()?;
    root.use_old_names()?;
    tools::run(rpm().args(["--erase", "rsys-old-names", "rsys-debuginfo", "rsys"]))?;
    check_nothing_left(&before, &root.content()?)?;
    let release = root.release;
    Ok(format!(
        "files of {release}: installed in {seconds:.1} s, used in {used_for:.1} s as root and as a user, removed, nothing left"
    ))
}
