//! The runtimes that programs are run with.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::invocation::Invocation;
use crate::needs::missing_tool;
use crate::paths::{target_dir, workspace_dir};

/// A generation of ROCr and HIP, as `cargo xtask runtimes` unpacks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// ROCr 5.2.3, HIP 5.2.3.
    Debian12,
    /// ROCr and HIP 5.4.2 as AMD builds them.
    Wheel54,
    /// ROCr 6.1.2, HIP 5.7.1, RCCL 2.13.
    Debian13,
    /// ROCr and HIP 6.4.3.
    Unstable,
    /// ROCr and HIP 7.2.4; RCCL where it was fetched.
    Rocm7,
}

/// Makes a file tree the root of a program, with what it needs of this machine: $1 is the tree, then come folders, then
/// `--` and the program. Nobody has made the linker's cache of that tree, so libraries are found by a variable. One that is too large for all may
/// stand beside the tree.
const IN_TREE: &str = r#"set -e
tree=$1; shift
for folder in /proc /sys /dev /tmp; do
    mkdir -p "$tree$folder"
    mount --rbind "$folder" "$tree$folder"
done
while [ "$1" != -- ]; do
    mkdir -p "$tree$1"
    mount --bind "$1" "$tree$1"
    shift
done
shift
export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu:$tree-rccl/usr/lib/x86_64-linux-gnu:$tree-counters/usr/lib/x86_64-linux-gnu
exec chroot "$tree" /bin/bash -c 'cd "$0" && exec "$@"' "$PWD" "$@"
"#;

impl Stack {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] = [
        Self::Debian12,
        Self::Wheel54,
        Self::Debian13,
        Self::Unstable,
        Self::Rocm7,
    ];

    /// The name of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Debian12 => "debian12",
            Self::Wheel54 => "wheel54",
            Self::Debian13 => "debian13",
            Self::Unstable => "unstable",
            Self::Rocm7 => "rocm7",
        }
    }

    /// Where it is unpacked: in `$RSYS_RUNTIMES_DIR`, or in the user's cache.
    #[must_use]
    pub fn folder(self) -> PathBuf {
        runtimes_dir().join(self.name())
    }

    /// Says so when it is not there or cannot be used here.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        if !self.folder().join(".complete").is_file() {
            return Some(not_fetched(self.name()));
        }
        self.is_tree().then(missing_mounts).flatten()
    }

    /// Says so when it, or the compiler of the tests' programs for it, is not there.
    #[must_use]
    pub fn missing_to_build(self) -> Option<String> {
        let newer = matches!(self, Self::Unstable | Self::Rocm7).then_some(Self::Debian13);
        let needed = [Some(self), Some(Self::Debian12), newer];
        needed.into_iter().flatten().find_map(Self::missing)
    }

    /// Says so when RCCL is not there.
    #[must_use]
    pub fn missing_rccl(self) -> Option<String> {
        self.missing().or_else(|| match self {
            Self::Debian13 => None,
            Self::Rocm7 => {
                let there = self.beside().join(".complete").is_file();
                (!there).then(|| not_fetched("rocm7-rccl"))
            }
            _ => Some(format!("the runtimes {} have no RCCL", self.name())),
        })
    }

    /// Says so when the libraries of this name, as `cargo xtask runtimes` has them, or the runtimes that they need are not there.
    #[must_use]
    pub fn missing_beside(self, name: &str) -> Option<String> {
        self.missing().or_else(|| {
            let there = runtimes_dir().join(name).join(".complete").is_file();
            (!there).then(|| not_fetched(name))
        })
    }

    /// Where RCCL is, if it is not among the other libraries.
    pub(super) fn beside(self) -> PathBuf {
        runtimes_dir().join(format!("{}-rccl", self.name()))
    }

    /// Whether programs need its whole file tree, because its libraries need a newer C library than ours.
    fn is_tree(self) -> bool {
        matches!(self, Self::Debian13 | Self::Unstable | Self::Rocm7)
    }

    /// The folder of its libraries.
    #[must_use]
    pub fn libraries(self) -> PathBuf {
        match self {
            Self::Wheel54 => self.folder().join("lib"),
            _ => self.folder().join("usr/lib/x86_64-linux-gnu"),
        }
    }

    /// A program, run with these runtimes.
    #[must_use]
    pub fn with_runtimes(self, program: Invocation) -> Invocation {
        if self.is_tree() {
            return in_tree(&self.folder(), program);
        }
        let tools = Self::Debian12.folder();
        let mut path = env::var_os("PATH").unwrap_or_default();
        for folder in ["usr/bin", "bin", "sbin"] {
            path.push(":");
            path.push(tools.join(folder));
        }
        program
            .env("LD_LIBRARY_PATH", self.libraries())
            .env("PATH", path)
    }

    /// The program of this name that comes with the runtimes.
    #[must_use]
    pub fn tool(self, name: &str) -> Invocation {
        match self {
            Self::Debian12 | Self::Wheel54 => {
                Invocation::new(Self::Debian12.folder().join("usr/bin").join(name))
            }
            Self::Debian13 | Self::Unstable | Self::Rocm7 => {
                Invocation::new(Path::new("/usr/bin").join(name))
            }
        }
    }
}

/// That a folder of runtimes is not there, and why it could not be fetched, if that was tried.
fn not_fetched(name: &str) -> String {
    let folder = runtimes_dir();
    match fs::read_to_string(folder.join(format!("{name}.missing"))) {
        Ok(why) => format!("the runtimes {name} could not be fetched: {why}"),
        Err(_) => format!(
            "the runtimes {name} are not in {}: `cargo xtask runtimes {name}` fetches them",
            folder.display()
        ),
    }
}

/// Says so when a program cannot have mounts of its own.
pub(crate) fn missing_mounts() -> Option<String> {
    missing_tool("unshare").or_else(|| {
        static WORKS: OnceLock<bool> = OnceLock::new();
        let works = WORKS.get_or_init(|| {
            let tried = Command::new("unshare").args(["--mount", "true"]).output();
            tried.is_ok_and(|tried| tried.status.success())
        });
        (!works).then(|| "only root can have mounts of its own".to_owned())
    })
}

/// A program whose root is a file tree. Our own folders are where they are outside.
pub(super) fn in_tree(tree: &Path, program: Invocation) -> Invocation {
    entering(tree).program(program)
}

/// The words that make a file tree the root of the program behind them.
pub fn entering(tree: &Path) -> Invocation {
    let mut wrapped = Invocation::new("unshare")
        .args(["--mount", "/bin/sh", "-c", IN_TREE, "sh"])
        .arg(tree);
    for folder in [workspace_dir(), target_dir(), runtimes_dir()] {
        wrapped = wrapped.arg(folder.canonicalize().unwrap_or(folder));
    }
    wrapped.arg("--")
}

/// Where `cargo xtask runtimes` puts what it fetches.
#[must_use]
pub fn runtimes_dir() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
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
