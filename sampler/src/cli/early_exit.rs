//! Ending before the command is run: help, version, errors.

use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::builder::{StyledStr, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use rsys_config::Problem;
use rsys_config::generate::Unwritable;

use crate::terminal::wants_colours;

/// The exit code for a wrong option or setting.
const USAGE_ERROR: i32 = 2;

/// Options of other profilers, and what does here what they do there.
const ELSEWHERE: [(&[&str], &str); 12] = [
    (
        &["--attach"],
        "'-p PID' records a process that runs already",
    ),
    (
        &["--rate", "--sampling-rate", "--hz"],
        "'-f HERTZ' is the rate of samples",
    ),
    (
        &["--native", "--call-graph", "--stacks", "--backtrace"],
        "stacks with native and Python functions are always recorded; '--python-native' shows the interpreter's own, too",
    ),
    (
        &[
            "--sys-trace",
            "--hip-trace",
            "--hsa-trace",
            "--kernel-trace",
            "--memory-copy-trace",
            "--runtime-trace",
            "--gpu",
        ],
        "'-I rocm' records GPU operations and the calls that submit them",
    ),
    (
        &["--roctx-trace", "--marker-trace", "--nvtx"],
        "'-I roctx' records ranges that a program marks",
    ),
    (
        &["--rccl-trace", "--nccl"],
        "'-I rcclp' records collectives",
    ),
    (&["--mpi", "--mpi-trace"], "'-I mpip' records calls of MPI"),
    (
        &["--locks", "--lock", "--mutex"],
        "'-I mutex-locks rw-locks spin-locks' records locks with those who hold them",
    ),
    (
        &["--idle", "--wall", "--gil", "--blocking"],
        "'--realtime' shows what threads wait for",
    ),
    (
        &["--subprocesses", "--children", "--follow-forks"],
        "children are recorded, if '--follow' does not leave them out",
    ),
    (
        &["--list-backends", "--list", "--list-counters"],
        "'rsys-avail' lists backends, settings and counters",
    ),
    (
        &["--stats", "--summary"],
        "'rsys-report DIR' says where the time went, from any trace",
    ),
];

/// What to print, where, and with which code to end.
#[derive(Debug, Clone)]
pub struct CliExit {
    /// The exit code: 0 after help and version, 2 after an error.
    pub code: i32,
    /// Whether the text goes to standard output; errors go to standard error.
    pub to_stdout: bool,
    text: StyledStr,
    monochrome: bool,
    /// A program with its arguments that takes our place and answers; empty for none.
    instead: Vec<OsString>,
}

impl CliExit {
    pub(super) fn from_clap(mut error: clap::Error, monochrome: bool) -> Self {
        if error.kind() == ErrorKind::UnknownArgument {
            // clap would propose to run the misspelt option as the command.
            error.remove(ContextKind::Suggested);
            let argument = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(argument)) => argument.as_str(),
                _ => "",
            };
            let argument = argument.split('=').next().unwrap_or(argument);
            let elsewhere = ELSEWHERE
                .iter()
                .find(|(names, _)| names.contains(&argument));
            if let Some((_, tip)) = elsewhere {
                error.remove(ContextKind::SuggestedArg);
                let tip = ContextValue::StyledStrs(vec![(*tip).into()]);
                error.insert(ContextKind::Suggested, tip);
            }
        }
        Self {
            code: error.exit_code(),
            to_stdout: !error.use_stderr(),
            text: error.render(),
            monochrome,
            instead: Vec::new(),
        }
    }

    pub(super) fn from_problems(problems: &[Problem], monochrome: bool) -> Self {
        let style = *Styles::styled().get_error();
        let lines: String = problems
            .iter()
            .map(|problem| format!("{style}error:{style:#} {problem}\n"))
            .collect();
        Self {
            code: USAGE_ERROR,
            to_stdout: false,
            text: StyledStr::from(lines),
            monochrome,
            instead: Vec::new(),
        }
    }

    /// An answer on standard output, after which nothing is run.
    pub(super) fn answer(text: impl Into<StyledStr>) -> Self {
        Self {
            code: 0,
            to_stdout: true,
            text: text.into(),
            monochrome: true,
            instead: Vec::new(),
        }
    }

    /// An answer that another program gives in our place.
    pub(super) fn instead(words: Vec<OsString>) -> Self {
        Self {
            instead: words,
            ..Self::answer("")
        }
    }

    /// An error that is no problem of a setting.
    pub(super) fn error(text: &str) -> Self {
        let style = *Styles::styled().get_error();
        Self {
            code: USAGE_ERROR,
            to_stdout: false,
            text: format!("{style}error:{style:#} {text}\n").into(),
            monochrome: false,
            instead: Vec::new(),
        }
    }

    pub(super) fn from_unwritable(error: &Unwritable, monochrome: bool) -> Self {
        let style = *Styles::styled().get_error();
        Self {
            code: USAGE_ERROR,
            to_stdout: false,
            text: format!("{style}error:{style:#} {error}\n").into(),
            monochrome,
            instead: Vec::new(),
        }
    }

    /// Prints the text, coloured where that is wanted and possible, and returns the exit code.
    #[must_use]
    pub fn print(&self) -> i32 {
        if let [program, arguments @ ..] = self.instead.as_slice() {
            // It returns where it fails.
            let error = Command::new(program).args(arguments).exec();
            return Self::error(&format!("{}: {error}", program.display())).print();
        }
        // There is nobody to report to when the terminal is gone.
        if self.to_stdout {
            let stream = std::io::stdout();
            let text = self.rendered(stream.is_terminal());
            stream.lock().write_all(text.as_bytes()).ok();
        } else {
            let stream = std::io::stderr();
            let text = self.rendered(stream.is_terminal());
            stream.lock().write_all(text.as_bytes()).ok();
        }
        self.code
    }

    fn rendered(&self, terminal: bool) -> String {
        if !self.monochrome && wants_colours(terminal) {
            self.text.ansi().to_string()
        } else {
            self.text.to_string()
        }
    }
}

impl fmt::Display for CliExit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.text)
    }
}

impl std::error::Error for CliExit {}
