//! `cargo xtask runtimes`: the ROCm runtimes that the tests use, unpacked in folders of their own.
//!
//! Nothing is installed. Debian's packages of three releases and one Python wheel bring five generations of ROCr and HIP; no
//! other public registry has them. What is complete is kept, for all checkouts of this user.

mod debian;
mod wheel;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::{say, target_dir};

/// One set of runtimes.
#[derive(Debug)]
enum Source {
    /// Packages of a release of Debian with all that they depend on, as a file tree.
    Debian {
        release: &'static str,
        packages: &'static [&'static str],
    },
    /// Libraries in a wheel.
    Wheel {
        requirement: &'static str,
        python: &'static str,
        folder: &'static str,
    },
}

/// Folder names and where their content comes from. The tests know these names (`tests/src/simgpu/stack.rs`).
const STACKS: &[(&str, Source)] = &[
    (
        // No GPU runtime: an older C library, with a shell and a Python.
        "debian11",
        Source::Debian {
            release: "bullseye",
            packages: &[
                "base-files",
                "bash",
                "dash",
                "coreutils",
                "libgcc-s1",
                "python3-minimal",
            ],
        },
    ),
    (
        // No GPU runtime: the newest Pythons, with their libraries, and numpy.
        "pythons",
        Source::Debian {
            release: "sid",
            packages: &[
                "base-files",
                "bash",
                "dash",
                "coreutils",
                "python3.14",
                "libpython3.14",
                "python3.15",
                "libpython3.15",
                "python3-numpy",
            ],
        },
    ),
    (
        // ROCr, HIP and SMI 5.2.3; the compiler for its programs.
        "debian12",
        Source::Debian {
            release: "bookworm",
            packages: &[
                "libhsa-runtime64-1",
                "libhsa-runtime-dev",
                "rocminfo",
                "libamdhip64-5",
                "libamdhip64-dev",
                "rocm-device-libs",
                "clang-15",
                "clang-tools-15",
                "lld-15",
                "kmod",
                "librocm-smi64-1",
                "librocm-smi-dev",
                "rocm-smi",
            ],
        },
    ),
    (
        // ROCr and HIP 5.4.2, as AMD builds them.
        "wheel54",
        Source::Wheel {
            requirement: "pytorch-triton-rocm==2.1.0",
            python: "3.10",
            folder: "triton/third_party/rocm/lib/",
        },
    ),
    (
        // ROCr 6.1.2, HIP 5.7.1, RCCL; the compiler for its programs and for those of the next one.
        "debian13",
        Source::Debian {
            release: "trixie",
            packages: &[
                "base-files",
                "bash",
                "dash",
                "coreutils",
                "grep",
                "util-linux",
                "kmod",
                "libhsa-runtime64-1",
                "libhsa-runtime-dev",
                "rocminfo",
                "libamdhip64-5",
                "libamdhip64-dev",
                "librccl1",
                "librccl-dev",
                "libroctx64-4",
                "libroctx-dev",
                "librocm-smi64-1",
                "rocm-smi",
                "amd-smi",
                "rocm-device-libs-17",
                "clang-17",
                "clang-tools-17",
                "llvm-17",
                "lld-17",
                "g++",
            ],
        },
    ),
    (
        // ROCr and HIP 6.4.3.
        "unstable",
        Source::Debian {
            release: "sid",
            packages: &[
                "base-files",
                "bash",
                "dash",
                "coreutils",
                "grep",
                "util-linux",
                "kmod",
                "libhsa-runtime64-1",
                "libhsa-runtime-dev",
                "rocminfo",
                "libamdhip64-6",
                "libamdhip64-dev",
                "libroctx64-4",
                "libroctx-dev",
                "librocm-smi64-1",
                "rocm-smi",
                "amd-smi",
            ],
        },
    ),
];

/// In a folder that is complete: what it was made from.
const COMPLETE: &str = ".complete";

/// Where runtimes of this name are, if they are there and complete.
pub fn complete(name: &str) -> Option<PathBuf> {
    let place = folder().join(name);
    place.join(COMPLETE).is_file().then_some(place)
}

/// Where the runtimes are: `$RSYS_RUNTIMES_DIR`, or in the user's cache.
fn folder() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("RSYS_RUNTIMES_DIR") {
        return folder.into();
    }
    let cache = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
    cache.map_or_else(
        || target_dir().join("runtimes"),
        |cache| cache.join("rsys/runtimes"),
    )
}

/// Fetches what is not there yet; of all that fail, says why. Returns whether all are there.
pub fn fetch(only: Option<&str>) -> Result<bool> {
    if let Some(name) = only
        && !STACKS.iter().any(|(known, _)| *known == name)
    {
        let known: Vec<_> = STACKS.iter().map(|(known, _)| *known).collect();
        bail!(
            "there are no runtimes `{name}`; there are {}",
            known.join(", ")
        );
    }
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Several checkouts share the folder.
    let lock = fs::File::create(folder.join(".lock")).context("cannot make a lock")?;
    lock.lock()
        .context("cannot wait for another one that fetches")?;
    let mut all = true;
    for (name, source) in STACKS {
        if only.is_some_and(|only| only != *name) {
            continue;
        }
        match fetch_one(&folder, name, source) {
            Ok(()) => say(&format!("runtimes {name}: {}", folder.join(name).display())),
            Err(error) => {
                say(&format!("no runtimes {name}: {error:#}"));
                all = false;
            }
        }
    }
    Ok(all)
}

fn fetch_one(folder: &Path, name: &str, source: &Source) -> Result<()> {
    let place = folder.join(name);
    let made_from = format!("{source:?}\n");
    if fs::read_to_string(place.join(COMPLETE)).is_ok_and(|complete| complete == made_from) {
        return Ok(());
    }
    let draft = folder.join(format!("{name}.draft"));
    for old in [&draft, &place] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    fs::create_dir_all(&draft).with_context(|| format!("cannot make {}", draft.display()))?;
    match source {
        Source::Debian { release, packages } => debian::unpack(&draft, release, packages)?,
        Source::Wheel {
            requirement,
            python,
            folder,
        } => wheel::unpack(&draft, requirement, python, folder)?,
    }
    // Into place only when it is complete.
    fs::write(draft.join(COMPLETE), made_from)?;
    fs::rename(&draft, &place).context("cannot put it into place")
}
