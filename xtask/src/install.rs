//! `cargo xtask install`: the files that a user needs, below one folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::steps::{build_release, say, target_dir, workspace_dir};

/// Built files, and where they go.
const BUILT: &[(&str, &str, u32)] = &[
    ("rsys-sample", "bin/rsys-sample", 0o755),
    ("rsys-avail", "bin/rsys-avail", 0o755),
    ("rsys-report", "bin/rsys-report", 0o755),
    ("librsys_agent.so", "lib/librsys_agent.so", 0o755),
];

/// Files of the repository, and where they go.
const SHARED: &[(&str, &str)] = &[
    ("README.md", "share/rsys/README.md"),
    ("LICENSE-APACHE", "share/rsys/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/rsys/LICENSE-MIT"),
    ("config/default.cfg", "share/rsys/default.cfg"),
];

/// Builds and copies.
pub fn run(prefix: &Path) -> Result<()> {
    build_release()?;
    let prefix = std::path::absolute(prefix)?;
    for (from, to, mode) in BUILT {
        copy(
            &target_dir().join("release").join(from),
            &prefix.join(to),
            *mode,
        )?;
    }
    for (from, to) in SHARED {
        copy(&workspace_dir().join(from), &prefix.join(to), 0o644)?;
    }
    say(&format!("installed below {}", prefix.display()));
    Ok(())
}

/// Copies beside the goal first: programs that run the old file keep it.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let told = || format!("cannot install {} as {}", from.display(), to.display());
    let draft = to.with_extension("new");
    fs::create_dir_all(to.parent().with_context(told)?).with_context(told)?;
    fs::copy(from, &draft).with_context(told)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).with_context(told)?;
    fs::rename(&draft, to).with_context(told)?;
    say(&format!("{}", to.display()));
    Ok(())
}
