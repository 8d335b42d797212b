//! What can be wrong with a setting, and the message that says so.

use std::fmt;

use crate::origin::Origin;

/// One thing that is wrong with what the user wrote, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Rendered(self))]
pub struct Problem {
    /// What is wrong.
    pub kind: Box<ProblemKind>,
    /// Where it was written.
    pub origin: Origin,
    /// The offending line of a file, to be shown below the message.
    pub line_text: Option<String>,
    /// How many characters of that line are meant, from the column of the origin on.
    pub width: usize,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    /// No setting has this name.
    #[error("unknown setting '{name}'")]
    UnknownSetting {
        /// The name as it was written.
        name: String,
        /// The setting that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The value does not fit the setting.
    #[error("bad value '{value}' for {setting}: expected {allowed}")]
    BadValue {
        /// The setting.
        setting: &'static str,
        /// The value as it was written.
        value: String,
        /// What is allowed.
        allowed: String,
        /// The allowed word that was probably meant.
        nearest: Option<&'static str>,
    },
    /// No backend has this name.
    #[error("unknown backend '{name}'")]
    UnknownBackend {
        /// The name as it was written.
        name: String,
        /// The backend that was probably meant.
        nearest: Option<&'static str>,
    },
    /// No sensor of GPUs has this name.
    #[error("unknown sensor '{name}'")]
    UnknownMetric {
        /// The name as it was written.
        name: String,
        /// The sensor that was probably meant.
        nearest: Option<&'static str>,
    },
    /// No preset has this name.
    #[error("unknown preset '{name}'")]
    UnknownPreset {
        /// The name as it was written.
        name: String,
        /// The preset that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A path holds a `%word%` that is no key.
    #[error("unknown key '{key}'")]
    UnknownKey {
        /// The key with its signs.
        key: String,
        /// The key that was probably meant, without its signs.
        nearest: Option<&'static str>,
    },
    /// Bytes that are no text.
    #[error("the value is not UTF-8 text")]
    NotText,
    /// A `$NAME` that the file did not define.
    #[error("undefined variable '${name}'")]
    UndefinedVariable {
        /// The name without the dollar sign.
        name: String,
    },
    /// The file cannot be understood at this place.
    #[error("{message}")]
    Syntax {
        /// What was found or is missing.
        message: String,
        /// What to write instead; may be empty.
        remedy: String,
    },
    /// The file cannot be read.
    #[error("cannot read this configuration file: {reason}")]
    Unreadable {
        /// What the system said.
        reason: String,
    },
    /// A file includes itself, directly or through others.
    #[error("'{file}' includes itself")]
    IncludeCycle {
        /// The file.
        file: String,
    },
}

impl ProblemKind {
    /// What the user can do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::UnknownSetting {
                nearest: Some(word),
                ..
            }
            | Self::BadValue {
                nearest: Some(word),
                ..
            }
            | Self::UnknownBackend {
                nearest: Some(word),
                ..
            }
            | Self::UnknownMetric {
                nearest: Some(word),
                ..
            }
            | Self::UnknownPreset {
                nearest: Some(word),
                ..
            } => Some(format!("did you mean '{word}'?")),
            Self::UnknownBackend { .. } => Some(format!(
                "known backends: {}",
                crate::backends::names().collect::<Vec<_>>().join(" ")
            )),
            Self::UnknownMetric { .. } => Some(format!(
                "known sensors: {}",
                crate::gpu_metrics::names().collect::<Vec<_>>().join(" ")
            )),
            Self::UnknownPreset { .. } => Some("--list-presets lists them".to_owned()),
            Self::UnknownKey { nearest, .. } => Some(match nearest {
                Some(word) => format!("did you mean '%{word}%'? ('%%' is a percent sign)"),
                None => "--list-keys lists them; '%%' is a percent sign".to_owned(),
            }),
            Self::UndefinedVariable { name } => Some(format!(
                "define it above with '${name} = ...', or write '$env:{name}' to read the environment"
            )),
            Self::Syntax { remedy, .. } if !remedy.is_empty() => Some(remedy.clone()),
            Self::Unreadable { .. } => {
                Some("name an existing file, or 'none' to read no file".to_owned())
            }
            Self::IncludeCycle { .. } => Some("remove one of the CONFIG_FILE lines".to_owned()),
            _ => None,
        }
    }
}

struct Rendered<'a>(&'a Problem);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem {
            kind,
            origin,
            line_text,
            width,
        } = self.0;
        write!(formatter, "{origin}: {kind}")?;
        let remedy = kind.remedy();
        if let (Some(text), Origin::File { column, .. }) = (line_text, origin) {
            let indent: String = text
                .chars()
                .take(column.saturating_sub(1))
                .map(|character| if character == '\t' { '\t' } else { ' ' })
                .collect();
            let marks = "^".repeat((*width).max(1));
            write!(formatter, "\n    {text}\n    {indent}{marks}")?;
            if let Some(remedy) = remedy {
                write!(formatter, " {remedy}")?;
            }
        } else if let Some(remedy) = remedy {
            write!(formatter, "; {remedy}")?;
        }
        Ok(())
    }
}

/// All problems that were found, in the order in which they were met; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError {
    /// The problems.
    pub problems: Vec<Problem>,
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}
