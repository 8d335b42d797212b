//! Lists without commas: gives each word of `-I roctracer roctx`, `-c a.cfg b.cfg` and `-v 2` its
//! own option.
//!
//! The original's lists end at the next option, which is safe only where `--` stands before the
//! command. Here a list also ends at the first word that cannot belong to it, so that `rsys-sample
//! -I roctracer ./solver` runs `./solver`. Where any word could belong to it (`-C EVENT EVENT --
//! ./solver`), it is read in the original's way if nothing but options follows up to a `--`.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};
use rsys_config::table::{self, Kind};
use rsys_config::{Numbers, backends};

use super::command::{EXPORT_CONFIG, SET};

/// Stands before the name of a setting that was written as an option, in what `--set` is given for it.
pub(super) const SPELLED_AS_OPTION: &str = "--";

/// Rewrites the words before the command; the command's own words are never touched. Tells too how
/// many words are options.
pub(super) fn attach_values(options: &Command, words: &[OsString]) -> (Vec<OsString>, usize) {
    let mut result = Vec::with_capacity(words.len());
    let rest = attach(options, words, &mut result);
    let count = result.len();
    result.extend_from_slice(rest);
    (result, count)
}

/// Moves options with their values to `result` and returns what is left.
fn attach<'a>(
    options: &Command,
    mut rest: &'a [OsString],
    result: &mut Vec<OsString>,
) -> &'a [OsString] {
    while let [word, after @ ..] = rest {
        let text = word.to_str().unwrap_or_default();
        let Some(option) = last_option(options, text) else {
            match setting_in(text) {
                Some(setting) => rest = attach_setting(options, &setting, after, result),
                None => break,
            }
            continue;
        };
        rest = after;
        let id = option.arg.get_id().as_str();
        let digits = word.to_str().and_then(|word| word.strip_prefix("-v"));
        match digits.filter(|digits| id == "VERBOSE" && is_number(digits)) {
            Some(digits) => {
                result.push(format!("--verbose={digits}").into());
                continue;
            }
            None => result.push(word.clone()),
        }
        if option.takes_next_word {
            match rest {
                // The original's way to read no file at all.
                [next, ..] if id == "CONFIG_FILE" && next.as_encoded_bytes().starts_with(b"-") => {
                    result.push("none".into());
                }
                [value, after @ ..] => {
                    result.push(value.clone());
                    rest = after;
                }
                [] => {}
            }
        }
        rest = attach_list(options, &option, rest, result);
    }
    rest
}

/// A setting that is written as an option, as every setting could be for the original's `run`:
/// `--time-format %j`, `--use-rocm=on`.
struct NamedSetting<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

/// The setting that a word names, if it is one of ours or of the original.
fn setting_in(word: &str) -> Option<NamedSetting<'_>> {
    let long = word.strip_prefix("--")?;
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    // Names have small letters and hyphens here; what looks otherwise is a mistake.
    let is_word =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    (name.chars().all(is_word) && rsys_config::is_known(name))
        .then_some(NamedSetting { name, value })
}

/// Moves such a setting to `result`, with the word that is its value, and returns what is left.
/// Without a value it is switched on.
fn attach_setting<'a>(
    options: &Command,
    setting: &NamedSetting<'_>,
    rest: &'a [OsString],
    result: &mut Vec<OsString>,
) -> &'a [OsString] {
    let kind = table::find(setting.name).map(|known| known.kind);
    let next = rest.first().and_then(|word| word.to_str());
    let may_be_value = |word: &str| {
        let is_word = !word.starts_with('-') || word.parse::<f64>().is_ok();
        match kind {
            Some(Kind::Bool) => is_truth(word) && reaches_command(options, &rest[1..]),
            Some(_) => is_word,
            // Of the original's own settings the type is not known.
            None => is_word && reaches_command(options, &rest[1..]),
        }
    };
    let (value, left) = match (setting.value, next) {
        (Some(value), _) => (value, rest),
        (None, Some(word)) if may_be_value(word) => (word, &rest[1..]),
        (None, _) => ("true", rest),
    };
    result.push(format!("--{SET}={SPELLED_AS_OPTION}{}={value}", setting.name).into());
    left
}

/// Gives the words that belong to the list of an option one each.
fn attach_list<'a>(
    options: &Command,
    option: &LastOption<'_>,
    mut rest: &'a [OsString],
    result: &mut Vec<OsString>,
) -> &'a [OsString] {
    let id = option.arg.get_id().as_str();
    let Some(long) = option.arg.get_long() else {
        return rest;
    };
    let mut place = 0;
    while let [word, after @ ..] = rest {
        let Some(text) = word.to_str() else { break };
        let Some(name) = takes_word(options, option, (id, long), place, text, after) else {
            break;
        };
        if let Some(name) = name {
            result.push(format!("--{name}={text}").into());
        }
        rest = after;
        place += 1;
    }
    rest
}

/// Under which option's name the word at this place of a list belongs to `option`: `Some(None)`
/// when it is dropped, `None` when it does not belong to it.
fn takes_word<'a>(
    options: &Command,
    option: &LastOption<'_>,
    (id, long): (&'a str, &'a str),
    place: usize,
    word: &str,
    after: &[OsString],
) -> Option<Option<&'a str>> {
    if id == "VERBOSE" && place == 0 && word == "-1" {
        return Some(Some(long));
    }
    if word.starts_with('-') || word.is_empty() {
        return None;
    }
    let marked = || reaches_command(options, after);
    // A single value stands right in front of an option or of the command's `--`.
    let ends = || {
        after
            .first()
            .is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"))
    };
    let single = || place == 0 && ends() && marked();
    let own = Some(Some(long));
    match id {
        "INCLUDE_BACKENDS" | "EXCLUDE_BACKENDS" if continues_backends(word, after) => own,
        "CONFIG_FILE" if word == "none" || is_config(word) => own,
        "VERBOSE" if place == 0 && is_number(word) => own,
        EXPORT_CONFIG if place == 0 && option.is_bare && is_config(word) => own,
        // The original's frequency, delay and threads of one clock.
        "SAMPLING_REALTIME" | "cputime" if option.is_bare => {
            let (rate, wait, tids) = match id {
                "cputime" => ("cputime-freq", "cputime-wait", "cputime-tids"),
                _ => ("realtime-freq", "realtime-wait", "realtime-tids"),
            };
            let is_decimal = word.parse::<f64>().is_ok();
            match place {
                0 if is_decimal => Some(Some(rate)),
                0 if is_truth(word) && single() => own,
                1 if is_decimal => Some(Some(wait)),
                2.. if is_numbers(word) => Some(Some(tids)),
                _ => None,
            }
        }
        _ if ["tids", "cpus", "gpus"].contains(&long) && is_numbers(word) => own,
        "periods" | "TRACE_PERIODS" | "SAMPLING_PERIODS"
            if word.contains(':') && !word.contains('/') =>
        {
            word.starts_with(|first: char| first.is_ascii_digit() || first == '.')
                .then_some(Some(long))
        }
        "sample" if option.is_bare && ["cputime", "realtime", "overflow"].contains(&word) => own,
        "profile-format" if ["text", "json", "console"].contains(&word) => own,
        "OUTPUT_PATH" if is_prefix(word) && single() => Some(Some("output-prefix")),
        "profile-diff" if is_prefix(word) && single() => Some(None),
        _ if option.arg.is_require_equals_set() => {
            (option.is_bare && is_truth(word) && single()).then_some(Some(long))
        }
        _ if is_open_list(option.arg) && marked() => own,
        _ => None,
    }
}

/// Whether nothing but options and their values leads to the `--` in front of the command.
fn reaches_command(options: &Command, rest: &[OsString]) -> bool {
    let mut words = rest.iter().take_while(|word| *word != "--");
    let is_ours = |word: &OsString| {
        let text = word.to_str().unwrap_or("-");
        !text.starts_with('-') || last_option(options, text).is_some() || setting_in(text).is_some()
    };
    rest.iter().any(|word| word == "--") && words.all(is_ours)
}

const OPEN_LISTS: [&str; 7] = [
    "cpu-events",
    "gpu-events",
    "sample-overflow",
    "output-format",
    "ai-nics",
    "selected-regions",
    "rank-filter-id",
];

/// Lists of which any word may be a part.
fn is_open_list(arg: &Arg) -> bool {
    arg.get_long()
        .is_some_and(|long| OPEN_LISTS.contains(&long))
}

/// Whether an option may be given several values, as words or again and again.
pub(super) fn is_list(long: &str) -> bool {
    OPEN_LISTS.contains(&long) || ["tids", "cpus", "gpus"].contains(&long)
}

/// The option that a word ends with.
struct LastOption<'a> {
    arg: &'a Arg,
    /// Whether its value is the next word.
    takes_next_word: bool,
    /// Whether it has no value yet.
    is_bare: bool,
}

fn last_option<'a>(options: &'a Command, word: &str) -> Option<LastOption<'a>> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let arg = options.get_arguments().find(|arg| {
            arg.get_long() == Some(name)
                || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
        })?;
        return Some(LastOption {
            arg,
            takes_next_word: value.is_none() && needs_value(arg),
            is_bare: value.is_none(),
        });
    }
    let letters = word.strip_prefix('-')?;
    for (position, letter) in letters.char_indices() {
        let arg = options.get_arguments().find(|arg| {
            arg.get_short() == Some(letter)
                || arg
                    .get_all_short_aliases()
                    .is_some_and(|all| all.contains(&letter))
        })?;
        let after = &letters[position + letter.len_utf8()..];
        let ends_here = after.is_empty()
            || after.starts_with('=')
            || needs_value(arg)
            || after.chars().all(|character| character.is_ascii_digit());
        if ends_here {
            return Some(LastOption {
                arg,
                takes_next_word: after.is_empty() && needs_value(arg),
                is_bare: after.is_empty(),
            });
        }
    }
    None
}

/// Whether an option has a value that may be a word of its own.
fn needs_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn continues_backends(word: &str, after: &[OsString]) -> bool {
    let mut names = word.split(',').filter(|name| !name.is_empty());
    if names.clone().all(|name| backends::find(name).is_some()) {
        return true;
    }
    // A slip of the pen must not become the command where the command is marked by `--`.
    let command_follows = after.iter().any(|word| word == OsStr::new("--"));
    command_follows && names.any(|name| backends::nearest(name).is_some())
}

fn is_config(word: &str) -> bool {
    [".cfg", ".toml", ".conf", ".json", ".xml"]
        .iter()
        .any(|extension| word.ends_with(extension))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| character.is_ascii_digit())
}

fn is_numbers(word: &str) -> bool {
    matches!(Numbers::parse(word), Some(numbers) if !numbers.is_all() || word == "all")
}

/// Words for true and false; letters and digits alone are more often something else.
fn is_truth(word: &str) -> bool {
    let words = ["true", "false", "on", "off", "yes", "no", "0", "1"];
    words.contains(&word.to_ascii_lowercase().as_str())
}

/// A word that may be put in front of file names: no path of a command.
fn is_prefix(word: &str) -> bool {
    !word.contains('/') || word.contains('%') || word.ends_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_lists_are_options() {
        // A row that became a setting keeps its word.
        let options = super::super::command::command();
        for word in OPEN_LISTS.map(|long| format!("--{long}")) {
            let option = last_option(&options, &word).expect(&word);
            assert!(is_open_list(option.arg) && option.takes_next_word, "{word}");
        }
    }
}
