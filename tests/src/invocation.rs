//! A program and its arguments.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A program with its arguments and the variables that it gets in addition.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    pub(crate) env: Vec<(OsString, Option<OsString>)>,
}

impl Invocation {
    /// A program without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            words: vec![program.as_ref().to_owned()],
            env: Vec::new(),
        }
    }

    /// One argument more.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.words.push(arg.as_ref().to_owned());
        self
    }

    /// Several arguments more.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.words
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Another program with its arguments and variables, for this one to run.
    #[must_use]
    pub fn program(mut self, other: Self) -> Self {
        self.words.extend(other.words);
        self.env.extend(other.env);
        self
    }

    /// A variable for the whole run.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// A variable that the run must not see.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// The program's path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.words.first().map(PathBuf::from).unwrap_or_default()
    }

    /// The program's name without its folder.
    #[must_use]
    pub fn name(&self) -> String {
        let program = self
            .words
            .first()
            .map(|word| word.to_string_lossy().into_owned())
            .unwrap_or_default();
        program.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

impl From<&str> for Invocation {
    /// Splits at white space; for anything with quotes use [`crate::script`].
    fn from(line: &str) -> Self {
        Self {
            words: line.split_whitespace().map(OsString::from).collect(),
            env: Vec::new(),
        }
    }
}
