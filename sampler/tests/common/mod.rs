//! An agent that is played by a test, and readers of what becomes of its records.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod fake;
pub mod trace;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of one test, removed at its end.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder, named after the test.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rsys-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The traces in it, in order of their names.
    pub fn traces(&self) -> Vec<PathBuf> {
        let mut traces = Vec::new();
        find_traces(&self.0, &mut traces);
        traces.sort();
        traces
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn find_traces(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            find_traces(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            found.push(path);
        }
    }
}

/// `rsys-sample` with its output in `folder`, and in place of the agent a library that does
/// nothing.
pub fn sampler(folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rsys-sample"));
    command
        .env("RSYS_AGENT_LIBRARY", harmless_library())
        .env("HOME", folder.path())
        .env_remove("SLURM_PROCID")
        .args(["-c", "none", "--summary", "lines", "-o"])
        .arg(folder.path());
    heed_the_terminal(&mut command);
    command
}

/// A shell that runs tests in the background lets them ignore the terminal's signals, as `nohup`
/// does, and so would the program.
pub fn heed_the_terminal(command: &mut Command) {
    // SAFETY: between fork and exec only signal is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        });
    }
}

/// The C library's mathematics: loading it changes nothing.
fn harmless_library() -> PathBuf {
    [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib64/libm.so.6",
        "/usr/lib/libm.so.6",
    ]
    .iter()
    .map(PathBuf::from)
    .find(|path| path.exists())
    .expect("the C library is somewhere")
}

/// The words of a command that plays an agent in the way of `scenario`.
pub fn fake_command(scenario: &str) -> Vec<String> {
    let test = std::env::current_exe().expect("a test has a path");
    vec![
        "env".to_owned(),
        format!("{}={scenario}", fake::SCENARIO),
        test.display().to_string(),
        "--exact".to_owned(),
        "plays_the_agent".to_owned(),
        "--nocapture".to_owned(),
    ]
}

/// Standard error of a finished program.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
