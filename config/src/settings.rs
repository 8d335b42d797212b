//! The values of all settings, layer over layer, each with its origin.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::backends;
use crate::environment::Environment;
use crate::files::{FileChoice, FileReader};
use crate::ignored::{self, IgnoredSetting};
use crate::origin::Origin;
use crate::problem::{ConfigError, Problem, ProblemKind};
use crate::resolved::{Resolved, split_events};
use crate::table::{self, Kind, PREFIXES, Setting};
use crate::value::{Value, parse_bool};

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
    home: Option<PathBuf>,
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

    /// Defaults, then files, then environment. All problems of all of them come together.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let mut settings = Self::defaults();
        settings.home.clone_from(&sources.home);
        let mut problems = Vec::new();
        let mut keep = |result: Result<(), ConfigError>| {
            if let Err(error) = result {
                problems.extend(error.problems);
            }
        };
        for file in sources.files.resolve(sources) {
            if file.required || file.path.exists() {
                keep(settings.load_file(&file.path, file.origin, &sources.environment));
            }
        }
        keep(settings.load_environment(&sources.environment));
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(ConfigError { problems })
        }
    }

    /// Reads one file over what is there. `named_by` says who asked for the file; it is told when the file cannot be read.
    pub fn load_file(
        &mut self,
        path: &Path,
        named_by: Origin,
        environment: &Environment,
    ) -> Result<(), ConfigError> {
        FileReader::new(self, environment).read(path, named_by)
    }

    /// Reads a text as if it stood in the file `name`, over what is there. Other files that it includes are read too.
    pub fn read_text(
        &mut self,
        name: &Path,
        text: &str,
        environment: &Environment,
    ) -> Result<(), ConfigError> {
        FileReader::new(self, environment).read_named_text(name, text)
    }

    /// Reads the environment over what is there.
    pub fn load_environment(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        for setting in table::all() {
            let Some((variable, text)) = variable_of(setting, environment) else {
                continue;
            };
            let keeps_default = text.trim().is_empty() && needs_value(setting);
            if keeps_default {
                continue;
            }
            if let Err(problem) = self.set(setting.name, text, Origin::Environment(variable)) {
                problems.push(problem);
            }
        }
        let prefixed = |name: &&String| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        for name in environment.unreadable().iter().filter(prefixed) {
            if table::find(name).is_some() {
                problems.push(Problem {
                    kind: Box::new(ProblemKind::NotText),
                    origin: Origin::Environment(name.clone()),
                    line_text: None,
                    width: 0,
                });
            }
        }
        // The original honours this one without a prefix too.
        if let Some(on) = environment.get("MONOCHROME").and_then(parse_bool)
            && self.origin("MONOCHROME") == Some(&Origin::Default)
        {
            let origin = Origin::Environment("MONOCHROME".to_owned());
            self.values.insert("MONOCHROME", (Value::Bool(on), origin));
        }
        self.note_other_variables(environment);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    /// Variables with one of our prefixes that are no settings: known ones of the original get a note for `-v`, and what looks
    /// like a slip of the pen gets a visible one. Everything else is somebody else's business.
    fn note_other_variables(&mut self, environment: &Environment) {
        for (variable, value) in environment.iter() {
            let prefixed = PREFIXES.iter().any(|prefix| variable.starts_with(prefix));
            if !prefixed || table::find(variable).is_some() {
                continue;
            }
            let origin = Origin::Environment(variable.to_owned());
            if let Some(ignored) = ignored::find(variable) {
                self.note_ignored(variable, value, ignored, origin);
            } else if let Some(nearest) = table::nearest(variable) {
                self.notes.push(Note {
                    origin,
                    text: format!("no such setting; did you mean RSYS_{nearest}?"),
                    important: true,
                });
            }
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
        let notes = split_events(text)
            .into_iter()
            .filter_map(|word| backends::domain_without_effect(&word))
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

    /// The settings as plain typed fields.
    #[must_use]
    pub fn resolve(&self) -> Resolved {
        Resolved::from_settings(self)
    }
}

/// The strongest variable that sets `setting`, with its text.
pub(crate) fn variable_of<'a>(
    setting: &Setting,
    environment: &'a Environment,
) -> Option<(String, &'a str)> {
    PREFIXES.iter().find_map(|prefix| {
        std::iter::once(setting.name)
            .chain(setting.aliases.iter().copied())
            .find_map(|name| {
                let variable = format!("{prefix}{name}");
                let text = environment.get(&variable)?;
                Some((variable, text))
            })
    })
}

/// Whether an empty text cannot be a value of `setting`.
fn needs_value(setting: &Setting) -> bool {
    !matches!(
        setting.kind,
        Kind::Text
            | Kind::PathList
            | Kind::Backends
            | Kind::Metrics
            | Kind::Periods
            | Kind::Numbers { .. }
            | Kind::Path {
                empty_means: Some(_)
            }
    )
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
