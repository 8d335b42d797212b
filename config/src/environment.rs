//! A copy of the environment, so that reading settings is a pure function.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::setting::{PREFIXES, Setting};

/// A copy of environment variables. Of those that are not valid UTF-8, the names are kept: no setting can come from them.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    unreadable: Vec<String>,
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
        let mut environment = Self::default();
        for (name, value) in pairs {
            let Ok(name) = name.into().into_string() else {
                continue;
            };
            match value.into().into_string() {
                Ok(value) => drop(environment.variables.insert(name, value)),
                Err(_) => environment.unreadable.push(name),
            }
        }
        environment
    }

    /// The variables whose values are not UTF-8.
    #[must_use]
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
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

    /// The strongest variable that sets `setting`, with its text.
    pub(crate) fn variable_of(&self, setting: &Setting) -> Option<(String, &str)> {
        PREFIXES.iter().find_map(|prefix| {
            std::iter::once(setting.name)
                .chain(setting.aliases.iter().copied())
                .find_map(|name| {
                    let variable = format!("{prefix}{name}");
                    let text = self.get(&variable)?;
                    Some((variable, text))
                })
        })
    }
}
