//! Steps that tasks are made of: running programs, building, finding folders.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Builds everything as a user gets it.
pub fn build_release() -> Result<()> {
    step(cargo().args(["build", "--release", "--workspace"]))
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

/// Whether a program is on the search path.
pub fn has_program(name: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// Whether a command runs and succeeds; what it prints is of no interest.
pub fn succeeds(program: &str, args: &[&str]) -> bool {
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
