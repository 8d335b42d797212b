//! Texts that are printed from the table: `config/default.cfg` and `docs/settings.md`.

use crate::backends::BACKENDS;
use crate::generate::{self, of_category, push_line};
use crate::gpu_metrics::METRICS;
use crate::original::ignored::IGNORED_SETTINGS;
use crate::settings::Settings;
use crate::table::{Category, CommandOption, Kind, Setting};
pub use crate::value::allowed as allowed_text;

/// A configuration file that sets everything to its default, with all descriptions.
#[must_use]
pub fn default_cfg() -> String {
    let mut text = String::from(
        "# Every setting of rsys at its default. Generated from the table in config/src/table/.\n\
         #\n\
         # Use:     rsys-sample -c my.cfg -- command\n\
         # Syntax:  KEY = value; `#` starts a comment; $env:NAME reads the environment; $NAME = x defines a variable;\n\
         #          CONFIG_FILE = other.cfg includes a file. Keys may carry the prefixes RSYS_, ROCPROFSYS_ or OMNITRACE_.\n",
    );
    let everything = generate::Choice {
        describe: true,
        advanced: true,
    };
    generate::push_text(&mut text, &Settings::defaults(), everything)
        .unwrap_or_else(|error| unreachable!("a default cannot be written: {error}"));
    text
}

/// The reference page of all settings.
#[must_use]
pub fn settings_page() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         <!-- Generated from the table in config/src/table/; edit there and run the tests with RSYS_BLESS=1. -->\n\n\
         Every setting has three ways in. The strongest first:\n\n\
         1. a command-line option, where it has one;\n\
         2. an environment variable: `RSYS_<NAME>`, else `ROCPROFSYS_<NAME>`, else `OMNITRACE_<NAME>`;\n\
         3. a configuration file: `NAME = value`, TOML, JSON or XML. Files come from `-c FILE`, else from `RSYS_CONFIG_FILE`, else from\n\
         \u{20}  `~/.rsys.cfg`, `~/.rocprof-sys.cfg` and `~/.rocprofiler-systems.cfg`. `-c none` reads none.\n\n\
         `rsys-sample -v` says where each changed value came from. `config/default.cfg` holds all defaults.\n",
    );
    for category in Category::ALL {
        push_line(&mut text, &format!("\n## {}", category.title()));
        for setting in of_category(category) {
            push_setting(&mut text, setting);
        }
    }
    push_line(&mut text, "\n## Names of backends");
    push_line(
        &mut text,
        "\nFor `-I` and `-E`, and for the settings behind them.",
    );
    text.push('\n');
    push_line(
        &mut text,
        "| name | also | records | in this build |\n|---|---|---|---|",
    );
    for backend in BACKENDS {
        let row = format!(
            "| `{}` | {} | {} | {} |",
            backend.name,
            codes(backend.aliases),
            backend.summary,
            if backend.is_built() { "yes" } else { "no" },
        );
        push_line(&mut text, &row);
    }
    push_metrics(&mut text);
    push_line(&mut text, "\n## Settings of the original without effect");
    push_line(
        &mut text,
        "\nThey are accepted; `-v` lists those that were met.",
    );
    text.push('\n');
    push_line(&mut text, "| name | why |\n|---|---|");
    for ignored in IGNORED_SETTINGS {
        push_line(
            &mut text,
            &format!("| `{}` | {} |", ignored.name, ignored.reason),
        );
    }
    text
}

fn push_metrics(text: &mut String) {
    push_line(text, "\n## Names of GPU metrics");
    push_line(text, "\nFor GPU_METRICS.");
    text.push('\n');
    push_line(text, "| name | what | tracks | unit |\n|---|---|---|---|");
    for metric in METRICS {
        let tracks: Vec<_> = metric.tracks.iter().map(|track| track.name).collect();
        let units: Vec<_> = metric.tracks.iter().map(|track| track.unit).collect();
        push_line(
            text,
            &format!(
                "| `{}` | {} | {} | {} |",
                metric.name,
                metric.summary,
                tracks.join(", "),
                units.join(", ")
            ),
        );
    }
}

/// The option as one would write it: `-f, --freq HZ`.
#[must_use]
pub fn option_text(option: &CommandOption) -> String {
    let mut text = String::new();
    if let Some(short) = option.short {
        text.push('-');
        text.push(short);
        text.push_str(", ");
    }
    text.push_str("--");
    text.push_str(option.long);
    if !option.value_name.is_empty() {
        text.push(' ');
        text.push_str(option.value_name);
    }
    text
}

fn push_setting(text: &mut String, setting: &Setting) {
    push_line(text, &format!("\n### {}", setting.name));
    text.push('\n');
    push_line(
        text,
        &format!("{}. {}", setting.summary, setting.details).trim_end(),
    );
    text.push('\n');
    push_line(text, &format!("- takes {}", allowed_text(setting)));
    if let Kind::Choice(choices) = setting.kind {
        for choice in choices {
            push_line(text, &format!("  - `{}`: {}", choice.name, choice.help));
        }
    }
    if setting.default.is_empty() {
        push_line(text, "- default: empty");
    } else {
        push_line(text, &format!("- default: `{}`", setting.default));
    }
    if let Some(option) = &setting.option {
        push_line(text, &format!("- option: `{}`", option_text(option)));
    }
    if !setting.aliases.is_empty() {
        push_line(text, &format!("- also called: {}", codes(setting.aliases)));
    }
}

fn codes(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileChoice, Sources};
    use std::path::{Path, PathBuf};

    fn default_cfg_path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("default.cfg")
    }

    /// Compares a generated file of the repository, or writes it when `RSYS_BLESS` is set.
    fn check(path: &Path, expected: &str) {
        if std::env::var_os("RSYS_BLESS").is_some() {
            std::fs::write(path, expected).expect("a writable repository");
        }
        let current = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            current == expected,
            "{} is not current; run the tests with RSYS_BLESS=1",
            path.display()
        );
    }

    #[test]
    fn default_cfg_is_current() {
        check(&default_cfg_path(), &default_cfg());
    }

    #[test]
    fn settings_page_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
        check(&path, &settings_page());
    }

    #[test]
    fn default_cfg_sets_every_setting_to_its_default() {
        let path = std::env::temp_dir().join(format!("rsys-default-{}.cfg", std::process::id()));
        std::fs::write(&path, default_cfg()).expect("a file for the test");
        let settings = Settings::load(&Sources {
            files: FileChoice::Named(vec![path.display().to_string()]),
            ..Sources::default()
        });
        std::fs::remove_file(&path).ok();
        let settings = settings.expect("a good file");
        assert_eq!(settings.non_defaults().count(), 0);
        assert!(settings.notes().is_empty());
        let untouched = settings
            .iter()
            .filter(|(_, _, origin)| **origin == crate::Origin::Default)
            .map(|(setting, _, _)| setting.name);
        assert_eq!(untouched.collect::<Vec<_>>(), ["CONFIG_FILE"]);
    }
}
