//! Packages for Fedora, RHEL, SLES and their kin, put together by `rpmbuild` (`packaging/rpm/rsys.spec`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::stage::{Stage, empty};
use super::{VERSION, tools};
use crate::steps::workspace_dir;

/// The programs, their symbols, and the original's names.
pub fn make(stage: &Stage, output: &Path) -> Result<Vec<PathBuf>> {
    let top = output.join("rpm");
    let tree = top.join("tree");
    empty(&tree)?;
    let files = stage.files.iter().chain(&stage.symbols).cloned();
    stage.copy(&files.collect::<Vec<_>>(), &tree, |place| {
        Some(place_on_fedora(place))
    })?;
    let define = |name: &str, value: &str| ["--define".to_owned(), format!("{name} {value}")];
    let epoch = tools::epoch().to_string();
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild
        .arg("-bb")
        .args(define("_topdir", &top.join("work").display().to_string()))
        .args(define("version_of_rsys", VERSION))
        .args(define("tree", &tree.display().to_string()))
        .args(["--target", "x86_64-linux"])
        .arg(workspace_dir().join("packaging/rpm/rsys.spec"))
        .env("SOURCE_DATE_EPOCH", epoch);
    tools::run(&mut rpmbuild)?;
    let mut made = Vec::new();
    for folder in fs::read_dir(top.join("work/RPMS"))? {
        for file in fs::read_dir(folder?.path())? {
            let file = file?;
            let to = output.join(file.file_name());
            fs::rename(file.path(), &to)?;
            made.push(to);
        }
    }
    fs::remove_dir_all(top)?;
    made.sort();
    Ok(made)
}

/// Libraries of 64 bits have a folder of their own there; what only programs of ours use stays in `lib/rsys`.
fn place_on_fedora(place: &Path) -> PathBuf {
    let usr = Path::new("usr");
    match place.strip_prefix("lib") {
        Ok(rest) if !rest.starts_with("rsys") => usr.join("lib64").join(rest),
        _ => usr.join(place),
    }
}
