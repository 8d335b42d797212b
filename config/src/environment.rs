//! A copy of the environment, so that reading settings is a pure function.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// A copy of environment variables. Variables that are not valid UTF-8 are left out: no setting can come from them.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::from_pairs(std::env::vars_os())
    }

    /// An environment of the given variables.
    pub fn from_pairs<K: Into<OsString>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let variables = pairs
            .into_iter()
            .filter_map(|(name, value)| {
                Some((
                    name.into().into_string().ok()?,
                    value.into().into_string().ok()?,
                ))
            })
            .collect();
        Self { variables }
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
