//! The values of all settings, layer over layer, each with its origin.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::backends;
use crate::origin::Origin;
use crate::original::domains;
use crate::original::ignored::{self, IgnoredSetting};
use crate::problem::{Problem, ProblemKind};
use crate::table::{self, Kind, Setting};
use crate::text::event_names;
use crate::value::Value;

/// Something that was accepted and is worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where it was written.
    pub origin: Origin,
    /// What there is to say.
    pub text: String,
    /// Whether the user should see it without asking; the others are for `-v`.
    pub important: bool,
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.origin, self.text)
    }
}

/// The values of all settings, each with its origin.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What somebody said; [`DEFAULTS`] count for the others.
    values: BTreeMap<&'static str, (Value, Origin)>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) notes: Vec<Note>,
    pub(crate) files_read: Vec<PathBuf>,
    pub(crate) exports: Vec<(String, String)>,
}

static DEFAULTS: LazyLock<BTreeMap<&'static str, (Value, Origin)>> = LazyLock::new(|| {
    let default = |setting: &'static Setting| {
        let value = Value::parse(setting, setting.default)
            .unwrap_or_else(|kind| unreachable!("default of {}: {kind}", setting.name));
        (setting.name, (value, Origin::Default))
    };
    table::all().map(default).collect()
});

impl Default for Settings {
    fn default() -> Self {
        Self::defaults()
    }
}

impl Settings {
    /// Every setting at its default.
    #[must_use]
    pub fn defaults() -> Self {
        Self {
            values: BTreeMap::new(),
            home: None,
            notes: Vec::new(),
            files_read: Vec::new(),
            exports: Vec::new(),
        }
    }

    pub(crate) fn note_ignored(
        &mut self,
        name: &str,
        value: &str,
        ignored: &IgnoredSetting,
        origin: Origin,
    ) {
        // Data that is asked for by an option and does not come, or comes elsewhere than asked, is a warning.
        let elsewhere = ignored.elsewhere(value);
        let is_lack = matches!(origin, Origin::CommandLine(_)) && ignored.is_lack();
        self.notes.push(Note {
            origin,
            text: format!(
                "{} has no effect: {}",
                table::bare_name(name),
                elsewhere.unwrap_or(ignored.reason)
            ),
            important: is_lack || elsewhere.is_some(),
        });
    }

    /// Domains of ROCm that are not known are no mistakes: newer versions of the original may have them.
    fn note_domains(&mut self, text: &str, origin: &Origin) {
        let notes = event_names(text)
            .into_iter()
            .filter(|word| backends::of_domain(word).is_none())
            .map(|word| domains::without_effect(&word))
            .map(|(text, important)| Note {
                origin: origin.clone(),
                text,
                important,
            });
        self.notes.extend(notes);
    }

    /// Sets one setting from text, over what is there.
    ///
    /// A known setting of the original that is not used here is accepted with a note.
    pub fn set(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), Problem> {
        let problem = |kind: ProblemKind, origin| Problem {
            kind: kind.into(),
            origin,
            line_text: None,
            width: 0,
        };
        let Some(setting) = table::find(name) else {
            if let Some(ignored) = ignored::find(name) {
                self.note_ignored(name, text, ignored, origin);
                return Ok(());
            }
            let kind = ProblemKind::UnknownSetting {
                name: name.to_owned(),
                nearest: table::nearest(name),
            };
            return Err(problem(kind, origin));
        };
        match Value::parse(setting, &self.expand_home(setting, text)) {
            Ok(value) => {
                if let ("ROCM_DOMAINS", Value::Text(text)) = (setting.name, &value) {
                    self.note_domains(text, &origin);
                }
                self.values.insert(setting.name, (value, origin));
                Ok(())
            }
            Err(kind) => Err(problem(kind, origin)),
        }
    }

    /// Sets a value that needs no check.
    pub(crate) fn put(&mut self, name: &'static str, value: Value, origin: Origin) {
        self.values.insert(name, (value, origin));
    }

    /// Writes the home folder for a leading `~/` of a path.
    fn expand_home(&self, setting: &Setting, text: &str) -> String {
        match (&self.home, text.trim().strip_prefix("~/")) {
            (Some(home), Some(rest)) if matches!(setting.kind, Kind::Path { .. }) => {
                home.join(rest).to_string_lossy().into_owned()
            }
            _ => text.to_owned(),
        }
    }

    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The value of a setting, by name or alias.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entry(name).map(|(value, _)| value)
    }

    /// Where the value of a setting came from, by name or alias.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        self.entry(name).map(|(_, origin)| origin)
    }

    fn entry(&self, name: &str) -> Option<&(Value, Origin)> {
        let setting = table::find(name)?;
        self.entry_of(setting)
    }

    fn entry_of(&self, setting: &Setting) -> Option<&(Value, Origin)> {
        let said = self.values.get(setting.name);
        said.or_else(|| DEFAULTS.get(setting.name))
    }

    /// All settings with value and origin, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &Value, &Origin)> {
        table::all().filter_map(|setting| {
            let (value, origin) = self.entry_of(setting)?;
            Some((setting, value, origin))
        })
    }

    /// The settings whose value somebody changed from the default, in the order of the table.
    pub fn non_defaults(&self) -> impl Iterator<Item = (&'static Setting, &Value, &Origin)> {
        self.iter().filter(|(setting, ..)| self.is_changed(setting))
    }

    /// Whether the value is another than the default, whoever said so.
    pub(crate) fn is_changed(&self, setting: &Setting) -> bool {
        let said = self.values.get(setting.name);
        let default = DEFAULTS.get(setting.name);
        said.is_some_and(|(value, _)| default.is_none_or(|(default, _)| default != value))
    }

    /// Whether somebody asked for this value. A file or a variable that repeats the default asks for nothing: `rsys-avail -G` writes every
    /// default down.
    pub(crate) fn is_asked_for(&self, name: &str) -> bool {
        let by_option = matches!(self.origin(name), Some(Origin::CommandLine(_)));
        by_option || table::find(name).is_some_and(|setting| self.is_changed(setting))
    }

    /// The lines to print for `-v`: files that were read, changed values and their origins, notes.
    #[must_use]
    pub fn report(&self) -> Vec<String> {
        let files = self
            .files_read
            .iter()
            .map(|path| format!("read configuration file {}", path.display()));
        let values = self
            .non_defaults()
            .map(|(setting, value, origin)| format!("{} = {value} ({origin})", setting.name));
        let notes = self.notes.iter().map(ToString::to_string);
        files.chain(values).chain(notes).collect()
    }

    /// What was accepted but has no effect, and what looks misspelt in the environment.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The configuration files that were read, in order.
    #[must_use]
    pub fn files_read(&self) -> &[PathBuf] {
        &self.files_read
    }

    /// Variables that configuration files set for the command (`$env:NAME = value`), none of which was set before.
    #[must_use]
    pub fn exports(&self) -> &[(String, String)] {
        &self.exports
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
