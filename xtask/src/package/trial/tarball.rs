//! The archive: unpacked, run where it lies, installed and removed by its script.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::super::{stage, tools};
use super::Extent;
use super::place::{Place, check_nothing_left, content};
use super::root::{self, Root};

/// Tries it on this system, and in older ones.
pub fn run(files: &[PathBuf], scratch: &Path, extent: Extent) -> Result<Vec<String>> {
    let archive = files.first().context("no archive")?;
    let mut lines = vec![on_this_system(archive, scratch)?];
    if extent == Extent::Everywhere {
        for release in root::RELEASES {
            lines.push(match Root::make(release, scratch)? {
                Ok(root) => in_root(archive, &root)?,
                Err(missing) => format!("{release}: skipped: {missing}"),
            });
        }
    }
    Ok(lines)
}

fn on_this_system(archive: &Path, scratch: &Path) -> Result<String> {
    stage::empty(scratch)?;
    let unpacked = unpack(archive, scratch)?;
    used(&unpacked, scratch).context("where it was unpacked")?;
    // A folder and a file of somebody else's stay.
    let prefix = scratch.join("prefix");
    stage::write(&prefix.join("share/other"), "")?;
    let before = content(&prefix, &[])?;
    let start = Instant::now();
    let script = unpacked.join("install.sh");
    let mut install = Command::new("sh");
    install
        .arg(&script)
        .arg("--prefix")
        .arg(&prefix)
        .arg("--old-names");
    tools::run(&mut install)?;
    let seconds = start.elapsed().as_secs_f64();
    let first = content(&prefix, &[])?;
    let used_for = used(&prefix, scratch)?;
    old_names(&prefix, scratch)?;
    // A second time, without those names: they go, and the rest stays.
    tools::run(Command::new("sh").arg(&script).arg("--prefix").arg(&prefix))?;
    let second = content(&prefix, &[])?;
    let went = first.difference(&second).count();
    ensure!(
        went == crate::install::OLD_NAMES.len(),
        "{went} files went, not the old names"
    );
    ensure!(
        second.is_subset(&first),
        "the second installation has more than the first"
    );
    let remover = prefix.join("share/rsys/install.sh");
    tools::run(Command::new("sh").arg(remover).arg("--uninstall"))?;
    check_nothing_left(&before, &content(&prefix, &[])?)?;
    Ok(format!(
        "this system: installed in {seconds:.1} s, used in {used_for:.1} s, removed, nothing left"
    ))
}

fn unpack(archive: &Path, scratch: &Path) -> Result<PathBuf> {
    tools::run(
        Command::new("tar")
            .arg("-xzf")
            .arg(archive)
            .arg("-C")
            .arg(scratch),
    )?;
    let name = archive.file_name().context("no name")?.to_string_lossy();
    Ok(scratch.join(name.trim_end_matches(".tar.gz")))
}

fn place<'a>(scratch: &Path, command: &'a dyn Fn(&str) -> Command) -> Place<'a> {
    Place {
        command,
        folder: (scratch.into(), scratch.into()),
        python: "python3".into(),
    }
}

fn used(prefix: &Path, scratch: &Path) -> Result<f64> {
    let bin = prefix.join("bin");
    place(scratch, &|name| Command::new(bin.join(name))).use_it()
}

fn old_names(prefix: &Path, scratch: &Path) -> Result<()> {
    let bin = prefix.join("bin");
    place(scratch, &|name| Command::new(bin.join(name))).use_old_names()
}

fn in_root(archive: &Path, root: &Root) -> Result<String> {
    root.bring(archive)?;
    let before = root.content()?;
    let start = Instant::now();
    let line = "cd /tmp && tar -xzf rsys-*.tar.gz && sh rsys-*/install.sh";
    root.run(&["sh", "-c", line])?;
    let seconds = start.elapsed().as_secs_f64();
    let used_for = root.use_it()?;
    root.run(&["sh", "/usr/local/share/rsys/install.sh", "--uninstall"])?;
    check_nothing_left(&before, &root.content()?)?;
    let release = root.release;
    Ok(format!(
        "{release}: installed in {seconds:.1} s, used in {used_for:.1} s as root and as a user, removed, nothing left"
    ))
}
