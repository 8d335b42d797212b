//! Values of settings: reading them from text against the table, and writing them back.

use std::fmt;

use crate::backends;
use crate::gpu_metrics;
use crate::keys;
use crate::limits::FileLimits;
use crate::numbers::Numbers;
use crate::original::clocks::window_clock;
use crate::problem::ProblemKind;
use crate::setting::{Kind, Setting};
use crate::text::{file_names, parse_bool, parse_seconds, words};
use crate::windows;

/// Settings that may hold path keys.
const KEYED: [&str; 3] = ["OUTPUT_PATH", "OUTPUT_PREFIX", "PERFETTO_FILE"];

/// The value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of a [`Kind::Bool`].
    Bool(bool),
    /// Of a [`Kind::Int`].
    Int(i64),
    /// Of a [`Kind::Float`]; of a [`Kind::Seconds`] or [`Kind::SecondsOr`], in seconds.
    Float(f64),
    /// Of a [`Kind::Text`], [`Kind::Path`], [`Kind::Choice`], [`Kind::Periods`], [`Kind::Limits`],
    /// [`Kind::Numbers`] or [`Kind::Metrics`].
    Text(String),
    /// Of a [`Kind::PathList`] or [`Kind::Backends`].
    List(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Int(value) => write!(formatter, "{value}"),
            Self::Float(value) => write!(formatter, "{value}"),
            Self::Text(value) => write!(formatter, "{value}"),
            Self::List(values) => write!(formatter, "{}", values.join(" ")),
        }
    }
}

impl Value {
    /// Reads a value for `setting` and checks that it is allowed.
    pub fn parse(setting: &'static Setting, text: &str) -> Result<Self, ProblemKind> {
        let text = match setting.name {
            "TRACE_PERIOD_CLOCK_ID" => match window_clock(text) {
                Some(clock) => clock.as_str(),
                None => text.trim(),
            },
            _ => text.trim(),
        };
        if KEYED.contains(&setting.name)
            && let Some(key) = keys::unknown(text)
        {
            return Err(ProblemKind::UnknownKey {
                key: key.to_owned(),
                nearest: keys::nearest(key),
            });
        }
        let parsed = match setting.kind {
            Kind::Bool => parse_bool(text).map(Self::Bool),
            Kind::Int { min, max, .. } => text
                .parse()
                .ok()
                .filter(|value| (min..=max).contains(value))
                .map(Self::Int),
            Kind::Float { min, max, .. } => text
                .parse()
                .ok()
                .filter(|value| (min..=max).contains(value))
                .map(Self::Float),
            Kind::Seconds { max } => parse_seconds(text)
                .filter(|value| (0.0..=max).contains(value))
                .map(Self::Float),
            Kind::SecondsOr { .. } => match text.parse::<f64>() {
                Ok(number) if number < 0.0 => Some(Self::Float(-1.0)),
                _ => parse_seconds(text)
                    .filter(|value| (0.0..=windows::SECONDS_MAX).contains(value))
                    .map(Self::Float),
            },
            Kind::Periods => windows::normalized(text).map(Self::Text),
            Kind::Limits => FileLimits::parse(text).map(|_| Self::Text(text.to_owned())),
            Kind::Numbers { .. } => {
                Numbers::parse(text).map(|numbers| Self::Text(numbers.to_string()))
            }
            Kind::Text => Some(Self::Text(text.to_owned())),
            Kind::Choice(choices) => choices
                .iter()
                .find(|choice| choice.name.eq_ignore_ascii_case(text))
                .map(|choice| Self::Text(choice.name.to_owned())),
            Kind::Path { empty_means } => {
                (!text.is_empty() || empty_means.is_some()).then(|| Self::Text(text.to_owned()))
            }
            Kind::PathList => Some(Self::List(file_names(text).map(str::to_owned).collect())),
            Kind::Backends => return parse_backends(text),
            Kind::Metrics => match gpu_metrics::unknown(text) {
                None => Some(Self::Text(text.to_owned())),
                Some(word) => {
                    return Err(ProblemKind::UnknownMetric {
                        name: word.to_owned(),
                        nearest: gpu_metrics::nearest(word),
                    });
                }
            },
        };
        parsed.ok_or_else(|| ProblemKind::BadValue {
            setting: setting.name,
            value: text.to_owned(),
            allowed: allowed(setting),
            nearest: nearest_choice(setting, text),
        })
    }
}

/// What values a setting takes, in words: "a number from 1 to 20000 (Hz)".
#[must_use]
pub fn allowed(setting: &Setting) -> String {
    match setting.kind {
        Kind::Bool => "true or false (also on/off, yes/no, 1/0)".to_owned(),
        Kind::Int { min, max, unit } => {
            format!("a whole number from {min} to {max}{}", in_brackets(unit))
        }
        Kind::Float { min, max, unit } => {
            format!("a number from {min} to {max}{}", in_brackets(unit))
        }
        Kind::Seconds { .. } => "seconds, or a number with ms, s, min or h".to_owned(),
        Kind::SecondsOr { inherits } => {
            format!("seconds, or a number with ms, s, min or h; -1 for the same as {inherits}")
        }
        Kind::Periods => {
            "groups WAIT:RECORD[:TIMES[:CLOCK]] in seconds, for example 10:2:0 (0 times: again and again)"
                .to_owned()
        }
        Kind::Limits => "a size from 100kB, a time from 100ms, or both, for example 500MB or 10min".to_owned(),
        Kind::Numbers { empty_means } => {
            format!("numbers and ranges such as 0-3,7, or none; nothing for {empty_means}")
        }
        Kind::Text => "a text".to_owned(),
        Kind::Choice(choices) => {
            let names: Vec<_> = choices.iter().map(|choice| choice.name).collect();
            let others = match setting.also_takes {
                "" => String::new(),
                others => format!("; also {others}"),
            };
            format!("one of {}{others}", names.join(", "))
        }
        Kind::Path { empty_means: None } => "a path".to_owned(),
        Kind::Path {
            empty_means: Some(meaning),
        } => format!("a path, or nothing for {meaning}"),
        Kind::PathList => "a list of files, or none".to_owned(),
        Kind::Backends => "a list of backends".to_owned(),
        Kind::Metrics => {
            let names: Vec<_> = gpu_metrics::names().collect();
            format!("all, none, or a list of {}", names.join(", "))
        }
    }
}

fn in_brackets(unit: &str) -> String {
    if unit.is_empty() {
        String::new()
    } else {
        format!(" ({unit})")
    }
}

fn nearest_choice(setting: &Setting, text: &str) -> Option<&'static str> {
    let Kind::Choice(choices) = setting.kind else {
        return None;
    };
    crate::nearest::nearest(
        &text.to_ascii_lowercase(),
        choices.iter().map(|choice| choice.name),
    )
}

fn parse_backends(text: &str) -> Result<Value, ProblemKind> {
    let normalized = words(text)
        .map(|name| {
            let normal = backends::normalize(name);
            match backends::find(&normal) {
                Some(_) => Ok(normal),
                None => Err(ProblemKind::UnknownBackend {
                    name: name.to_owned(),
                    nearest: backends::nearest(&normal),
                }),
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Value::List(normalized))
}
