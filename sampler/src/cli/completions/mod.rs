//! Completions for shells: options with the values that they take, then the command and its own
//! arguments.
//!
//! `clap_complete` knows options only. In bash and fish the command is found by functions of ours,
//! around what it makes; zsh finds it by itself.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use rsys_config::shorthands::{self, Takes};
use rsys_config::table::{self, Kind};
use rsys_config::{backends, gpu_metrics, presets};

use super::command;

const PROGRAM: &str = "rsys-sample";
const BASH: &str = include_str!("command.bash");
const FISH: &str = include_str!("command.fish");

/// The completions for a shell.
pub(super) fn script(shell: Shell) -> String {
    let mut options = options();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut options, PROGRAM, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + &filled_in(BASH, &options, "|"),
        Shell::Fish => {
            let guarded =
                format!("complete -c {PROGRAM} -n 'not __rsys_sample_command >/dev/null'");
            let script = script.replace(&format!("complete -c {PROGRAM}"), &guarded);
            filled_in(FISH, &options, " ") + &script
        }
        _ => script,
    }
}

/// The options that are worth offering, each with what it takes. What is checked is not decided
/// here.
fn options() -> Command {
    let all = command::command();
    let is_old = |argument: &&Arg| {
        shorthands::all().any(|row| row.old && argument.get_id().as_str() == row.long)
    };
    Command::new(PROGRAM)
        .about(all.get_about().cloned().unwrap_or_default())
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(
            all.get_arguments()
                .filter(|argument| !is_old(argument))
                .map(|argument| with_values(argument.clone())),
        )
}

fn with_values(argument: Arg) -> Arg {
    let id = argument.get_id().as_str();
    match id {
        command::COMMAND => {
            return argument
                .hide(false)
                .value_hint(ValueHint::CommandWithArguments);
        }
        command::PRESET | command::EXPLAIN => {
            let all = presets::PRESETS.iter();
            return one_of(argument, all.map(|preset| (preset.name, preset.summary)));
        }
        command::EXPORT_CONFIG => return argument.value_hint(ValueHint::FilePath),
        _ => {}
    }
    if let Some(setting) = table::all().find(|setting| setting.name == id) {
        return match setting.kind {
            Kind::Bool => truth(argument),
            Kind::Choice(choices) => one_of(
                argument,
                choices.iter().map(|choice| (choice.name, choice.help)),
            ),
            Kind::Backends => one_of(argument, backends::names().map(|name| (name, ""))),
            Kind::Metrics => one_of(
                argument,
                gpu_metrics::METRICS
                    .iter()
                    .map(|one| (one.name, one.summary)),
            ),
            Kind::Path { .. } if setting.name.ends_with("_PATH") => {
                argument.value_hint(ValueHint::DirPath)
            }
            Kind::Path { .. } | Kind::PathList => argument.value_hint(ValueHint::FilePath),
            _ => argument.value_hint(ValueHint::Other),
        };
    }
    match shorthands::all().find(|row| row.long == id) {
        Some(row) if row.takes == Takes::Bool => truth(argument),
        Some(_) => argument.value_hint(ValueHint::Other),
        None => argument,
    }
}

fn truth(argument: Arg) -> Arg {
    one_of(argument, [("true", ""), ("false", "")])
}

fn one_of(argument: Arg, values: impl IntoIterator<Item = (&'static str, &'static str)>) -> Arg {
    let value = |(name, help): (&'static str, &'static str)| match help {
        "" => PossibleValue::new(name),
        // zsh's completions put it between double quotes.
        help => PossibleValue::new(name).help(help.replace('"', "'")),
    };
    argument.value_parser(PossibleValuesParser::new(values.into_iter().map(value)))
}

/// Puts the words that decide where the command begins into a script.
fn filled_in(script: &str, options: &Command, between: &str) -> String {
    let words_of = |wanted: &dyn Fn(&Arg) -> bool| {
        let arguments = options.get_arguments().filter(|argument| wanted(argument));
        let words: Vec<String> = arguments.flat_map(words).collect();
        words.join(between)
    };
    let is_list = |argument: &Arg| {
        let named = table::all().find(|setting| argument.get_id().as_str() == setting.name);
        named.is_some_and(|setting| setting.kind == Kind::Backends)
    };
    let takes_next_word = |argument: &Arg| {
        !argument.is_positional()
            && argument.get_action().takes_values()
            && !argument.is_require_equals_set()
            && !is_list(argument)
    };
    let names: Vec<&str> = backends::names().collect();
    script
        .replace("@VALUED@", &words_of(&takes_next_word))
        .replace("@LISTS@", &words_of(&is_list))
        .replace("@BACKENDS@", &names.join(between))
}

/// The words of an option, without those that only old command lines use.
fn words(argument: &Arg) -> Vec<String> {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    short.into_iter().chain(long).collect()
}
