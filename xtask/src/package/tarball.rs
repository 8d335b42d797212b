//! A relocatable archive, with a script that installs it, and one of debug symbols.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::stage::{self, Stage};
use super::{VERSION, tools};
use crate::install::List;
use crate::steps::workspace_dir;

const SCRIPT: &str = "share/rsys/install.sh";

/// Makes both.
pub fn make(stage: &Stage, output: &Path) -> Result<Vec<PathBuf>> {
    let name = format!("rsys-{VERSION}-x86_64-linux");
    let tree = output.join("tarball");
    stage::empty(&tree)?;
    let folder = tree.join(&name);
    stage.copy(&stage.files, &folder, |place| Some(place.into()))?;
    let script = workspace_dir().join("packaging/tarball/install.sh");
    stage::put(&script, &folder.join(SCRIPT))?;
    symlink(SCRIPT, folder.join("install.sh"))?;
    // What the script installs, with the folders that may have to be made.
    let places = stage.files.iter().cloned().chain([SCRIPT.into()]);
    List::new(Path::new("/nonexistent"), places, &List::default()).write(&folder)?;
    let symbols_name = format!("{name}-symbols");
    let symbols = tree.join(&symbols_name);
    stage.copy(&stage.symbols, &symbols, |place| Some(place.into()))?;
    let files = [name.as_str(), &symbols_name].map(|name| output.join(format!("{name}.tar.gz")));
    // Symbols are compressed already.
    for (name, file, level) in [(&name, &files[0], 9), (&symbols_name, &files[1], 1)] {
        tools::archive(&tree, name, file, level)?;
    }
    fs::remove_dir_all(tree)?;
    Ok(files.into())
}
