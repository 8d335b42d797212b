//! Where settings are read from: the environment and the configuration files, and which files those are.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::origin::Origin;
use crate::table;
use crate::text::{file_names, parse_bool};

/// Where settings are read from, beside the command line.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The environment.
    pub environment: Environment,
    /// The user's home folder, for the default files and `~/`.
    pub home: Option<PathBuf>,
    /// Which files to read.
    pub files: FileChoice,
}

impl Sources {
    /// The sources of this process: its environment and its user's files.
    #[must_use]
    pub fn of_this_process() -> Self {
        let environment = Environment::of_this_process();
        let home = environment.get("HOME").map(PathBuf::from);
        Self {
            environment,
            home,
            files: FileChoice::Standard,
        }
    }

    /// An environment and no files.
    #[must_use]
    pub fn without_files(environment: Environment) -> Self {
        Self {
            environment,
            home: None,
            files: FileChoice::None,
        }
    }
}

/// The files in the user's home folder that are read when none is named; an earlier one wins over a later one.
pub const DEFAULT_FILES: [&str; 3] = [".rsys.cfg", ".rocprof-sys.cfg", ".rocprofiler-systems.cfg"];

/// Which configuration files to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FileChoice {
    /// Those that `RSYS_CONFIG_FILE` names, else [`DEFAULT_FILES`].
    #[default]
    Standard,
    /// These, in order. The name `none` cancels those before it.
    Named(Vec<String>),
    /// None at all.
    None,
}

/// One file to read.
#[derive(Debug)]
pub(crate) struct ChosenFile {
    pub path: PathBuf,
    /// Whether it is an error when the file is missing.
    pub required: bool,
    /// Who asked for it.
    pub origin: Origin,
}

impl FileChoice {
    /// The files to read, weakest first.
    pub(crate) fn resolve(&self, sources: &Sources) -> Vec<ChosenFile> {
        match self {
            Self::None => Vec::new(),
            Self::Named(names) => {
                named_files(names, sources, &Origin::CommandLine("-c".to_owned()))
            }
            Self::Standard => standard_files(sources),
        }
    }
}

fn standard_files(sources: &Sources) -> Vec<ChosenFile> {
    let variable = |name| {
        let setting = table::find(name)?;
        sources.environment.variable_of(setting)
    };
    if variable("SUPPRESS_CONFIG").is_some_and(|(_, text)| parse_bool(text) == Some(true)) {
        return Vec::new();
    }
    if let Some((name, text)) = variable("CONFIG_FILE") {
        let names: Vec<String> = file_names(text).map(str::to_owned).collect();
        return named_files(&names, sources, &Origin::Environment(name));
    }
    let Some(home) = &sources.home else {
        return Vec::new();
    };
    DEFAULT_FILES
        .iter()
        .rev()
        .map(|name| ChosenFile {
            path: home.join(name),
            required: false,
            origin: Origin::Default,
        })
        .collect()
}

fn named_files(names: &[String], sources: &Sources, origin: &Origin) -> Vec<ChosenFile> {
    let start = names
        .iter()
        .rposition(|name| name.eq_ignore_ascii_case("none"))
        .map_or(0, |position| position + 1);
    names[start..]
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| ChosenFile {
            path: with_home(name, sources.home.as_deref()),
            required: true,
            origin: origin.clone(),
        })
        .collect()
}

pub(crate) fn with_home(name: &str, home: Option<&Path>) -> PathBuf {
    match (name.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(name),
    }
}
