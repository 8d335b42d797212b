//! Which file a command is, and whether the agent can be loaded into it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::AccessFlags;
use rsys_machine::secure::gained_rights;
use rsys_wire::program::{
    AGENT_DATA_BYTES, AGENT_MEMORY_BYTES, DEFAULT_PATH, INTERPRETERS_MAX, Kind, Obstacle, kind_of,
};

/// Why a command cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Nothing was given to run.
    #[error("no command to run; write: rsys-sample [options] -- command [arguments]")]
    Missing,
    /// There is no such file.
    #[error("{0}: command not found{hint}", hint = meant(.0))]
    NotFound(String),
    /// There is one which cannot be executed.
    #[error("{path}: cannot be executed: {reason}")]
    NotExecutable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

impl CommandError {
    /// The exit code that shells give for it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            CommandError::Missing => super::ending::USAGE,
            CommandError::NotFound(_) => super::ending::NOT_FOUND,
            CommandError::NotExecutable { .. } => super::ending::NOT_EXECUTABLE,
        }
    }
}

/// What the agent can do in a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It can be loaded.
    Sampled,
    /// It stays out, without harm; programs started from there may load it. Why, in words.
    Ignored(String),
    /// It must not be tried. Why, in words.
    Refused(String),
}

/// Finds the file of `command` as a shell would.
///
/// # Errors
/// When there is none, or none that may be executed.
pub fn find(command: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, CommandError> {
    if command.is_empty() {
        return Err(CommandError::NotFound(String::new()));
    }
    if command.as_bytes().contains(&b'/') {
        return executable(PathBuf::from(command));
    }
    let directories = path.map_or_else(|| OsString::from(DEFAULT_PATH), OsStr::to_owned);
    let mut refused = None;
    for directory in std::env::split_paths(&directories) {
        // An empty entry means the current directory.
        let directory = if directory.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            directory
        };
        match executable(directory.join(command)) {
            Ok(found) => return Ok(found),
            Err(CommandError::NotFound(_)) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| CommandError::NotFound(command.to_string_lossy().into_owned())))
}

/// What may have been meant by a word that is no command.
fn meant(word: &str) -> &'static str {
    match word {
        "record" | "run" | "profile" | "launch" | "start" | "stat" => {
            "; rsys-sample has no commands of its own: rsys-sample [OPTIONS] -- PROGRAM [ARGUMENTS]"
        }
        "attach" | "dump" => {
            "; rsys-sample -p PID records a process that runs, rsys-sample --dump PID prints its stacks"
        }
        word if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) => {
            "; the rate of samples is -f HERTZ, a process that runs already -p PID"
        }
        _ => "",
    }
}

fn executable(path: PathBuf) -> Result<PathBuf, CommandError> {
    let refuse = |reason: &str| CommandError::NotExecutable {
        path: path.display().to_string(),
        reason: reason.to_owned(),
    };
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(refuse("permission denied in its directory"));
        }
        Err(_) => return Err(CommandError::NotFound(path.display().to_string())),
    };
    if metadata.is_dir() {
        return Err(refuse("it is a directory"));
    }
    if nix::unistd::eaccess(&path, AccessFlags::X_OK).is_err() {
        let is_python = path.extension().is_some_and(|end| end == "py");
        return Err(refuse(match is_python {
            true => "no permission; a script is run by its interpreter: python3 SCRIPT",
            false => "no permission (chmod +x makes it executable)",
        }));
    }
    Ok(path)
}

/// What the agent can do in the program at `path`.
#[must_use]
pub fn judge(path: &Path) -> Verdict {
    if let Some(reason) = little_memory(path) {
        return Verdict::Refused(reason);
    }
    let mut path = path.to_path_buf();
    for _ in 0..INTERPRETERS_MAX {
        if let Some(reason) = secure_mode(&path) {
            return Verdict::Ignored(reason);
        }
        match kind_of_file(&path) {
            // Executable and not readable: the loader can still load an agent.
            None | Some(Kind::Fits) => return Verdict::Sampled,
            Some(Kind::Unfit(obstacle)) => {
                let reason = format!("{} {obstacle}", path.display());
                return if obstacle.forbids_agent() {
                    Verdict::Refused(reason)
                } else {
                    Verdict::Ignored(reason)
                };
            }
            Some(Kind::Script(interpreter)) => {
                path = PathBuf::from(OsStr::from_bytes(interpreter.path()));
            }
            Some(Kind::Other) => path = PathBuf::from("/bin/sh"),
        }
    }
    Verdict::Sampled
}

fn little_memory(path: &Path) -> Option<String> {
    let is_below = |resource, bytes| getrlimit(resource).is_ok_and(|(soft, _)| soft < bytes);
    let is_little = is_below(Resource::RLIMIT_DATA, AGENT_DATA_BYTES)
        || is_below(Resource::RLIMIT_AS, AGENT_MEMORY_BYTES);
    is_little.then(|| format!("{} {}", path.display(), Obstacle::NoMemory))
}

fn secure_mode(path: &Path) -> Option<String> {
    let why = gained_rights(path)?;
    Some(format!("{} {why}", path.display()))
}

fn kind_of_file(path: &Path) -> Option<Kind> {
    let file = File::open(path).ok()?;
    let path = path.as_os_str().as_bytes();
    kind_of(path, |offset, buffer| {
        file.read_at(buffer, offset).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_a_shell_finds_them() {
        let path = Some(OsStr::new("/nowhere:/etc:/bin:/usr/bin"));
        assert!(find(OsStr::new("sh"), path).is_ok());
        assert!(find(OsStr::new("/bin/sh"), None).is_ok());
        assert!(find(OsStr::new("sh"), None).is_ok());
        // command => exit code
        for (command, code) in [
            ("", 127),
            ("no-such-command", 127),
            ("/no/such/command", 127),
            ("passwd-like-file-that-is-not-there", 127),
            ("/etc", 126),
            ("/proc/self/status", 126),
            // In /etc, not executable, and nowhere else.
            ("hostname-that-is-not-there", 127),
        ] {
            let error = find(OsStr::new(command), path).unwrap_err();
            assert_eq!(error.exit_code(), code, "{command}: {error}");
        }
    }

    #[test]
    fn an_ordinary_program_is_sampled() {
        assert_eq!(judge(Path::new("/bin/sh")), Verdict::Sampled);
        assert_eq!(judge(&std::env::current_exe().unwrap()), Verdict::Sampled);
    }
}
