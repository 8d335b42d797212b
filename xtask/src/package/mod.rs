//! `cargo xtask package`: what users install, made and tried.
//!
//! - `stage` is an installation as `cargo xtask install` makes it; every kind packs the same files.
//! - `tarball`, `wheel`, `source`, `deb`, `rpm` and `container` each make one kind.
//! - `trial` installs a package in a clean place, profiles a program, reports, removes the package, and looks for what is left.

mod container;
mod deb;
mod rpm;
mod source;
mod stage;
mod tarball;
#[cfg(test)]
mod tests;
mod tools;
mod trial;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::stage::Stage;
use self::trial::Extent;
use crate::install;
use crate::steps::{say, target_dir, workspace_dir};

/// The version that all packages have.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A relocatable archive with an `install.sh`
    Tarball,
    /// A wheel for pip, and one with the original's names
    Wheel,
    /// The source for pip, which builds it with cargo
    Source,
    /// Packages for Debian and Ubuntu: the programs, their symbols, the original's names
    Deb,
    /// The same for Fedora, RHEL, SLES and the like
    Rpm,
    /// An image for Podman, Docker and Apptainer
    Container,
}

/// Options of `cargo xtask package`.
#[derive(Debug, Args)]
pub struct PackageOptions {
    /// Which kinds; all by default
    kinds: Vec<Kind>,
    /// Where the packages go; `target/packages` by default
    #[arg(long)]
    output: Option<PathBuf>,
    /// Pack what is built already
    #[arg(long)]
    no_build: bool,
    /// Fail unless this tag is that of the version, and CHANGELOG.md has a section of it
    #[arg(long)]
    tag: Option<String>,
    /// Only make them
    #[arg(long)]
    no_trial: bool,
    /// Try wheels in each CPython that is found, and the other kinds in each Debian from 11 on, instead of in one
    #[arg(long)]
    everywhere: bool,
}

/// Makes the packages, tries them, and prints a line for each file.
///
/// # Errors
/// What cannot be made, or did not work where it was tried. A kind whose tools are not here is skipped if it was not asked for by name.
pub fn run(options: &PackageOptions) -> Result<()> {
    if let Some(tag) = &options.tag {
        check_tag(
            tag,
            &fs::read_to_string(workspace_dir().join("CHANGELOG.md"))?,
        )?;
    }
    // Of the source alone nothing is built.
    let is_source = options.kinds == [Kind::Source];
    if !options.no_build && !is_source {
        install::build()?;
    }
    let output = match &options.output {
        Some(folder) => std::path::absolute(folder)?,
        None => target_dir().join("packages"),
    };
    let extent = match (options.no_trial, options.everywhere) {
        (true, _) => None,
        (_, true) => Some(Extent::Everywhere),
        (_, false) => Some(Extent::One),
    };
    let built = target_dir().join("release");
    for line in make_and_try(&built, &output, &options.kinds, extent)? {
        println!("{line}");
    }
    Ok(())
}

/// Makes packages of what is built in a folder; returns a line for each.
fn make_and_try(
    built: &Path,
    output: &Path,
    kinds: &[Kind],
    extent: Option<Extent>,
) -> Result<Vec<String>> {
    fs::create_dir_all(output).with_context(|| format!("cannot make {}", output.display()))?;
    let stage = match kinds {
        [Kind::Source] => Stage::default(),
        _ => Stage::make(built, &output.join("stage"))?,
    };
    let wanted = |kind: &Kind| kinds.is_empty() || kinds.contains(kind);
    let mut lines = Vec::new();
    for kind in Kind::value_variants().iter().copied().filter(wanted) {
        if let Some(missing) = kind.missing() {
            if kinds.contains(&kind) {
                bail!("{kind:?}: {missing}");
            }
            say(&format!("{kind:?}: skipped: {missing}"));
            continue;
        }
        let start = Instant::now();
        let files = kind.make(&stage, output)?;
        let seconds = start.elapsed().as_secs_f64();
        for file in &files {
            lines.push(format!("{:>12}  {}", megabytes(file)?, file.display()));
        }
        lines.push(format!("{kind:?}: made in {seconds:.1} s"));
        if let Some(extent) = extent {
            let tried = kind.try_out(&files, output, extent)?;
            lines.extend(tried.into_iter().map(|line| format!("{kind:?}: {line}")));
        }
    }
    if stage.folder.exists() {
        fs::remove_dir_all(&stage.folder).context("cannot clean up")?;
    }
    Ok(lines)
}

impl Kind {
    /// What this machine lacks to make it.
    fn missing(self) -> Option<String> {
        match self {
            Self::Tarball | Self::Wheel => None,
            Self::Source => source::missing(),
            Self::Deb => tools::missing("dpkg-deb", "dpkg"),
            Self::Rpm => tools::missing("rpmbuild", "rpm"),
            Self::Container => container::missing(),
        }
    }

    /// Makes the files of this kind.
    fn make(self, stage: &Stage, output: &Path) -> Result<Vec<PathBuf>> {
        match self {
            Self::Tarball => tarball::make(stage, output),
            Self::Wheel => wheel::make(stage, output),
            Self::Source => source::make(output),
            Self::Deb => deb::make(stage, output),
            Self::Rpm => rpm::make(stage, output),
            Self::Container => container::make(stage, output),
        }
    }

    /// Tries them; returns a line for each place where they worked.
    fn try_out(self, files: &[PathBuf], output: &Path, extent: Extent) -> Result<Vec<String>> {
        let scratch = output.join("trial");
        let tried = match self {
            Self::Tarball => trial::tarball::run(files, &scratch, extent),
            Self::Wheel => trial::wheel::run(files, &scratch, extent),
            Self::Deb => trial::deb::run(files, &scratch, extent),
            Self::Rpm => trial::rpm::run(files, &scratch, extent),
            Self::Source => source::check(files),
            Self::Container => container::run(),
        };
        let tried = tried.with_context(|| format!("trial of {self:?} in {}", scratch.display()))?;
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        Ok(tried)
    }
}

/// A tag is `v` and the version, whose changes are written down.
fn check_tag(tag: &str, changes: &str) -> Result<()> {
    if tag.strip_prefix('v') != Some(VERSION) {
        bail!("the tag {tag} is not v{VERSION}, the version in Cargo.toml");
    }
    let heading = format!("## {VERSION}");
    if !changes.lines().any(|line| line.trim_end() == heading) {
        bail!("CHANGELOG.md has no section `{heading}`");
    }
    Ok(())
}

fn megabytes(file: &Path) -> Result<String> {
    let bytes = fs::metadata(file).with_context(|| file.display().to_string())?;
    Ok(format!("{:.2} MB", bytes.len() as f64 / 1e6))
}
