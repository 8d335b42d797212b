//! Reading settings from files and environment, the weaker ones first.

use std::path::Path;

use crate::environment::Environment;
use crate::files::FileReader;
use crate::origin::Origin;
use crate::original::ignored;
use crate::problem::{ConfigError, Problem, ProblemKind};
use crate::settings::{Note, Settings};
use crate::sources::Sources;
use crate::table::{self, Kind, PREFIXES, Setting};
use crate::text::parse_bool;
use crate::value::Value;

impl Settings {
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

    /// Reads one file over what is there. `named_by` says who asked for the file; it is in the message when the file cannot be read.
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
            let Some((variable, text)) = environment.variable_of(setting) else {
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
            self.put("MONOCHROME", Value::Bool(on), origin);
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
            | Kind::Limits
            | Kind::Numbers { .. }
            | Kind::Path {
                empty_means: Some(_)
            }
    )
}
