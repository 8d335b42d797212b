//! `cargo xtask runtimes`: the ROCm runtimes that the tests use, unpacked in folders of their own.
//!
//! Nothing is installed. Debian's packages of four releases and one Python wheel bring five generations of ROCr and HIP; no
//! other public registry has them. What is complete is kept, for all checkouts of this user, also when the registry has it no more.

mod debian;
mod wheel;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::debian::{Choice, Newer};
use crate::steps::{say, target_dir};

/// One set of runtimes.
#[derive(Debug)]
enum Source {
    /// Packages of a release of Debian with all that they depend on, as a file tree.
    Debian {
        release: &'static str,
        packages: &'static [&'static str],
    },
    /// Packages of a release of Debian alone, without what they depend on.
    Alone {
        release: &'static str,
        packages: &'static [&'static str],
    },
    /// Packages of a release of Debian, some of them from a later one, as a file tree.
    Mixed {
        release: &'static str,
        newer: Newer,
        packages: &'static [&'static str],
        choice: Choice,
    },
    /// Libraries in a wheel.
    Wheel {
        requirement: &'static str,
        python: &'static str,
        folder: &'static str,
    },
    /// A Python package of a wheel for this machine's Python, without a folder of it.
    Package {
        requirement: &'static str,
        without: &'static str,
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
        Source::Alone {
            release: "bookworm",
            packages: &[
                "libhsa-runtime64-1",
                "libhsa-runtime-dev",
                "rocminfo",
                "libamdhip64-5",
                "libamdhip64-dev",
                "libhiprtc-builtins5",
                "libamd-comgr2",
                "rocm-device-libs",
                "libhsakmt1",
                "libdrm-amdgpu1",
                "libdrm2",
                "libdrm-common",
                "libnuma1",
                "libelf1",
                "librocm-smi64-1",
                "librocm-smi-dev",
                "rocm-smi",
                "kmod",
                "libkmod2",
                "clang-15",
                "clang-tools-15",
                "libclang-cpp15",
                "libclang-common-15-dev",
                "libllvm15",
                "lld-15",
                "libz3-4",
                "libxml2",
                "libicu72",
                "libedit2",
                "libbsd0",
                "libmd0",
                "libtinfo6",
                "libzstd1",
                "liblzma5",
                "zlib1g",
                "libpci3",
                "pciutils",
            ],
        },
    ),
    (
        // The HSA runtime of the one before alone, for the demo: some megabytes.
        "hsa",
        Source::Alone {
            release: "bookworm",
            packages: &[
                "libhsa-runtime64-1",
                "libhsa-runtime-dev",
                "libhsakmt1",
                "libdrm-amdgpu1",
                "libdrm2",
                "libdrm-common",
                "libnuma1",
                "libelf1",
                "zlib1g",
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
    (
        // ROCr and HIP 7.2.4. Programs are compiled with the compiler of Debian 13: its own would be six times as much.
        "rocm7",
        Source::Mixed {
            release: "sid",
            newer: ROCM7,
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
                "libamdhip64-7",
                "libamdhip64-dev",
                "libroctx64-4",
                "libroctx-dev",
                "librocm-smi64-7",
                "rocm-smi",
                "amd-smi",
            ],
            choice: Choice::WithDependencies,
        },
    ),
    (
        // OpenMP's plug-in for GPUs, and what programs are linked with: LLVM's of the same release as the compiler of Debian 13. Debian's LLVM 22 lacks the library of the device.
        "openmp",
        Source::Alone {
            release: "trixie",
            packages: &["libomp-17-dev", "libomp5-17t64"],
        },
    ),
    (
        // LLVM's runtime of OpenMP that Debian 13 has beside its default, for programs in the file tree of `debian13`.
        "libomp19",
        Source::Alone {
            release: "trixie",
            packages: &["libomp5-19"],
        },
    ),
    (
        // ROCm's OpenCL 6.4.3, for the runtimes of `unstable`.
        "opencl",
        Source::Alone {
            release: "sid",
            packages: &["rocm-opencl-icd", "opencl-c-headers"],
        },
    ),
    (
        // RCCL for the one before those: four times as much to fetch as all the rest of it.
        "rocm7-rccl",
        Source::Mixed {
            release: "sid",
            newer: ROCM7,
            packages: &["librccl1", "librccl-dev"],
            choice: Choice::Alone,
        },
    ),
    (
        // AMD's library of hardware counters, for the same.
        "rocm7-counters",
        Source::Mixed {
            release: "sid",
            newer: ROCM7,
            packages: &["libhsa-amd-aqlprofile64-1"],
            choice: Choice::Alone,
        },
    ),
    (
        // 286 MB to fetch. Its own LLVM compiles for AMD's GPUs.
        "triton",
        Source::Package {
            requirement: "triton==3.9.0",
            without: "triton/backends/nvidia/bin/",
        },
    ),
    (
        // PyTorch 2.6 for processors, with what `torch.compile` needs to make code for them.
        "torch",
        Source::Debian {
            release: "trixie",
            packages: &[
                "base-files",
                "bash",
                "dash",
                "coreutils",
                "python3-torch",
                "libtorch-dev",
                "python3-dev",
                "python3-setuptools",
                "g++",
            ],
        },
    ),
];

/// What the quick set of tests needs: programs are compiled with it and run.
const FEW: &str = "debian12";

/// Fetched when they are asked for by their names: they are large, or the demo's.
const ASKED_FOR: [&str; 4] = ["hsa", "rocm7-rccl", "triton", "torch"];

/// Where ROCm 7 is, as long as it is not in the release beneath.
const ROCM7: Newer = Newer {
    release: "experimental",
    sources: &[
        "rocr-runtime",
        "rocm-hipamd",
        "rocprofiler-register",
        "aqlprofile",
        "rocm-llvm",
        "roctracer",
        "rocm-smi-lib",
        "rocminfo",
        "hipcc",
        "rccl",
    ],
};

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

/// Fetches what tests need, or the quick set of them. A failure is told: the tests say themselves what they lack.
pub fn fetch_for_tests(is_small: bool) -> Result<()> {
    fetch(is_small.then_some(FEW)).map(|_| ())
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
        if only.map_or(ASKED_FOR.contains(name), |only| only != *name) {
            continue;
        }
        let missing = folder.join(format!("{name}.missing"));
        match fetch_one(&folder, name, source) {
            Ok(()) => {
                if missing.exists() {
                    fs::remove_file(missing)?;
                }
                say(&format!("runtimes {name}: {}", folder.join(name).display()));
            }
            Err(error) => {
                let why = format!("{error:#}");
                // Tests say it again.
                fs::write(missing, &why)?;
                if is_complete(&folder.join(name)) {
                    say(&format!("runtimes {name} are those of before: {why}"));
                } else {
                    say(&format!("no runtimes {name}: {why}"));
                    all = false;
                }
            }
        }
    }
    Ok(all)
}

/// Whether a folder has what it was made for, of whatever list.
fn is_complete(place: &Path) -> bool {
    place.join(COMPLETE).is_file()
}

fn fetch_one(folder: &Path, name: &str, source: &Source) -> Result<()> {
    let place = folder.join(name);
    let made_from = format!("{source:?}\n");
    if fs::read_to_string(place.join(COMPLETE)).is_ok_and(|complete| complete == made_from) {
        return Ok(());
    }
    let draft = folder.join(format!("{name}.draft"));
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    fs::create_dir_all(&draft).with_context(|| format!("cannot make {}", draft.display()))?;
    match source {
        Source::Debian { release, packages } => {
            debian::unpack(&draft, release, None, packages, Choice::WithDependencies)?;
        }
        Source::Alone { release, packages } => {
            debian::unpack(&draft, release, None, packages, Choice::Alone)?;
        }
        Source::Mixed {
            release,
            newer,
            packages,
            choice,
        } => debian::unpack(&draft, release, Some(newer), packages, *choice)?,
        Source::Wheel {
            requirement,
            python,
            folder,
        } => wheel::unpack(&draft, requirement, python, folder)?,
        Source::Package {
            requirement,
            without,
        } => wheel::unpack_package(&draft, requirement, without)?,
    }
    // Into place only when it is complete.
    fs::write(draft.join(COMPLETE), made_from)?;
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::rename(&draft, &place).context("cannot put it into place")
}
