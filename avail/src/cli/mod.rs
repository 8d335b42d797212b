//! The command line: the original's options with their old spellings, and `--json`.

mod categories;
mod options;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command};
use rsys_config::generate::{self, Format};

use self::categories::categories;
pub use self::categories::category_table;
pub use self::options::command;
use self::options::without_value;
use crate::filter::{Choice, Filter};
use crate::request::{Columns, Form, Generation, Request, View};

/// Reads the arguments, of which the first is the program's name, by the options of [`command`].
pub fn parse(
    command: &mut Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Request, clap::Error> {
    let words: Vec<OsString> = arguments
        .into_iter()
        .filter_map(|word| without_value(command, word))
        .collect();
    let matches = match command.try_get_matches_from_mut(&words) {
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => Err(not_text(command, &words)),
        result => result,
    }?;
    request(&matches).map_err(|error| command.error(ErrorKind::InvalidValue, format!("{error:#}")))
}

/// Says which word should be text and is none. Clap says only that there is one; names of files are none of them.
fn not_text(command: &mut Command, words: &[OsString]) -> clap::Error {
    let as_text = |word: &OsString| OsString::from(&*word.to_string_lossy());
    let is_the_one = |place: &usize| {
        let others = words.iter().enumerate().map(|(other, word)| {
            if other == *place {
                word.clone()
            } else {
                as_text(word)
            }
        });
        let result = command.try_get_matches_from_mut(others);
        result.is_err_and(|error| error.kind() == ErrorKind::InvalidUtf8)
    };
    let places = (0..words.len()).filter(|place| words[*place].to_str().is_none());
    let place = { places }.find(is_the_one).unwrap_or_default();
    let text = format!(
        "'{}' is not UTF-8 text; only names of files may be any bytes (in a regular expression, '.' stands for any character)",
        words[place].display()
    );
    command.error(ErrorKind::InvalidUtf8, text)
}

/// Completions or the manual page, if they are asked for.
fn about_itself(matches: &ArgMatches) -> Option<String> {
    let mut text = Vec::new();
    if let Some(shell) = matches.get_one::<clap_complete::Shell>("completions") {
        clap_complete::generate(*shell, &mut command(), "rsys-avail", &mut text);
    } else if matches.get_flag("man") {
        // Nothing can go wrong where nothing is written to a file.
        clap_mangen::Man::new(command()).render(&mut text).ok();
    } else {
        return None;
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn request(matches: &ArgMatches) -> anyhow::Result<Request> {
    let flag = |name: &str| matches.get_flag(name);
    let words = |name: &str| -> Vec<String> {
        let values = matches.get_many::<String>(name).into_iter().flatten();
        values.filter(|word| !word.is_empty()).cloned().collect()
    };
    let number = |name: &str| matches.get_one::<usize>(name).copied();
    let all = flag("all");
    let asked: Vec<&str> = TABLES
        .iter()
        .filter(|(_, option, _)| all || flag(option))
        .map(|(_, _, table)| *table)
        .collect();
    // `-c N` is how the first versions wrote `-w N`; 0 meant to cut nothing off.
    let (widths, names): (Vec<String>, Vec<String>) = words("categories")
        .into_iter()
        .partition(|word| word.parse::<usize>().is_ok());
    let old_width: Option<usize> = widths.last().and_then(|word| word.parse().ok());
    let chosen = categories(&names, &asked)?;
    let mut texts = words("filter");
    texts.extend(words("REGEX_FILTER"));
    let filter = Filter::new(Choice {
        texts,
        categories: words("category-filter"),
        ignore_case: flag("ignore-case"),
        chosen: chosen.clone(),
        available_only: flag("available"),
        alphabetical: flag("alphabetical"),
    })?;
    let columns = Columns {
        brief: flag("brief"),
        description: all || flag("description"),
        value: all || flag("value"),
        string: all || flag("string"),
        filename: all || flag("filename"),
        category: all || (matches.contains_id("categories") && widths.is_empty()),
    };
    let form = if flag("json") {
        Form::Json
    } else if flag("markdown") {
        Form::Markdown
    } else if flag("csv") || matches.contains_id("csv-separator") {
        let separator = matches.get_one::<String>("csv-separator");
        Form::Csv(separator.map_or_else(|| ",".to_owned(), Clone::clone))
    } else {
        Form::Text
    };
    Ok(Request {
        about_itself: about_itself(matches),
        views: views(matches, &chosen),
        program: matches.get_one::<PathBuf>("for").cloned(),
        doctor: doctor(matches),
        set: words("set"),
        generate: generation(matches)?,
        comments: generate::Choice {
            describe: columns.description || columns.value || columns.category,
            advanced: all || flag("advanced"),
        },
        filter,
        form,
        output: matches.get_one::<PathBuf>("output").cloned(),
        columns,
        advanced: flag("advanced"),
        expand_keys: flag("expand-keys"),
        tag: matches.get_one::<String>("tag").cloned(),
        gpu_counters: matches
            .get_many::<PathBuf>("gpu-counters")
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
        monochrome: flag("monochrome"),
        highlight: flag("highlight"),
        column_width: number("column-width")
            .or(old_width)
            .filter(|width| *width > 0),
        total_width: number("max-total-width").or(old_width.filter(|width| *width == 0)),
    })
}

/// Whether the doctor is asked, and about what.
fn doctor(matches: &ArgMatches) -> Option<Option<PathBuf>> {
    let mut words = matches.get_many::<PathBuf>("doctor")?;
    Some(words.next().cloned())
}

/// The main tables with their options and names.
const TABLES: [(View, &str, &str); 3] = [
    (View::Settings, "settings", "settings"),
    (View::Components, "components", "components"),
    (View::Counters, "hw-counters", "counters"),
];

/// The tables that the options name; else those of the chosen categories; else the settings.
fn views(matches: &ArgMatches, chosen: &[String]) -> Vec<View> {
    let flag = |name: &str| matches.get_flag(name);
    let of_tables = |holds: &dyn Fn(&str, &str) -> bool| -> Vec<View> {
        let tables = TABLES
            .iter()
            .filter(|(_, option, table)| holds(option, table));
        tables.map(|(view, ..)| *view).collect()
    };
    let mut views = of_tables(&|option, _| flag(option) || flag("all"));
    if flag("list-keys") || (flag("expand-keys") && views.is_empty()) {
        views.push(View::Keys);
    }
    if flag("list-categories") {
        views.push(View::Categories);
    }
    if flag("runtimes") {
        views.push(View::Runtimes);
    }
    if views.is_empty() && (matches.contains_id("for") || matches.contains_id("doctor")) {
        return views;
    }
    if views.is_empty() {
        views = of_tables(&|_, table| {
            let prefix = format!("{table}::");
            chosen.iter().any(|chosen| chosen.starts_with(&prefix))
        });
    }
    if views.is_empty() {
        views.push(View::Settings);
    }
    views
}

fn generation(matches: &ArgMatches) -> anyhow::Result<Option<Generation>> {
    let Some(mut names) = matches.get_many::<PathBuf>("generate-config") else {
        return Ok(None);
    };
    // `-G -O FILE` is an old way to say `-G FILE`.
    let file = names
        .next()
        .or_else(|| matches.get_one::<PathBuf>("output"))
        .cloned()
        .unwrap_or_else(|| PathBuf::from("rsys-config"));
    let extension = file
        .extension()
        .map(|extension| extension.to_string_lossy().into_owned());
    let mut formats: Vec<Format> = extension
        .iter()
        .filter_map(|name| Format::of(name))
        .collect();
    for name in matches
        .get_many::<String>("config-format")
        .into_iter()
        .flatten()
    {
        let format = Format::of(name)
            .ok_or_else(|| anyhow::anyhow!("'{name}' is not a format of configuration files"))?;
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    if formats.is_empty() {
        formats.push(Format::Text);
    }
    let force = matches.get_flag("force");
    Ok(Some(Generation {
        file,
        formats,
        force,
    }))
}
