//! Running a program under `rsys-sample`, or bare for comparison.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::invocation::Invocation;
use crate::outcome::Outcome;
use crate::paths::{Scratch, sampler, target_dir};
use crate::procs::{children_of, descendants, describe, signal, wait_until};

/// Far above what any test needs on a busy machine; only a hang reaches it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(400);

/// Variables of the tests and of the developer's own shell that must not reach a run.
const FOREIGN_VARIABLES: &[&str] = &[
    "RSYS_SAMPLE",
    "RSYS_AVAIL",
    "RSYS_AVAIL_ROOT",
    "RSYS_JUDGE_DIR",
    "RSYS_KEEP",
    "RSYS_REQUIRE_ALL",
    "LD_PRELOAD",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
];

/// One run of `rsys-sample`, described step by step.
#[derive(Debug, Clone)]
pub struct Run {
    profiled: bool,
    profiler: Option<PathBuf>,
    under: Vec<OsString>,
    options: Vec<OsString>,
    command: Option<Invocation>,
    attached: Option<u32>,
    folder: Option<PathBuf>,
    output: Option<Option<PathBuf>>,
    env: Vec<(OsString, Option<OsString>)>,
    input: Vec<u8>,
    timeout: Duration,
}

impl Run {
    /// A run with default options and an output folder of its own.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a run without a command is not a sensible default"
    )]
    pub fn new() -> Self {
        Self {
            profiled: true,
            profiler: None,
            under: Vec::new(),
            options: Vec::new(),
            command: None,
            attached: None,
            folder: None,
            output: None,
            env: Vec::new(),
            input: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Runs the program as it is, without the profiler.
    #[must_use]
    pub fn bare() -> Self {
        Self {
            profiled: false,
            ..Self::new()
        }
    }

    /// Another `rsys-sample` than the one under test.
    #[must_use]
    pub fn profiler(mut self, path: impl Into<PathBuf>) -> Self {
        self.profiler = Some(path.into());
        self
    }

    /// `-f`: samples per second of CPU time.
    #[must_use]
    pub fn freq(self, hertz: u32) -> Self {
        self.options(["-f".to_owned(), hertz.to_string()])
    }

    /// Words before `rsys-sample`: a program that runs it.
    #[must_use]
    pub fn under<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.under
            .extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Options for `rsys-sample`, as they are.
    #[must_use]
    pub fn options<S: AsRef<OsStr>>(mut self, options: impl IntoIterator<Item = S>) -> Self {
        self.options
            .extend(options.into_iter().map(|option| option.as_ref().to_owned()));
        self
    }

    /// What to run.
    #[must_use]
    pub fn command(mut self, command: impl Into<Invocation>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Nothing to run: for options that bring a command of their own.
    #[must_use]
    pub fn without_command(mut self) -> Self {
        self.command = Some(Invocation {
            words: Vec::new(),
            env: Vec::new(),
        });
        self
    }

    /// The working directory.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// `-o` with this folder instead of one in the scratch folder.
    #[must_use]
    pub fn output(mut self, folder: impl Into<PathBuf>) -> Self {
        self.output = Some(Some(folder.into()));
        self
    }

    /// No `-o`: the traces go below the working directory, which is the scratch folder.
    #[must_use]
    pub fn default_output(mut self) -> Self {
        self.output = Some(None);
        self
    }

    /// A variable for `rsys-sample` and all below it.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// What the program reads on standard input; by default nothing.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// After how long a run counts as hanging.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// When the profiler is missing or the run hangs; how the program ended is no error.
    pub fn run(&self) -> Result<Outcome> {
        self.start()?.wait()
    }

    /// Attaches to a process in place of running a command.
    #[must_use]
    pub fn attach(mut self, pid: u32) -> Self {
        self.attached = Some(pid);
        self
    }

    /// Starts and returns at once.
    ///
    /// # Errors
    /// When the profiler is missing or cannot be started.
    pub fn start(&self) -> Result<Running> {
        let scratch = Scratch::new("run")?;
        let (mut command, output) = self.build(&scratch)?;
        let stdout = scratch.path().join("stdout");
        let stderr = scratch.path().join("stderr");
        command
            .stdin(Stdio::piped())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input closes the pipe: no fault of the test.
            stdin
                .write_all(&self.input)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::BrokenPipe => Ok(()),
                    _ => Err(error),
                })?;
        }
        Ok(Running {
            child,
            stdout,
            stderr,
            output,
            scratch: Some(scratch),
            timeout: self.timeout,
        })
    }

    /// The command line of this run, and where its traces will be.
    pub(crate) fn build(&self, scratch: &Scratch) -> Result<(Command, PathBuf)> {
        let nothing = Invocation {
            words: Vec::new(),
            env: Vec::new(),
        };
        let invocation = match (&self.command, self.attached) {
            (Some(command), _) => command,
            (None, Some(_)) => &nothing,
            (None, None) => bail!("the run has no command"),
        };
        let folder = self
            .folder
            .clone()
            .unwrap_or_else(|| scratch.path().to_path_buf());
        let mut output = folder.clone();
        let mut command = if self.profiled {
            let profiler = self.profiler.clone().map_or_else(sampler, Ok)?;
            let mut command = match self.under.split_first() {
                Some((program, words)) => {
                    let mut command = Command::new(program);
                    command.args(words).arg(profiler);
                    command
                }
                None => Command::new(profiler),
            };
            match &self.output {
                None => output = scratch.path().join("traces"),
                Some(Some(chosen)) => output.clone_from(chosen),
                Some(None) => {}
            }
            if self.output != Some(None) {
                command.arg("-o").arg(&output);
            }
            command.args(&self.options);
            match self.attached {
                Some(pid) => command.arg("-p").arg(pid.to_string()),
                None => command.arg("--").args(&invocation.words),
            };
            command
        } else {
            let (program, args) = invocation
                .words
                .split_first()
                .context("the run has no command")?;
            let mut command = Command::new(program);
            command.args(args);
            command
        };
        command
            .current_dir(folder)
            .env("XDG_CACHE_HOME", target_dir().join("tmp/cache"))
            // Lines that tests can read; the table is for people.
            .env("ROCPROFSYS_SUMMARY", "lines");
        // A shell that runs tests in the background lets them ignore the terminal's signals, and so would the program.
        // SAFETY: between fork and exec only signal is called, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        // Neither the developer's own settings nor their symbol cache take part.
        command.env("RSYS_CONFIG_FILE", "none");
        for name in FOREIGN_VARIABLES {
            command.env_remove(name);
        }
        for (name, value) in invocation.env.iter().chain(&self.env) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ok((command, output))
    }
}

/// Runs a program without the profiler.
///
/// # Errors
/// When it cannot be started or hangs.
pub fn run_plain(command: impl Into<Invocation>) -> Result<Outcome> {
    Run::bare().command(command).run()
}

/// A run that is going on.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    output: PathBuf,
    scratch: Option<Scratch>,
    timeout: Duration,
}

impl Running {
    /// The process that was started: `rsys-sample`, or the bare program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the traces will be.
    #[must_use]
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// The profiled program, once it is there.
    ///
    /// # Errors
    /// When none appears.
    pub fn target_pid(&self) -> Result<u32> {
        let mut found = None;
        wait_until(self.timeout, || {
            found = children_of(self.pid()).first().copied();
            found.is_some()
        });
        found.context("rsys-sample has no child")
    }

    /// What the program has printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// What is on standard error so far, of the program and of `rsys-sample`.
    #[must_use]
    pub fn complained(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Waits until a line of standard output starts with these words, and returns the rest of it.
    ///
    /// # Errors
    /// When it does not come.
    pub fn wait_for(&self, start: &str) -> Result<String> {
        let mut found = None;
        wait_until(self.timeout, || {
            let text = self.printed();
            let complete = text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'));
            found = complete
                .filter_map(|line| line.strip_prefix(start))
                .map(|rest| rest.trim().to_owned())
                .next();
            found.is_some()
        });
        found.with_context(|| {
            let errors = self.complained();
            format!("the program did not print `{start}`\n{errors}")
        })
    }

    /// Sends a signal to the started process.
    pub fn signal(&self, number: i32) {
        signal(self.pid(), number);
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When it does not come: then everything below is killed, and the error says what each process was doing.
    pub fn wait(mut self) -> Result<Outcome> {
        let mut status = None;
        wait_until(self.timeout, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        let read =
            |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let Some(status) = status else {
            let mut everyone = vec![self.pid()];
            everyone.extend(descendants(self.pid()));
            let doing = describe(&everyone);
            self.kill_all(&everyone);
            let (stdout, stderr) = (read(&self.stdout)?, read(&self.stderr)?);
            bail!(
                "no end after {:?}\n{doing}--- stdout\n{stdout}\n--- stderr\n{stderr}",
                self.timeout
            );
        };
        let (stdout, stderr) = (read(&self.stdout)?, read(&self.stderr)?);
        let scratch = self
            .scratch
            .take()
            .context("the run was waited for twice")?;
        Ok(Outcome::new(
            status,
            stdout,
            stderr,
            self.output.clone(),
            scratch,
        ))
    }

    fn kill_all(&mut self, pids: &[u32]) {
        for &pid in pids {
            signal(pid, libc::SIGKILL);
        }
        if let Err(error) = self.child.wait() {
            eprintln!("cannot reap: {error}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a run that nobody waited for still has its scratch folder.
        if self.scratch.is_some() {
            let mut everyone = vec![self.pid()];
            everyone.extend(descendants(self.pid()));
            self.kill_all(&everyone);
        }
    }
}
