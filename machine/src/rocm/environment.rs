//! The variables that lead to libraries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What of the environment matters to the loader and to Python.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// The folder from which relative paths start.
    pub current: PathBuf,
}

const NAMES: [&str; 9] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "ROCM_PATH",
    "ONEAPI_ROOT",
    "HOME",
];

impl Environment {
    /// That of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let variables = NAMES.iter().filter_map(|name| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
            Some(((*name).to_owned(), value))
        });
        Self {
            variables: variables.collect(),
            current: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        }
    }

    /// The value of a variable, or an empty text.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    /// The folder that a variable names, if it is set.
    #[must_use]
    pub fn folder(&self, name: &str) -> Option<PathBuf> {
        let value = self.value(name);
        (!value.is_empty()).then(|| self.absolute(Path::new(value)))
    }

    /// The folders of a list with colons; an empty word is the current folder.
    #[must_use]
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        let value = self.value(name);
        if value.is_empty() {
            return Vec::new();
        }
        // The loader takes semicolons as well.
        value
            .split([':', ';'])
            .map(|folder| self.absolute(Path::new(folder)))
            .collect()
    }

    /// A path that starts from `/`.
    #[must_use]
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.current.join(path).components().collect()
    }
}
