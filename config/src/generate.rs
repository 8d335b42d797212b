//! Configuration files with the current values of all settings, as `rsys-avail -G` writes them. What is written reads back as
//! the same values.

use std::fmt::Write;

use crate::settings::Settings;
use crate::table::{self, Category, Kind, Setting};
use crate::value::{Value, allowed};

/// How a configuration file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `KEY = value`, the original's own.
    Text,
    /// TOML.
    Toml,
    /// JSON of the original's form.
    Json,
    /// XML of the original's form.
    Xml,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Text, Self::Toml, Self::Json, Self::Xml];

    /// Its name for `-F`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Toml => "toml",
            Self::Json => "json",
            Self::Xml => "xml",
        }
    }

    /// The extension of a file that is given none.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Text => "cfg",
            other => other.name(),
        }
    }

    /// The format of a name for `-F`, or of an extension.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "txt" | "cfg" | "conf" => Some(Self::Text),
            name => Self::ALL.into_iter().find(|format| format.name() == name),
        }
    }
}

/// What goes into the file beside the values.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choice {
    /// A description of each setting, and what values it takes.
    pub describe: bool,
    /// Also the settings that few users need; changed ones are always there.
    pub advanced: bool,
}

/// A value that a format cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the value of {setting} cannot be written as {format}: {reason}; choose another format, for example json"
)]
pub struct Unwritable {
    setting: &'static str,
    format: &'static str,
    reason: &'static str,
}

/// Writes a file. `heading` is one line that says who wrote it, and when.
///
/// # Errors
/// When the format cannot hold one of the values.
pub fn generate(
    settings: &Settings,
    format: Format,
    choice: Choice,
    heading: &str,
) -> Result<String, Unwritable> {
    let mut text = String::new();
    match format {
        Format::Text => {
            push_line(&mut text, &format!("# {heading}"));
            push_text(&mut text, settings, choice)?;
        }
        Format::Toml => push_toml(&mut text, settings, choice, heading),
        Format::Json => push_json(&mut text, settings, choice, heading),
        Format::Xml => push_xml(&mut text, settings, choice, heading)?,
    }
    Ok(text)
}

/// The settings to write with their values. A file that names other files would include them: that one stays empty.
fn chosen(settings: &Settings, choice: Choice) -> impl Iterator<Item = (&'static Setting, Value)> {
    settings
        .iter()
        .filter(move |(setting, ..)| {
            choice.advanced || !setting.advanced || settings.is_changed(setting)
        })
        .map(|(setting, value, _)| match setting.name {
            "CONFIG_FILE" => (setting, Value::List(Vec::new())),
            _ => (setting, value.clone()),
        })
}

/// The settings in the permissive syntax, below a heading for each category.
pub(crate) fn push_text(
    text: &mut String,
    settings: &Settings,
    choice: Choice,
) -> Result<(), Unwritable> {
    push_commented(text, settings, choice, |setting, value| {
        Ok(format!(
            "{:<26} = {}",
            setting.name,
            quoted(setting, value)?
        ))
    })
}

fn push_toml(text: &mut String, settings: &Settings, choice: Choice, heading: &str) {
    push_line(text, &format!("# {heading}"));
    push_commented(text, settings, choice, |setting, value| {
        // A TOML text takes the escapes of JSON.
        Ok(format!("{:<26} = {}", setting.name, json_value(value)))
    })
    .unwrap_or_else(|error| unreachable!("TOML holds every value: {error}"));
}

/// What the two formats with comments have in common.
fn push_commented(
    text: &mut String,
    settings: &Settings,
    choice: Choice,
    line: impl Fn(&'static Setting, &Value) -> Result<String, Unwritable>,
) -> Result<(), Unwritable> {
    for category in Category::ALL {
        push_line(text, &format!("\n# ---- {} ", category.title()));
        for (setting, value) in chosen(settings, choice) {
            if setting.category != category {
                continue;
            }
            if choice.describe {
                text.push('\n');
                push_comment(text, &format!("{}.", setting.summary));
                push_comment(text, setting.details);
                push_comment(text, &format!("Takes {}.", allowed(setting)));
                if let Kind::Choice(choices) = setting.kind {
                    for choice in choices {
                        push_line(text, &format!("#   {:<10} {}", choice.name, choice.help));
                    }
                }
            }
            push_line(text, &line(setting, &value)?);
        }
    }
    Ok(())
}

fn push_json(text: &mut String, settings: &Settings, choice: Choice, heading: &str) {
    let mut entries = Vec::new();
    for (setting, value) in chosen(settings, choice) {
        let mut members = vec![
            ("name", json_text(&setting.name.to_ascii_lowercase())),
            ("value", json_value(&value)),
        ];
        if choice.describe {
            members.push(("description", json_text(&description(setting))));
            members.push(("category", json_text(setting.category.title())));
            members.push(("takes", json_text(&allowed(setting))));
        }
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("                \"{name}\": {value}"))
            .collect();
        entries.push(format!(
            "            {}: {{\n{}\n            }}",
            json_text(setting.name),
            members.join(",\n")
        ));
    }
    push_line(
        text,
        &format!(
            "{{\n    \"rsys\": {{\n        \"heading\": {},\n        \"settings\": {{\n{}\n        }}\n    }}\n}}",
            json_text(heading),
            entries.join(",\n")
        ),
    );
}

fn push_xml(
    text: &mut String,
    settings: &Settings,
    choice: Choice,
    heading: &str,
) -> Result<(), Unwritable> {
    push_line(text, "<?xml version=\"1.0\" encoding=\"utf-8\"?>");
    push_line(text, "<rsys>");
    push_line(
        text,
        &format!("    <heading>{}</heading>", xml_text(heading)),
    );
    push_line(text, "    <settings>");
    for (setting, value) in chosen(settings, choice) {
        let value = with_escaped_dollars(&separated(&value, ","));
        if value.chars().any(char::is_control) {
            return Err(Unwritable {
                setting: setting.name,
                format: Format::Xml.name(),
                reason: "it holds a control character",
            });
        }
        let mut members = vec![
            ("name", setting.name.to_ascii_lowercase()),
            ("value", value),
        ];
        if choice.describe {
            members.push(("description", description(setting)));
            members.push(("category", setting.category.title().to_owned()));
            members.push(("takes", allowed(setting)));
        }
        push_line(text, &format!("        <{}>", setting.name));
        for (name, value) in members {
            let line = format!("            <{name}>{}</{name}>", xml_text(&value));
            push_line(text, &line);
        }
        push_line(text, &format!("        </{}>", setting.name));
    }
    push_line(text, "    </settings>\n</rsys>");
    Ok(())
}

/// Summary and details in one text.
#[must_use]
pub fn description(setting: &Setting) -> String {
    format!("{}. {}", setting.summary, setting.details)
        .trim_end()
        .to_owned()
}

/// The settings of a category.
pub(crate) fn of_category(category: Category) -> impl Iterator<Item = &'static Setting> {
    table::all().filter(move |setting| setting.category == category)
}

fn separated(value: &Value, separator: &str) -> String {
    match value {
        Value::List(values) => values.join(separator),
        other => other.to_string(),
    }
}

/// Files replace `$NAME`; only path keys keep their dollar sign.
fn with_escaped_dollars(value: &str) -> String {
    let mut result = String::with_capacity(value.len());
    for (position, character) in value.char_indices() {
        let after = &value[position + character.len_utf8()..];
        let is_key = after.starts_with("env{") || after.starts_with("cfg{");
        result.push(character);
        if character == '$' && !is_key {
            result.push('$');
        }
    }
    result
}

/// The value as the permissive syntax reads it, in quotes where it must.
fn quoted(setting: &'static Setting, value: &Value) -> Result<String, Unwritable> {
    let text = with_escaped_dollars(&separated(value, " "));
    if text.contains(['\n', '\r']) {
        return Err(Unwritable {
            setting: setting.name,
            format: Format::Text.name(),
            reason: "it has more than one line",
        });
    }
    let opens = |word: &str| word.starts_with(['#', '"', '\'']);
    let is_plain = text.trim() == text
        && !opens(&text)
        && !text
            .split(|character: char| character.is_whitespace() || character == ',')
            .any(opens)
        && !text.starts_with('=');
    if is_plain {
        return Ok(text);
    }
    let mut result = String::new();
    for piece in text.split_inclusive('"') {
        let inner = piece.strip_suffix('"').unwrap_or(piece);
        if !inner.is_empty() {
            result.push_str(&format!("\"{inner}\""));
        }
        if inner.len() < piece.len() {
            result.push_str("'\"'");
        }
    }
    Ok(result)
}

fn json_value(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.to_string(),
        Value::Text(text) => json_text(&with_escaped_dollars(text)),
        Value::List(values) => {
            let values: Vec<String> = values
                .iter()
                .map(|value| json_text(&with_escaped_dollars(value)))
                .collect();
            format!("[{}]", values.join(", "))
        }
    }
}

fn json_text(text: &str) -> String {
    let mut result = String::from('"');
    for character in text.chars() {
        match character {
            '"' => result.push_str("\\\""),
            '\\' => result.push_str("\\\\"),
            character if character.is_control() => {
                // Writing to a text cannot fail.
                write!(result, "\\u{:04x}", u32::from(character)).ok();
            }
            character => result.push(character),
        }
    }
    result.push('"');
    result
}

fn xml_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

pub(crate) fn push_line(text: &mut String, line: &(impl AsRef<str> + ?Sized)) {
    text.push_str(line.as_ref().trim_end());
    text.push('\n');
}

/// Appends a comment, broken into lines of readable length.
fn push_comment(text: &mut String, comment: &str) {
    const WIDTH: usize = 100;
    let mut line = String::new();
    for word in comment.split_whitespace() {
        if !line.is_empty() && line.chars().count() + word.chars().count() + 3 > WIDTH {
            push_line(text, &format!("# {line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        push_line(text, &format!("# {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, FileChoice, Origin, Sources};

    /// Settings that are as far from their defaults as the table allows, with texts that are hard to write.
    fn unusual(texts: &str) -> Settings {
        let mut settings = Settings::defaults();
        for setting in table::all() {
            let text = match setting.kind {
                Kind::Bool if setting.default == "true" => "false".to_owned(),
                Kind::Bool => "true".to_owned(),
                Kind::Int { min, .. } => min.to_string(),
                Kind::Float { max, .. } => format!("{}", max / 7.0),
                Kind::Seconds { .. } | Kind::SecondsOr { .. } => "250ms".to_owned(),
                Kind::Periods => "1:2 3:4:0".to_owned(),
                Kind::Limits => "500MB 10min".to_owned(),
                Kind::Numbers { .. } => "0-3 7 0-1023:64".to_owned(),
                Kind::Text | Kind::Path { .. } => texts.to_owned(),
                Kind::Choice(choices) => choices[choices.len() - 1].name.to_owned(),
                Kind::PathList => "/dev/null".to_owned(),
                Kind::Backends => "roctracer, roctx".to_owned(),
                Kind::Metrics => "power;link, xgmi".to_owned(),
            };
            settings
                .set(setting.name, &text, Origin::CommandLine("-x".to_owned()))
                .unwrap_or_else(|error| panic!("{error}"));
        }
        settings
    }

    fn values(settings: &Settings) -> Vec<(&'static str, Value)> {
        let all = Choice {
            advanced: true,
            describe: false,
        };
        chosen(settings, all)
            .map(|(setting, value)| (setting.name, value))
            .collect()
    }

    fn read_back(name: &str, text: &str) -> Settings {
        let path =
            std::env::temp_dir().join(format!("rsys-generate-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a file for the test");
        let settings = Settings::load(&Sources {
            environment: Environment::default(),
            home: None,
            files: FileChoice::Named(vec![path.display().to_string()]),
        });
        std::fs::remove_file(&path).ok();
        settings.unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn every_format_reads_back_as_it_was() {
        let texts = [
            "plain/%tag%-%env{USER}%",
            "a b,c;d",
            "$env{HOME}/$x ${y} $env:z $",
            "# no comment",
            "\"quoted\" 'twice'",
            "it's \"both\", 'and' # more",
            "= <&> \\ \u{e4}\u{1f600}",
            "x]]>y",
        ];
        for (number, text) in texts.iter().enumerate() {
            let settings = unusual(text);
            for format in Format::ALL {
                for describe in [false, true] {
                    let choice = Choice {
                        describe,
                        advanced: true,
                    };
                    let file =
                        generate(&settings, format, choice, "written by a test").expect("writable");
                    let name = format!("{number}{describe}.{}", format.extension());
                    let back = read_back(&name, &file);
                    assert_eq!(values(&back), values(&settings), "{text}\n{file}");
                    // The format follows from the text, too.
                    if describe && format != Format::Toml {
                        let back = read_back(&format!("{name}.noext"), &file);
                        assert_eq!(values(&back), values(&settings), "{text}\n{file}");
                    }
                }
            }
        }
    }

    #[test]
    fn advanced_settings_appear_when_asked_for_or_changed() {
        let text = |settings: &Settings, advanced| {
            let choice = Choice {
                advanced,
                describe: false,
            };
            generate(settings, Format::Text, choice, "x").expect("writable")
        };
        let mut settings = Settings::defaults();
        assert!(!text(&settings, false).contains("RING_SIZE_KB"));
        assert!(text(&settings, true).contains("RING_SIZE_KB"));
        settings
            .set("RING_SIZE_KB", "512", Origin::CommandLine("-x".to_owned()))
            .expect("good");
        assert!(text(&settings, false).contains("RING_SIZE_KB"));
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        let settings = unusual("a\nb");
        for format in [Format::Text, Format::Xml] {
            let error = generate(&settings, format, Choice::default(), "x").expect_err("two lines");
            assert!(error.to_string().contains("OUTPUT_PATH"), "{error}");
        }
        let json = generate(&settings, Format::Json, Choice::default(), "x").expect("writable");
        assert_eq!(
            read_back("lines.json", &json).get("OUTPUT_PATH"),
            Some(&Value::Text("a\nb".to_owned()))
        );
    }
}
