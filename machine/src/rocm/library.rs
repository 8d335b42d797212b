//! The libraries of ROCm that matter to a profiler, and the versions that their files tell.

use std::path::{Path, PathBuf};

use super::elf::{Elf, text_after};
use crate::roots::Roots;

/// A kind of library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The HIP runtime.
    Hip,
    /// The HSA runtime below it.
    Hsa,
    /// Collectives.
    Rccl,
    /// Ranges and marks.
    Roctx,
    /// Sensors.
    AmdSmi,
    /// Sensors, before amd-smi.
    RocmSmi,
    /// Hands the runtimes' tables to tools.
    Register,
}

impl Kind {
    /// All kinds, with the beginnings of their files' names.
    pub const ALL: [(Self, &'static [&'static str]); 7] = [
        (Self::Hip, &["libamdhip64.so"]),
        (Self::Hsa, &["libhsa-runtime64.so"]),
        (Self::Rccl, &["librccl.so"]),
        (
            Self::Roctx,
            &["libroctx64.so", "librocprofiler-sdk-roctx.so"],
        ),
        (Self::AmdSmi, &["libamd_smi.so"]),
        (Self::RocmSmi, &["librocm_smi64.so"]),
        (Self::Register, &["librocprofiler-register.so"]),
    ];

    /// As it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hip => "HIP",
            Self::Hsa => "HSA",
            Self::Rccl => "RCCL",
            Self::Roctx => "roctx",
            Self::AmdSmi => "amd-smi",
            Self::RocmSmi => "rocm-smi",
            Self::Register => "rocprofiler-register",
        }
    }

    /// The kind of a file by its name, with or without a version behind it.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        let fits = |stem: &&str| {
            let rest = name.strip_prefix(*stem);
            rest.is_some_and(|rest| {
                rest.is_empty()
                    || rest.starts_with('.')
                        && rest
                            .bytes()
                            .all(|byte| byte == b'.' || byte.is_ascii_digit())
            })
        };
        let found = Self::ALL.iter().find(|(_, stems)| stems.iter().any(fits));
        found.map(|(kind, _)| *kind)
    }
}

/// A library that is installed.
#[derive(Debug, Clone)]
pub struct Library {
    /// What it is.
    pub kind: Kind,
    /// Its file, without links, below the root.
    pub path: PathBuf,
    /// Its version, as far as its file tells; empty if it does not.
    pub version: String,
    /// The ROCm that it belongs to, as far as names around it tell.
    pub rocm: Option<String>,
    /// The reason why it cannot be used by programs of this processor, if so.
    pub unusable: Option<String>,
    /// Whether HIP reports to a tracer.
    pub has_tracer: bool,
    /// Whether it hands its tables to tools that register with rocprofiler-register.
    pub registers: bool,
}

/// As much of a library is searched for its version, in bytes: it stands among the constants, before the code.
const SEARCHED: u64 = 16 << 20;

impl Library {
    /// Reads what is known of a file, a path without links below the root.
    #[must_use]
    pub fn read(roots: &Roots, kind: Kind, path: &Path) -> Self {
        let file = roots.inside(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let elf = Elf::open(&file);
        let unusable = elf.as_ref().err().map(ToString::to_string);
        let elf = elf.unwrap_or_default();
        let names = match kind {
            Kind::Hip => elf
                .names(&file, |name| {
                    name == TAKE_TRACER || name.starts_with("hip_")
                })
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        let after = name.split_once(".so.").map_or("", |(_, numbers)| numbers);
        let version = match kind {
            // The numbers of its file are always 1.0.
            Kind::Rccl => text_after(&file, b"RCCL version ", SEARCHED)
                .or_else(|| text_after(&file, b"RCCL version : ", SEARCHED))
                .unwrap_or_default(),
            _ if after.contains('.') => after.to_owned(),
            Kind::Hip => at_least(&names).unwrap_or_else(|| after.to_owned()),
            _ => after.to_owned(),
        };
        Self {
            kind,
            path: path.to_owned(),
            version,
            rocm: release(roots, path, after),
            unusable,
            has_tracer: names.iter().any(|name| name == TAKE_TRACER),
            registers: elf
                .needed
                .iter()
                .any(|name| Kind::of_file(name) == Some(Kind::Register)),
        }
    }

    /// The HSA runtime's own number: 18 of `libhsa-runtime64.so.1.18.70101`.
    #[must_use]
    pub fn interface(&self) -> Option<u32> {
        let mut numbers = self.version.split('.');
        (self.kind == Kind::Hsa && numbers.next() == Some("1"))
            .then(|| numbers.next()?.parse().ok())?
    }
}

const TAKE_TRACER: &str = "hipRegisterTracerCallback";

/// `5.3 or later` of HIP's versions of symbols.
fn at_least(names: &[String]) -> Option<String> {
    let versions = names.iter().filter_map(|name| {
        let (major, minor) = name.strip_prefix("hip_")?.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    let (major, minor) = versions.max()?;
    Some(format!("{major}.{minor} or later"))
}

/// The ROCm of a library: by its file's last number as AMD's packages have it, by files beside it, or by the wheel that brought it.
fn release(roots: &Roots, path: &Path, numbers: &str) -> Option<String> {
    if let Some(number) = numbers.rsplit('.').next()
        && let Ok(number) = number.parse::<u32>()
        // As 70101 for 7.1.1; HIP's last number, as 43484, is another thing.
        && (50_000..1_000_000).contains(&number)
        && number % 100 < 20
        && Kind::of_file(&path.file_name()?.to_string_lossy()) != Some(Kind::Hip)
    {
        let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
        return Some(format!("{major}.{minor}.{patch}"));
    }
    let tree = path.parent()?.parent()?;
    if let Some(text) = roots.text_inside(&tree.join(".info/version")) {
        return Some(text.lines().next().unwrap_or_default().to_owned());
    }
    let folder = tree.file_name()?.to_str()?;
    if let Some(version) = folder
        .strip_prefix("rocm-")
        .or_else(|| folder.strip_prefix("core-"))
        .filter(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    {
        return Some(version.to_owned());
    }
    // A wheel: its version is in the name of the folder beside it that describes it.
    let package = folder.trim_start_matches('_');
    let prefix = if package == "torch" {
        "torch-"
    } else {
        "rocm_sdk_core-"
    };
    let site = tree.parent()?;
    let entries = std::fs::read_dir(roots.inside(site)).ok()?;
    let mut found = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix(prefix)?.strip_suffix(".dist-info")?;
        match version.split_once("+rocm") {
            Some((_, rocm)) => Some(rocm.to_owned()),
            None => (package != "torch").then(|| version.to_owned()),
        }
    });
    found.next()
}
