//! Configuration files: how a line of one becomes a value.
//!
//! Four syntaxes are read. [`permissive`] is the original's `KEY = value`; [`typed`] is TOML; [`json`] and [`xml`] are the
//! original's other two. All hand their entries to the [`FileReader`], which expands variables, follows includes and collects
//! all problems of all files.

mod expand;
mod json;
mod permissive;
mod typed;
mod xml;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::environment::Environment;
use crate::origin::Origin;
use crate::original::ignored;
use crate::problem::{ConfigError, Problem, ProblemKind};
use crate::settings::Settings;
use crate::sources::with_home;
use crate::table;
use crate::text::file_names;

/// A stretch of one line, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
    width: usize,
}

impl Place {
    /// The place of a range of bytes; only its part on the first line counts.
    fn of_bytes(text: &str, bytes: &Range<usize>) -> Self {
        let start = text.floor_char_boundary(bytes.start);
        let end = text.floor_char_boundary(bytes.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |position| position + 1);
        let first_line = text[start..end].lines().next().unwrap_or("");
        Self {
            line: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: first_line.chars().count(),
        }
    }
}

/// One assignment of a file, before variables are expanded.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    key: String,
    key_place: Place,
    value: String,
    value_place: Place,
    /// Other spellings of the key to try first: in TOML, `[sampling] freq` may mean SAMPLING_FREQ.
    grouped_key: Option<String>,
}

/// Something that a syntax could not read.
#[derive(Debug, PartialEq, Eq)]
struct SyntaxError {
    place: Place,
    message: String,
    remedy: &'static str,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Permissive,
    Toml,
    Json,
    Xml,
}

impl Syntax {
    /// The extension decides where it is one of ours, else the text.
    fn of(path: &Path, text: &str) -> Self {
        let extension = path
            .extension()
            .map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("toml") => Self::Toml,
            Some("json") => Self::Json,
            Some("xml") => Self::Xml,
            _ => match text.trim_start().chars().next() {
                Some('{') => Self::Json,
                Some('<') => Self::Xml,
                _ if typed::has_tables(text) => Self::Toml,
                _ => Self::Permissive,
            },
        }
    }
}

/// Reads files into settings.
#[derive(Debug)]
pub(crate) struct FileReader<'a> {
    settings: &'a mut Settings,
    environment: &'a Environment,
    /// The files that are being read, outermost first.
    open: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl<'a> FileReader<'a> {
    pub(crate) fn new(settings: &'a mut Settings, environment: &'a Environment) -> Self {
        Self {
            settings,
            environment,
            open: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Reads a file with all that it includes.
    pub(crate) fn read(mut self, path: &Path, named_by: Origin) -> Result<(), ConfigError> {
        self.read_file(path, named_by);
        self.result()
    }

    /// Reads a text as the file `name`.
    pub(crate) fn read_named_text(mut self, name: &Path, text: &str) -> Result<(), ConfigError> {
        self.read_text(name, text);
        self.result()
    }

    fn result(self) -> Result<(), ConfigError> {
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError {
                problems: self.problems,
            })
        }
    }

    fn read_file(&mut self, path: &Path, named_by: Origin) {
        let text = std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
            });
        let text = match text {
            Ok(text) => text,
            Err(reason) => {
                let reason = match named_by {
                    Origin::Default => reason,
                    by => format!("{reason} (named by {by})"),
                };
                let origin = Origin::File {
                    path: Arc::new(path.to_owned()),
                    line: 0,
                    column: 0,
                };
                self.push(ProblemKind::Unreadable { reason }, origin, None, 0);
                return;
            }
        };
        let identity = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.open.contains(&identity) {
            let kind = ProblemKind::IncludeCycle {
                file: path.display().to_string(),
            };
            self.push(kind, named_by, None, 0);
            return;
        }
        self.open.push(identity);
        self.settings.files_read.push(path.to_owned());
        self.read_text(path, &text);
        self.open.pop();
    }

    fn read_text(&mut self, path: &Path, text: &str) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (entries, errors) = match Syntax::of(path, text) {
            Syntax::Permissive => permissive::read(text),
            Syntax::Toml => typed::read(text),
            Syntax::Json => json::read(text),
            Syntax::Xml => xml::read(text),
        };
        let mut file = OpenFile {
            path: Arc::new(path.to_owned()),
            lines: text.lines().collect(),
            variables: BTreeMap::new(),
        };
        for error in errors {
            let kind = ProblemKind::Syntax {
                message: error.message,
                remedy: error.remedy.to_owned(),
            };
            self.push_at(&file, kind, error.place);
        }
        for entry in &entries {
            if let Err((kind, place)) = self.assign(&mut file, entry) {
                self.push_at(&file, kind, place);
            }
        }
    }

    fn assign(
        &mut self,
        file: &mut OpenFile<'_>,
        entry: &Entry,
    ) -> Result<(), (ProblemKind, Place)> {
        let scope = expand::Scope {
            variables: &file.variables,
            environment: self.environment,
            settings: self.settings,
        };
        let value = expand::expand(&entry.value, &scope).map_err(|name| {
            let place = file.narrow(
                entry.value_place,
                &[&format!("${name}"), &format!("${{{name}")],
            );
            (ProblemKind::UndefinedVariable { name }, place)
        })?;
        if let Some(variable) = entry.key.strip_prefix('$') {
            self.define(file, variable, value);
            return Ok(());
        }
        let key = match &entry.grouped_key {
            Some(grouped) if table::find(grouped).is_some() => grouped,
            _ => &entry.key,
        };
        if table::bare_name(key) == "CONFIG_FILE" {
            self.include(file, &value, entry.value_place);
            return Ok(());
        }
        let origin = file.origin(entry.key_place);
        if table::find(key).is_none()
            && let Some(ignored) = ignored::find(key)
        {
            self.settings.note_ignored(key, &value, ignored, origin);
            return Ok(());
        }
        self.settings.set(key, &value, origin).map_err(|problem| {
            let place = match &*problem.kind {
                ProblemKind::UnknownSetting { .. } => entry.key_place,
                ProblemKind::UnknownBackend { name, .. }
                | ProblemKind::UnknownMetric { name, .. }
                | ProblemKind::UnknownKey { key: name, .. } => {
                    file.narrow(entry.value_place, &[name])
                }
                _ => entry.value_place,
            };
            (*problem.kind, place)
        })
    }

    /// `$NAME = value` and `$env:NAME = value`.
    fn define(&mut self, file: &mut OpenFile<'_>, variable: &str, value: String) {
        if let Some(name) = variable.strip_prefix("env:") {
            let taken = self.environment.get(name).is_some()
                || self.settings.exports.iter().any(|(other, _)| other == name);
            if !taken {
                self.settings.exports.push((name.to_owned(), value));
            }
        } else {
            let name = variable.trim_start_matches('{').trim_end_matches('}');
            file.variables.insert(name.to_owned(), value);
        }
    }

    /// `CONFIG_FILE = other.cfg`: a relative name is looked for beside this file, then in the working directory.
    fn include(&mut self, file: &OpenFile<'_>, names: &str, place: Place) {
        for name in file_names(names).filter(|name| !name.eq_ignore_ascii_case("none")) {
            let named = with_home(name, self.settings.home());
            let beside = file.path.parent().map(|folder| folder.join(&named));
            let path = beside.filter(|path| path.exists()).unwrap_or(named);
            self.read_file(&path, file.origin(place));
        }
    }

    fn push_at(&mut self, file: &OpenFile<'_>, kind: ProblemKind, place: Place) {
        let line = file.lines.get(place.line.saturating_sub(1));
        let line = line.map(|line| line.trim_end().to_owned());
        self.push(kind, file.origin(place), line, place.width);
    }

    fn push(&mut self, kind: ProblemKind, origin: Origin, line_text: Option<String>, width: usize) {
        self.problems.push(Problem {
            kind: kind.into(),
            origin,
            line_text,
            width,
        });
    }
}

/// A file while its entries are applied.
#[derive(Debug)]
struct OpenFile<'t> {
    path: Arc<PathBuf>,
    lines: Vec<&'t str>,
    variables: BTreeMap<String, String>,
}

impl OpenFile<'_> {
    fn origin(&self, place: Place) -> Origin {
        Origin::File {
            path: Arc::clone(&self.path),
            line: place.line,
            column: place.column,
        }
    }

    /// The first of `words` inside `place`, as a word of its own if it stands there as one; else all of `place`.
    fn narrow(&self, place: Place, words: &[&str]) -> Place {
        let Some(line) = self.lines.get(place.line.saturating_sub(1)) else {
            return place;
        };
        let skipped: usize = line
            .chars()
            .take(place.column.saturating_sub(1))
            .map(char::len_utf8)
            .sum();
        words
            .iter()
            .find_map(|word| {
                let text = &line[skipped..];
                let alone = |start: &usize| {
                    let joins = |one: char| one.is_alphanumeric() || "_-".contains(one);
                    !text[..*start].ends_with(joins)
                        && !text[start + word.len()..].starts_with(joins)
                };
                let mut starts = text.match_indices(word).map(|(start, _)| start);
                let first = starts.clone().next()?;
                let before = &text[..starts.find(alone).unwrap_or(first)];
                Some(Place {
                    line: place.line,
                    column: place.column + before.chars().count(),
                    width: word.chars().count(),
                })
            })
            .unwrap_or(place)
    }
}

#[cfg(test)]
#[path = "../files_tests.rs"]
mod tests;
