//! A release of Debian, unpacked beside the one that runs.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{has_program, step};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Folders that are not needed in a tree without users.
const NOT_NEEDED: &[&str] = &[
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/cache",
];

/// Packages that are taken from another release where it has them.
#[derive(Debug)]
pub struct Newer {
    /// The release.
    pub release: &'static str,
    /// Their source packages.
    pub sources: &'static [&'static str],
}

/// Which packages to unpack.
#[derive(Debug, Clone, Copy)]
pub enum Choice {
    /// With all that they depend on.
    WithDependencies,
    /// They alone.
    Alone,
}

/// Unpacks these packages into `folder`. No maintainer script runs.
pub fn unpack(
    folder: &Path,
    release: &str,
    newer: Option<&Newer>,
    packages: &[&str],
    choice: Choice,
) -> Result<()> {
    if !has_program("apt-get") || !has_program("dpkg") {
        bail!("apt-get and dpkg are needed to unpack Debian's packages");
    }
    // Outside of the tree, and gone afterwards.
    let apt = folder.with_extension("apt");
    let prepared = prepare(&apt, release, newer);
    let done = prepared.and_then(|()| download_and_unpack(&apt, folder, packages, choice));
    if apt.exists() {
        fs::remove_dir_all(&apt)?;
    }
    done?;
    for name in NOT_NEEDED {
        let path = folder.join(name);
        if path.exists() {
            fs::remove_dir_all(path)?;
        }
    }
    // The compiler looks for HIP's version here; Debian has it elsewhere.
    let version = folder.join("usr/share/hip/version");
    if version.is_file() {
        fs::copy(version, folder.join("usr/bin/.hipVersion"))?;
    }
    Ok(())
}

/// Makes a state of apt's own: nothing is installed, and there are only these releases, at the mirror that this machine uses.
fn prepare(apt: &Path, release: &str, newer: Option<&Newer>) -> Result<()> {
    if apt.exists() {
        fs::remove_dir_all(apt)?;
    }
    for part in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(apt.join(part))?;
    }
    let targets = Command::new("apt-get")
        .args([
            "indextargets",
            "--format",
            "$(REPO_URI)",
            "Created-By: Packages",
        ])
        .output()
        .context("cannot start apt-get")?;
    let targets = String::from_utf8_lossy(&targets.stdout).into_owned();
    let mirror = targets
        .lines()
        .find(|uri| uri.trim_end_matches('/').ends_with("/debian"))
        .context("apt-get has no source of Debian's packages")?;
    let source = |release: &str| format!("deb [signed-by={KEYRING}] {mirror} {release} main\n");
    let mut sources = source(release);
    let mut preferences = String::new();
    if let Some(newer) = newer {
        sources.push_str(&source(newer.release));
        // Above the priority of other releases, below that of what is installed.
        let from: Vec<_> = newer
            .sources
            .iter()
            .map(|name| format!("src:{name}"))
            .collect();
        preferences = format!(
            "Package: {}\nPin: release a={}\nPin-Priority: 600\n",
            from.join(" "),
            newer.release
        );
    }
    fs::write(apt.join("sources.list"), sources)?;
    fs::write(apt.join("preferences"), preferences)?;
    fs::write(apt.join("status"), "")?;
    Ok(())
}

fn download_and_unpack(apt: &Path, folder: &Path, packages: &[&str], choice: Choice) -> Result<()> {
    step(apt_get(apt).arg("update"))?;
    let archives = apt.join("archives");
    match choice {
        Choice::WithDependencies => step(
            apt_get(apt)
                .args(["install", "--yes", "--download-only"])
                .args(packages),
        )?,
        Choice::Alone => step(
            apt_get(apt)
                .arg("download")
                .args(packages)
                .current_dir(&archives),
        )?,
    }
    for entry in fs::read_dir(archives)?.flatten() {
        let package = entry.path();
        if package.extension() == Some(OsStr::new("deb")) {
            let unpacked = Command::new("dpkg")
                .arg("-x")
                .arg(&package)
                .arg(folder)
                .status()?;
            if !unpacked.success() {
                bail!("cannot unpack {}", package.display());
            }
        }
    }
    Ok(())
}

fn apt_get(apt: &Path) -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-qq");
    for (option, path) in [
        ("Dir::State", "."),
        ("Dir::State::lists", "lists"),
        ("Dir::State::status", "status"),
        ("Dir::Cache", "."),
        ("Dir::Cache::archives", "archives"),
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::Etc::preferences", "preferences"),
    ] {
        command
            .arg("-o")
            .arg(format!("{option}={}", apt.join(path).display()));
    }
    for option in [
        "Dir::Etc::sourceparts=/dev/null",
        "Dir::Etc::preferencesparts=/dev/null",
        "Acquire::Languages=none",
        // A mirror may be some weeks old; what it has is signed all the same.
        "Acquire::Check-Valid-Until=false",
        "APT::Install-Recommends=false",
        "APT::Sandbox::User=",
        // No lock of the system's state is needed.
        "Debug::NoLocking=true",
    ] {
        command.args(["-o", option]);
    }
    command
}
