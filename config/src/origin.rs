//! Where a value came from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default; set nowhere.
    Default,
    /// A configuration file.
    File {
        /// The file.
        path: Arc<PathBuf>,
        /// Line, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
    },
    /// An environment variable, by name.
    Environment(String),
    /// A command-line option as the user would write it: `-f`.
    CommandLine(String),
}

impl Origin {
    /// The stronger of two places has the higher number.
    pub(crate) const fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Environment(_) => 2,
            Self::CommandLine(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(formatter, "default"),
            Self::File { path, line: 0, .. } => write!(formatter, "{}", path.display()),
            Self::File { path, line, column } => {
                write!(formatter, "{}:{line}:{column}", path.display())
            }
            Self::Environment(name) => write!(formatter, "environment variable {name}"),
            Self::CommandLine(option) => write!(formatter, "option {option}"),
        }
    }
}
