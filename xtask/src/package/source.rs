//! The source for pip: the committed files, with what pip wants to know (`pyproject.toml` says how it is built).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::stage::{empty, write};
use super::{VERSION, tools, wheel};
use crate::steps::workspace_dir;

/// Says so when this is no checkout.
pub fn missing() -> Option<String> {
    let is_checkout = workspace_dir().join(".git").exists();
    (!is_checkout).then(|| "this is no checkout of git".to_owned())
}

/// Packs what is committed.
pub fn make(output: &Path) -> Result<Vec<PathBuf>> {
    let folder = output.join("source");
    empty(&folder)?;
    let about = folder.join("PKG-INFO");
    write(&about, wheel::metadata())?;
    let file = output.join(format!("rsys-{VERSION}.tar.gz"));
    let mut git = Command::new("git");
    git.current_dir(workspace_dir())
        .args([
            "archive",
            "--format=tar.gz",
            &format!("--prefix=rsys-{VERSION}/"),
            "--output",
        ])
        .arg(&file)
        .arg(format!("--add-file={}", about.display()))
        .arg("HEAD");
    tools::run(&mut git)?;
    fs::remove_dir_all(folder)?;
    Ok(vec![file])
}

/// Checks that it has what builds it. A build takes minutes: `pip install FILE` makes it.
pub fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let file = files.first().context("no archive")?;
    let list = tools::run(Command::new("tar").arg("-tzf").arg(file))?;
    for name in [
        "PKG-INFO",
        "pyproject.toml",
        "packaging/wheel/rsys_build.py",
        "Cargo.lock",
    ] {
        let name = format!("rsys-{VERSION}/{name}");
        ensure!(
            list.lines().any(|line| line == name),
            "{}: no {name}",
            file.display()
        );
    }
    Ok(vec![format!("{} files; not built", list.lines().count())])
}
