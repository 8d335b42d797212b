//! A system of Debian's packages in a folder: clean, and gone afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::super::tools;
use super::place::{Place, content};

/// Releases, the oldest first.
pub const RELEASES: [&str; 4] = ["bullseye", "bookworm", "trixie", "sid"];
const MAKER: &str = "mmdebstrap";
/// What changes without being of a package: the state of dpkg, logs, what programs wrote for themselves.
const NOT_COMPARED: [&str; 7] = [
    "dev",
    "proc",
    "run",
    "sys",
    "tmp",
    "var/lib/dpkg",
    "var/log",
];
/// A user who is nobody special.
const USER: &str = "--userspec=1000:1000";
/// Has a kernel's file systems in the root, in a mount namespace that goes with the process.
const ENTER: &str = "for name in proc dev sys; do mount --rbind /$name \"$1/$name\"; done; shift; exec chroot \"$@\"";

/// A root, removed when it is dropped.
#[derive(Debug)]
pub struct Root {
    /// Its release of Debian.
    pub release: &'static str,
    folder: PathBuf,
}

impl Root {
    /// Makes one below `scratch`; or says what this machine lacks.
    pub fn make(release: &'static str, scratch: &Path) -> Result<Result<Self, String>> {
        if let Some(missing) = tools::missing(MAKER, MAKER) {
            return Ok(Err(missing));
        }
        if !nix::unistd::geteuid().is_root() {
            return Ok(Err("only root may make a root".to_owned()));
        }
        let folder = scratch.join(release);
        fs::create_dir_all(scratch)?;
        let mut maker = Command::new(MAKER);
        maker
            .args([
                "--quiet",
                "--variant=essential",
                "--include=python3-minimal",
            ])
            .args(["--aptopt=Acquire::Check-Valid-Until \"false\"", release])
            .arg(&folder)
            .arg(mirror()?);
        let root = Self { release, folder };
        tools::run(&mut maker)?;
        Ok(Ok(root))
    }

    /// Copies a file into its `/tmp`.
    pub fn bring(&self, file: &Path) -> Result<()> {
        let name = file.file_name().context("no name")?;
        fs::copy(file, self.folder.join("tmp").join(name))
            .map(drop)
            .context("cannot copy")
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a command in it, as root.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        tools::run(self.entered(None).args(words))
    }

    /// Profiles and reports in it, as root and as a user; returns the seconds.
    pub fn use_it(&self) -> Result<f64> {
        let mut seconds = 0.0;
        for user in [None, Some(USER)] {
            let name = if user.is_some() { "user" } else { "root" };
            let outside = self.folder.join("tmp").join(name);
            fs::create_dir_all(&outside)?;
            if user.is_some() {
                std::os::unix::fs::chown(&outside, Some(1000), Some(1000))?;
            }
            let place = Place {
                command: &|name| {
                    let mut command = self.entered(user);
                    command.arg(name);
                    command
                },
                folder: (outside, Path::new("/tmp").join(name)),
                python: "python3".to_owned(),
            };
            seconds += place
                .use_it()
                .with_context(|| format!("in {} as {name}", self.release))?;
        }
        Ok(seconds)
    }

    /// Runs the original's names in it.
    pub fn use_old_names(&self) -> Result<()> {
        let place = Place {
            command: &|name| {
                let mut command = self.entered(None);
                command.arg(name);
                command
            },
            folder: (self.folder.join("tmp"), "/tmp".into()),
            python: "python3".to_owned(),
        };
        place.use_old_names()
    }

    /// All files that a package may leave.
    pub fn content(&self) -> Result<BTreeSet<PathBuf>> {
        content(&self.folder, &NOT_COMPARED)
    }

    fn entered(&self, user: Option<&str>) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-ec", ENTER, "sh"])
            .arg(&self.folder);
        command.args(user).arg(&self.folder);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

/// Where this machine has Debian's packages from.
fn mirror() -> Result<String> {
    let words = [
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
    ];
    let targets = tools::run(Command::new("apt-get").args(words))?;
    let mut mirrors = targets.lines().map(|uri| uri.trim_end_matches('/'));
    let mirror = mirrors.find(|uri| uri.ends_with("/debian"));
    Ok(mirror
        .context("apt-get has no source of Debian's packages")?
        .to_owned())
}
