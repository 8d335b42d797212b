//! Where things are: the product under test, the judges, room for output.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

/// The root of the repository.
#[must_use]
pub fn workspace_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(|| PathBuf::from(".."), Path::to_path_buf)
}

/// The folder into which cargo builds: the first `target`-like ancestor of the running test.
#[must_use]
pub fn target_dir() -> PathBuf {
    if let Some(dir) = env::var_os("CARGO_TARGET_DIR") {
        return workspace_dir().join(dir);
    }
    workspace_dir().join("target")
}

/// The folder into which `cargo xtask test` puts the judges: the trace processor and the browser driver.
#[must_use]
pub fn judge_dir() -> PathBuf {
    env::var_os("RSYS_JUDGE_DIR").map_or_else(|| target_dir().join("judge"), PathBuf::from)
}

/// The profiler: `$RSYS_SAMPLE`, or the release build.
///
/// # Errors
/// When there is none.
pub fn sampler() -> Result<PathBuf> {
    program("rsys-sample", "RSYS_SAMPLE")
}

/// `rsys-avail`: `$RSYS_AVAIL`, or the release build.
///
/// # Errors
/// When there is none.
pub fn avail() -> Result<PathBuf> {
    program("rsys-avail", "RSYS_AVAIL")
}

/// `rsys-report`: `$RSYS_REPORT`, or the release build.
///
/// # Errors
/// When there is none.
pub fn report() -> Result<PathBuf> {
    program("rsys-report", "RSYS_REPORT")
}

fn program(name: &str, variable: &str) -> Result<PathBuf> {
    let path = env::var_os(variable)
        .map_or_else(|| target_dir().join("release").join(name), PathBuf::from);
    if !path.is_file() {
        bail!(
            "{} is not there: run `cargo build --release` first, or set {variable}",
            path.display()
        );
    }
    Ok(path)
}

/// A folder of its own for one run, below `target/tmp`. It goes away with its owner, unless the test is failing or
/// `RSYS_KEEP` is set.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a new, empty folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(purpose: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = target_dir()
            .join("tmp")
            .join(format!("{purpose}-{}-{number}", process::id()));
        // What an earlier process of this number has kept.
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() || env::var_os("RSYS_KEEP").is_some() {
            eprintln!("kept: {}", self.path.display());
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}
