//! Lists without commas: gives each word of `-I roctracer roctx`, `-c a.cfg b.cfg` and `-v 2` its own option.
//!
//! The original's lists end at the next option, which is safe only where `--` stands before the command. Here a list also ends at the
//! first word that cannot belong to it, so that `rsys-sample -I roctracer ./solver` runs `./solver`.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};
use rsys_config::backends;

/// Rewrites the words before the command; the command's own words are never touched.
pub(super) fn attach_values(options: &Command, words: &[OsString]) -> Vec<OsString> {
    let mut result = Vec::with_capacity(words.len());
    let mut rest = words;
    while let [word, after @ ..] = rest {
        let Some(option) = word.to_str().and_then(|word| last_option(options, word)) else {
            break;
        };
        let id = option.arg.get_id().as_str();
        if id == "VERBOSE"
            && let Some(digits) = word.to_str().and_then(|word| word.strip_prefix("-v"))
            && is_number(digits)
        {
            result.push(format!("--verbose={digits}").into());
            rest = after;
            continue;
        }
        result.push(word.clone());
        rest = after;
        if option.takes_next_word
            && let [value, after @ ..] = rest
        {
            result.push(value.clone());
            rest = after;
        }
        let Some(long) = option.arg.get_long() else {
            continue;
        };
        while let [word, after @ ..] = rest {
            let Some(text) = word.to_str() else { break };
            if !continues_list(id, text, after) {
                break;
            }
            let name = match id {
                "SAMPLING_REALTIME" => "realtime-freq",
                _ => long,
            };
            result.push(format!("--{name}={text}").into());
            rest = after;
            if matches!(id, "VERBOSE" | "SAMPLING_REALTIME") {
                break;
            }
        }
    }
    result.extend_from_slice(rest);
    result
}

/// The option that a word ends with.
struct LastOption<'a> {
    arg: &'a Arg,
    /// Whether its value is the next word.
    takes_next_word: bool,
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
        });
    }
    let letters = word.strip_prefix('-')?;
    for (position, letter) in letters.char_indices() {
        let arg = options
            .get_arguments()
            .find(|arg| arg.get_short() == Some(letter))?;
        let after = &letters[position + letter.len_utf8()..];
        let ends_here = after.is_empty()
            || after.starts_with('=')
            || needs_value(arg)
            || after.chars().all(|character| character.is_ascii_digit());
        if ends_here {
            return Some(LastOption {
                arg,
                takes_next_word: after.is_empty() && needs_value(arg),
            });
        }
    }
    None
}

/// Whether an option has a value that may be a word of its own.
fn needs_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// Whether `word` belongs to the list of the option `id`; `after` is what follows it.
fn continues_list(id: &str, word: &str, after: &[OsString]) -> bool {
    match id {
        "INCLUDE_BACKENDS" | "EXCLUDE_BACKENDS" => continues_backends(word, after),
        "CONFIG_FILE" => {
            word == "none"
                || [".cfg", ".toml", ".conf", ".json", ".xml"]
                    .iter()
                    .any(|extension| word.ends_with(extension))
        }
        // The original's `--realtime FREQ`.
        "VERBOSE" | "SAMPLING_REALTIME" => is_number(word),
        _ => false,
    }
}

fn continues_backends(word: &str, after: &[OsString]) -> bool {
    if word.starts_with('-') || word.is_empty() {
        return false;
    }
    let mut names = word.split(',').filter(|name| !name.is_empty());
    if names.clone().all(|name| backends::find(name).is_some()) {
        return true;
    }
    // A slip of the pen must not become the command where the command is marked by `--`.
    let command_follows = after.iter().any(|word| word == OsStr::new("--"));
    command_follows && names.any(|name| backends::nearest(name).is_some())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| character.is_ascii_digit())
}
