//! Debian's packages, in clean roots of its releases.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::Extent;
use super::place::check_nothing_left;
use super::root::{RELEASES, Root};

/// Installs the programs and the old names in the oldest release, or in all.
pub fn run(files: &[PathBuf], scratch: &Path, extent: Extent) -> Result<Vec<String>> {
    let count = if extent == Extent::One {
        1
    } else {
        RELEASES.len()
    };
    let mut lines = Vec::new();
    for release in RELEASES.into_iter().take(count) {
        lines.push(match Root::make(release, scratch)? {
            Ok(root) => in_root(files, &root).with_context(|| release)?,
            Err(missing) => format!("{release}: skipped: {missing}"),
        });
    }
    Ok(lines)
}

fn in_root(files: &[PathBuf], root: &Root) -> Result<String> {
    for file in files {
        root.bring(file)?;
    }
    let before = root.content()?;
    let start = Instant::now();
    root.run(&["sh", "-c", "dpkg --install /tmp/rsys_*.deb"])?;
    let seconds = start.elapsed().as_secs_f64();
    let used_for = root.use_it()?;
    root.run(&["sh", "-c", "dpkg --install /tmp/rsys-*.deb"])?;
    root.use_old_names()?;
    root.run(&["dpkg", "--purge", "rsys-old-names", "rsys-dbgsym", "rsys"])?;
    check_nothing_left(&before, &root.content()?)?;
    let release = root.release;
    Ok(format!(
        "{release}: installed in {seconds:.1} s, used in {used_for:.1} s as root and as a user, removed, nothing left"
    ))
}
