//! Programs that pack, and what makes packages the same each time.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{has_program, workspace_dir};

/// Says so when a program is not here.
pub fn missing(program: &str, package: &str) -> Option<String> {
    (!has_program(program)).then(|| {
        format!("{program} is not installed (on Debian and Ubuntu: apt-get install {package})")
    })
}

/// Runs a command; what it printed is told only if it fails.
pub fn run(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let done = command
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() {
        let errors = String::from_utf8_lossy(&done.stderr);
        bail!("{shown} failed ({}): {said}{errors}", done.status);
    }
    Ok(said)
}

/// The time that all files in packages have, in seconds since 1970: `SOURCE_DATE_EPOCH`, else that of the commit, else 1980.
pub fn epoch() -> u64 {
    const ZIP_BEGINS: u64 = 315_619_200;
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let of_commit = || {
        let mut git = Command::new("git");
        git.current_dir(workspace_dir());
        run(git.args(["log", "-1", "--format=%ct"])).ok()
    };
    let text = given.or_else(of_commit).unwrap_or_default();
    text.trim().parse().unwrap_or(ZIP_BEGINS)
}

/// Packs a folder of `parent` into an archive, in the same order and with the same owner each time; gzip's `level` is 1 to 9.
pub fn archive(parent: &Path, name: &str, to: &Path, level: u8) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", epoch()))
        .arg(format!("--use-compress-program=gzip -{level}n"))
        .arg("-cf")
        .arg(to)
        .arg("-C")
        .arg(parent)
        .arg(name);
    run(&mut tar).map(drop)
}
