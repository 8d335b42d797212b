//! The command line of `rsys-sample`.
//!
//! `command` makes the options and their help from the table of settings. `greedy` prepares the
//! words so that the original's habits (`-I roctracer roctx -- cmd`, `-v 2`) mean what they always
//! meant. [`parse`] puts options over environment over files and gives an [`Invocation`], or a
//! [`CliExit`] that says what to print and how to end.

mod answers;
mod command;
mod completions;
mod demo;
mod early_exit;
mod greedy;
mod help;
mod presets;

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;
use clap::{ArgMatches, Command};
use rsys_config::shorthands::{self, Takes};
use rsys_config::{FileChoice, Origin, Problem, Resolved, Settings, Sources, Value, table};

pub use early_exit::CliExit;

/// What the user asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Invocation {
    /// All settings with their origins.
    pub settings: Settings,
    /// The same as plain fields.
    pub resolved: Resolved,
    /// The command and its arguments, as they were given; empty only where a process is attached to.
    pub command: Vec<OsString>,
    /// The process that runs already and is to be recorded in place of a command.
    pub attach: Option<u32>,
    /// The processes whose stacks are to be printed in place of a run.
    pub dump: Vec<u32>,
    /// Whether an answer is to be JSON.
    pub json: bool,
    /// One line each, to be shown before the run starts.
    pub warnings: Vec<String>,
}

/// The invocation of this process: its arguments, its environment, its user's files.
pub fn from_env() -> Result<Invocation, CliExit> {
    parse(std::env::args_os().skip(1), &Sources::of_this_process())
}

/// Reads the arguments (without the program's name) over the environment and the files of
/// `sources`.
///
/// Files named by `-c` take the place of those that `sources` would choose.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    sources: &Sources,
) -> Result<Invocation, CliExit> {
    Parser::new().parse(arguments, sources)
}

/// The options, made once for any number of command lines.
#[derive(Debug)]
pub struct Parser {
    options: Command,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// Makes the options from the table of settings.
    #[must_use]
    pub fn new() -> Self {
        let mut options = command::command();
        options.build();
        Self { options }
    }

    /// As [`parse`].
    pub fn parse(
        &mut self,
        arguments: impl IntoIterator<Item = OsString>,
        sources: &Sources,
    ) -> Result<Invocation, CliExit> {
        parse_with(&mut self.options, arguments.into_iter().collect(), sources)
    }
}

fn parse_with(
    options: &mut Command,
    arguments: Vec<OsString>,
    sources: &Sources,
) -> Result<Invocation, CliExit> {
    let monochrome = wants_monochrome(&arguments, sources);
    let (words, count) = greedy::attach_values(options, &arguments);
    // A word that is no text and begins like an option is none that is known, and yet no command.
    let is_bad = |(place, word): (usize, &OsString)| {
        word.to_str().is_none() && (place < count || word.as_encoded_bytes().starts_with(b"-"))
    };
    if let Some(place) = words.iter().enumerate().take(count + 1).position(is_bad) {
        let option = place
            .checked_sub(1)
            .and_then(|before| words[before].to_str());
        return Err(not_text(&words[place], option));
    }
    if let Some(exit) = answers::help_about(&words[..count]) {
        return Err(exit);
    }
    let matches = options
        .try_get_matches_from_mut(std::iter::once(OsString::from("rsys-sample")).chain(words))
        .map_err(|error| CliExit::from_clap(error, monochrome))?;
    if let Some(answer) = answers::without_settings(&matches, monochrome) {
        return Err(answer);
    }
    if matches.get_flag(command::DEMO) {
        let has_command = matches.contains_id(command::COMMAND);
        return Err(demo::instead(&arguments, has_command));
    }
    let mut sources = sources.clone();
    if let Some(names) = matches.get_many::<String>("CONFIG_FILE") {
        sources.files = FileChoice::Named(names.cloned().collect());
    }
    let (mut settings, mut problems) = match Settings::load(&sources) {
        Ok(settings) => (settings, Vec::new()),
        Err(error) => (Settings::defaults(), error.problems),
    };
    if let Some(name) = matches.get_one::<String>(command::PRESET) {
        problems.extend(presets::load(&mut settings, name, &sources.environment));
    }
    problems.extend(set_options(&mut settings, &matches));
    if !problems.is_empty() {
        return Err(CliExit::from_problems(&problems, monochrome));
    }

    let words = matches.get_many::<OsString>(command::COMMAND);
    let words: Vec<OsString> = words.into_iter().flatten().cloned().collect();
    if let Some(file) = matches.get_one::<String>(command::EXPORT_CONFIG) {
        return Err(answers::export(&settings, file, monochrome));
    }
    if matches.get_flag(command::DOCTOR) {
        return Err(answers::doctor(
            &settings,
            &words,
            matches.get_flag(command::JSON),
        ));
    }
    if matches.get_flag(command::DRY_RUN) {
        return Err(answers::dry_run(&settings, words));
    }
    let attach = matches.get_one::<u32>(command::PID).copied();
    if attach.is_some() && !words.is_empty() {
        return Err(CliExit::error(
            "-p records a process that runs already, and so takes no command; leave one of the two out",
        ));
    }
    let dump: Vec<u32> = matches
        .get_many::<u32>(command::DUMP)
        .map_or_else(Vec::new, |pids| pids.copied().collect());
    if !dump.is_empty() && (attach.is_some() || !words.is_empty()) {
        return Err(CliExit::error(
            "--dump prints the stacks of a process and records nothing, and so takes neither -p nor a command; several processes are --dump 4711,4712",
        ));
    }
    if attach.is_none() && dump.is_empty() && words.first().is_none_or(|word| word.is_empty()) {
        let error = options.error(ErrorKind::MissingRequiredArgument, no_command(&matches));
        return Err(CliExit::from_clap(error, monochrome));
    }
    let resolved = settings.resolve();
    let warnings = warnings(&settings, &resolved);
    Ok(Invocation {
        settings,
        resolved,
        command: words,
        attach,
        dump,
        json: matches.get_flag(command::JSON),
        warnings,
    })
}

/// Says which word is no text. Clap says only that there is one.
fn not_text(word: &OsStr, before: Option<&str>) -> CliExit {
    let option = before.filter(|word| word.starts_with('-') && !word.contains('='));
    let option = option.map_or_else(String::new, |option| format!("option {option}: "));
    CliExit::error(&format!(
        "{option}'{}' is not UTF-8 text; only the command and its arguments may be any bytes",
        word.display()
    ))
}

/// Sets what the options say; every problem is kept. Options for one setting win over those for
/// several, wherever they stand, but for those that add to a list.
fn set_options(settings: &mut Settings, matches: &ArgMatches) -> Vec<Problem> {
    let mut problems = apply_shorthands(settings, matches, false);
    for setting in table::all() {
        let Some(option) = &setting.option else {
            continue;
        };
        let Some(values) = matches.get_many::<String>(setting.name) else {
            continue;
        };
        let text = match setting.name {
            "VERBOSE" => verbosity(values),
            "CONFIG_FILE" => values.cloned().collect::<Vec<_>>().join(":"),
            _ => values.cloned().collect::<Vec<_>>().join(","),
        };
        let origin = Origin::CommandLine(option_name(option.short, option.long));
        if setting.name == "SAMPLING_FREQ"
            && let Some(rates) = rsys_config::rates(&text)
        {
            match rates {
                Ok(rates) => problems.extend(
                    rates
                        .iter()
                        .filter_map(|(name, rate)| settings.set(name, rate, origin.clone()).err()),
                ),
                Err(problem) => problems.push(problem),
            }
            continue;
        }
        problems.extend(settings.set(setting.name, &text, origin).err());
    }
    for text in matches
        .get_many::<String>(command::SET)
        .into_iter()
        .flatten()
    {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let (option, name) = match name.strip_prefix(greedy::SPELLED_AS_OPTION) {
            Some(bare) => (name, bare),
            None => ("--set", name),
        };
        let origin = Origin::CommandLine(option.to_owned());
        problems.extend(settings.set(name, value, origin).err());
    }
    problems.extend(apply_shorthands(settings, matches, true));
    if matches.get_flag(command::QUIET) {
        let origin = Origin::CommandLine("-q".to_owned());
        problems.extend(settings.set("VERBOSE", "-1", origin).err());
    }
    problems
}

fn apply_shorthands(settings: &mut Settings, matches: &ArgMatches, late: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    for row in shorthands::all().filter(|row| row.is_late() == late) {
        let Some(values) = matches.get_many::<String>(row.long) else {
            continue;
        };
        let mut values: Vec<String> = values.filter(|value| !value.is_empty()).cloned().collect();
        if !matches!(row.takes, Takes::List(_) | Takes::MaybeList(_)) {
            values = values.pop().into_iter().collect();
        }
        let origin = Origin::CommandLine(option_name(row.short, row.long));
        problems.extend(
            settings
                .apply(row, &values, &origin)
                .err()
                .into_iter()
                .flatten(),
        );
    }
    problems
}

fn option_name(short: Option<char>, long: &str) -> String {
    match short {
        Some(short) => format!("-{short}"),
        None => format!("--{long}"),
    }
}

/// A bare `-v` adds one to what stands before it; `-v=N` sets.
fn verbosity<'a>(values: impl Iterator<Item = &'a String>) -> String {
    let mut sum = 0;
    for value in values {
        if value == command::ONE_MORE {
            sum += 1;
        } else if let Ok(number) = value.parse::<i64>() {
            sum = number;
        } else {
            return value.clone();
        }
    }
    sum.to_string()
}

fn no_command(matches: &ArgMatches) -> String {
    let lists = ["INCLUDE_BACKENDS", "EXCLUDE_BACKENDS"];
    let has_list = lists.iter().any(|name| matches.contains_id(name));
    let hint = if has_list {
        "\n\n  tip: names of backends after -I and -E belong to the list; put '--' in front of the command"
    } else {
        ""
    };
    format!("no command to run; for example: rsys-sample -- python3 train.py{hint}")
}

fn warnings(settings: &Settings, resolved: &Resolved) -> Vec<String> {
    if resolved.verbose < 0 {
        return Vec::new();
    }
    let notes = settings.notes().iter().filter(|note| note.important);
    let missing = resolved.gpu_events_missing.then(|| {
        "backend 'rocprofiler' counts nothing: no counter is named; for example: -G SQ_WAVES,GRBM_GUI_ACTIVE".to_owned()
    });
    let no_clock = resolved.windows_by_cpu_time && resolved.overflow.is_some();
    let cpu_time = no_clock.then(|| {
        "TRACE_PERIOD_CLOCK_ID = cputime: samples by an event do not tell CPU time; windows are counted by the time on the wall"
            .to_owned()
    });
    let says_off = matches!(settings.get("TRACE"), Some(Value::Bool(false)));
    let only_trace = (says_off && resolved.trace).then(|| {
        "TRACE = false has no effect while PROFILE is off: nothing else would be written".to_owned()
    });
    notes
        .map(ToString::to_string)
        .chain(missing)
        .chain(only_trace)
        .chain(cpu_time)
        .collect()
}

/// Whether messages shall be without colours, found out before anything can go wrong.
fn wants_monochrome(arguments: &[OsString], sources: &Sources) -> bool {
    let asked = arguments
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--monochrome" || word == "--monochrome=true");
    let mut settings = Settings::defaults();
    // Bad values are reported when everything is read in earnest.
    settings.load_environment(&sources.environment).ok();
    asked || settings.get("MONOCHROME") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod options_tests;
#[cfg(test)]
mod original_tests;
#[cfg(test)]
mod tests;
