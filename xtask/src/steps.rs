//! Steps that tasks are made of: running programs, building, finding folders.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub fn workspace_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder into which cargo builds.
pub fn target_dir() -> PathBuf {
    let chosen = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace_dir().join(chosen)
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_dir());
    command
}

/// Measured on two cores of 2026; the number of crates, not their order, makes it long.
const FIRST_BUILD: &str = "about three minutes on two cores the first time, seconds later";
/// What runs and profiles a program.
pub const PROFILER: &[&str] = &[
    "rsys-agent",
    "rsys-agent-parallel",
    "rsys-agent-locks",
    "rsys-sampler",
];
/// All that users get.
pub const PROGRAMS: &[&str] = &[
    "rsys-agent",
    "rsys-agent-parallel",
    "rsys-agent-locks",
    "rsys-sampler",
    "rsys-avail",
    "rsys-report",
    "rsys-simgpu",
];

/// Builds these packages and what they depend on, and nothing else.
pub fn build_packages(what: &str, packages: &[&str]) -> Result<()> {
    let selected: Vec<&str> = packages.iter().flat_map(|name| ["-p", name]).collect();
    build(what, &selected)
}

/// Says what is built and about how long that takes, and afterwards how long it took.
fn build(what: &str, selected: &[&str]) -> Result<()> {
    say(&format!(
        "building {what}, optimised: {FIRST_BUILD}; cargo names each part as it comes to it"
    ));
    let start = Instant::now();
    step(cargo().args(["build", "--release"]).args(selected))?;
    say(&format!("built in {} s", start.elapsed().as_secs()));
    Ok(())
}

/// Says what is done, does it, and fails if that fails.
pub fn step(command: &mut Command) -> Result<()> {
    say(&format!("{}", Shown(command)));
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    if !status.success() {
        bail!("`{}` failed ({status})", Shown(command));
    }
    Ok(())
}

/// One line about what goes on. It goes to standard error, in front of what the step itself prints there.
pub fn say(line: &str) {
    eprintln!("xtask: {line}");
}

/// A program of this name on the search path.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Whether a program is on the search path.
pub fn has_program(name: &str) -> bool {
    find_program(name).is_some()
}

/// Whether a command runs and succeeds; what it prints is of no interest.
pub fn succeeds(program: impl AsRef<OsStr>, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .output()
        .is_ok_and(|done| done.status.success())
}

struct Shown<'a>(&'a Command);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program = Path::new(self.0.get_program());
        let name = program.file_name().unwrap_or(OsStr::new("?"));
        write!(f, "{}", name.display())?;
        self.0
            .get_args()
            .try_for_each(|arg| write!(f, " {}", arg.display()))
    }
}

/// Bytes that have come in over the network since this machine was started, by any program.
pub fn received_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let interfaces = text.lines().filter_map(|line| line.split_once(':'));
    let outer = interfaces.filter(|(name, _)| name.trim() != "lo");
    let counts = outer.filter_map(|(_, counts)| counts.split_whitespace().next()?.parse().ok());
    counts.fold(0, u64::wrapping_add)
}
