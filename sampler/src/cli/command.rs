//! The options and their help, made from the table of settings.

use clap::builder::{StyledStr, Styles, ValueParser};
use clap::{Arg, ArgAction, ArgGroup, Command};
use rsys_config::backends;
use rsys_config::documents::allowed_text;
use rsys_config::shorthands::{self, Shorthand, Takes};
use rsys_config::table::{self, Category, CommandOption, Kind, Setting};

use super::greedy::is_list;
use super::help;

/// The id of the words of the command.
pub(super) const COMMAND: &str = "command";
/// The id of `-q`.
pub(super) const QUIET: &str = "quiet";
/// The id of `--list-keys`.
pub(super) const LIST_KEYS: &str = "list-keys";
/// The id of `--dry-run`.
pub(super) const DRY_RUN: &str = "dry-run";
/// The id of `--doctor`.
pub(super) const DOCTOR: &str = "doctor";
/// The id of `--demo`.
pub(super) const DEMO: &str = "demo";
/// The id of `--json`.
pub(super) const JSON: &str = "json";
/// The id of `--export-config`.
pub(super) const EXPORT_CONFIG: &str = "export-config";
/// The id of `--pid`.
pub(super) const PID: &str = "pid";
/// The id of `--dump`.
pub(super) const DUMP: &str = "dump";
/// The id of `--set`.
pub(super) const SET: &str = "set";
/// The id of `--preset`.
pub(super) const PRESET: &str = "preset";
/// The id of `--list-presets`.
pub(super) const LIST_PRESETS: &str = "list-presets";
/// The id of `--explain`.
pub(super) const EXPLAIN: &str = "explain";
/// The id of `--completions`.
pub(super) const COMPLETIONS: &str = "completions";
/// The id of `--man`.
pub(super) const MAN: &str = "man";
/// What a bare `-v` stands for.
pub(super) const ONE_MORE: &str = "+";

/// The whole command line, with the options that most people use in front.
pub(super) fn command() -> Command {
    let command = by_topic();
    let (mut usual, others): (Vec<Arg>, Vec<Arg>) =
        command.get_arguments().cloned().partition(|argument| {
            let id = argument.get_id().as_str();
            help::USUAL.contains(&id)
        });
    let place = |argument: &Arg| {
        let id = argument.get_id().as_str();
        help::USUAL.iter().position(|usual| *usual == id)
    };
    usual.sort_by_key(place);
    let usual = usual.into_iter().enumerate().map(|(place, argument)| {
        argument
            .help_heading(help::USUAL_HEADING)
            .display_order(place)
    });
    // Headings are listed in the order in which they come up.
    frame()
        .args(usual)
        .args(others.into_iter().map(|argument| {
            let is_help = matches!(argument.get_id().as_str(), "help" | "version");
            let is_old = argument.get_help_heading() == Some(help::ORIGINAL_HEADING);
            argument.hide_short_help(!is_help).hide_long_help(is_old)
        }))
        .group(answers())
}

/// The command line without options.
fn frame() -> Command {
    Command::new("rsys-sample")
        .version(env!("CARGO_PKG_VERSION"))
        .about(help::short_introduction())
        .long_about(help::introduction())
        .override_usage("rsys-sample [OPTIONS] [--] COMMAND [ARGUMENTS]...")
        .after_help(help::MORE)
        .after_long_help(help::epilogue())
        .styles(Styles::styled())
        .max_term_width(110)
        .args_override_self(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
}

/// The whole command line, with each option under its topic.
pub(super) fn by_topic() -> Command {
    let mut command = frame().arg(
        Arg::new(COMMAND)
            .value_name("COMMAND")
            .num_args(0..)
            .trailing_var_arg(true)
            .value_parser(ValueParser::os_string())
            .hide(true),
    );
    for category in Category::ALL {
        let options = table::all()
            .filter(|setting| setting.category == category)
            .filter_map(|setting| Some((setting, setting.option.as_ref()?)));
        command = command
            .args(
                shorthands::all()
                    .filter(|row| row.category == category && !row.old)
                    .map(shorthand),
            )
            .args(options.map(|(setting, option)| argument(setting, option)));
    }
    let old = shorthands::all().filter(|row| row.old).map(shorthand);
    command
        .args(whole_sets())
        .args(questions())
        .args(old.map(|argument| argument.help_heading(help::ORIGINAL_HEADING)))
        .group(answers())
}

/// Options whose answers are also there as JSON.
fn answers() -> ArgGroup {
    ArgGroup::new("answer").args([DOCTOR, DUMP]).multiple(true)
}

/// Options that set many settings, or any.
fn process_id(word: &str) -> Result<u32, String> {
    let pid = word.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "not the id of a process; pgrep NAME finds it".to_owned())
}

fn whole_sets() -> [Arg; 4] {
    [
        Arg::new(PID)
            .short('p')
            .long("pid")
            .value_name("PID")
            .value_parser(process_id)
            .help("Record a process that runs already, until it ends, -d is over, or Ctrl-C")
            .long_help(
                "Record a process that runs already, in place of a command: until it ends, the time of -d is over, or rsys-sample gets Ctrl-C or \
                 SIGTERM. The process goes on then as before. docs/attach.md says what can be recorded so, and what it needs.",
            )
            .help_heading(Category::General.title()),
        Arg::new(SET)
            .long("set")
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .help("Set any setting by its name")
            .long_help(
                "Set any setting by its name, also those without an option of their own: --set TIME_FORMAT=%j. A setting may also be written \
                 as an option itself: --time-format=%j.",
            )
            .help_heading(Category::General.title()),
        Arg::new(QUIET)
            .short('q')
            .long("quiet")
            .action(ArgAction::SetTrue)
            .conflicts_with("VERBOSE")
            .help("Print nothing but errors: the same as --verbose=-1")
            .help_heading(Category::Diagnostics.title()),
        Arg::new(PRESET)
            .long("preset")
            .value_name("NAME")
            .help("Start from a named set of values, or from a configuration file; other options win")
            .long_help(
                "Start from a named set of values: --list-presets lists them, --explain=NAME says what one sets. A name that is not \
                 known there is looked for as NAME, NAME.cfg, NAME.toml, NAME.json and NAME.xml in the folder that RSYS_PRESET_DIR \
                 names; with a `/` or an extension it is the path of a configuration file. Other options win over a preset; a \
                 preset wins over environment and files.",
            )
            .help_heading(Category::General.title()),
    ]
}

/// Options that are answered; nothing is run.
fn questions() -> Vec<Arg> {
    let flag = |id: &'static str, help: &'static str| {
        Arg::new(id)
            .long(id)
            .action(ArgAction::SetTrue)
            .help(help)
            .help_heading("Help")
    };
    vec![
        flag(
            DRY_RUN,
            "Run nothing: print the command, where its traces would go, and all settings that are not at their default",
        ),
        flag(
            DOCTOR,
            "Run nothing: say what would be recorded here with these options, how well, and what helps; of a command or of a process \
             by its number, if there is one",
        ),
        flag(
            DEMO,
            "Record a small program that rsys brings, on the processor and on a GPU, which is simulated where there is none; other options change how",
        ),
        Arg::new(DUMP)
            .long("dump")
            .value_name("PID")
            .value_parser(clap::value_parser!(u32).range(1..))
            .value_delimiter(',')
            .action(ArgAction::Append)
            .help("Print the stacks of all threads of a process that runs, native and Python, and what each waits for")
            .long_help(
                "Print the stacks of all threads of a process that runs, now: native and Python frames, what each thread does or waits for, who holds it, \
                 and its CPU time. Nothing enters the process; threads that run are stopped for a moment. Several processes: --dump 4711,4712. \
                 docs/dump.md says more.",
            )
            .help_heading("Help"),
        flag(JSON, "With --doctor or --dump: the answer as JSON").requires("answer"),
        Arg::new(EXPORT_CONFIG)
            .long("export-config")
            .value_name("FILE")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("")
            .help("Run nothing: write the settings as they are now to a configuration file, or print them")
            .long_help(
                "Run nothing: write the settings as they are now to a configuration file. Its extension says in which form: .cfg, \
                 .toml, .json or .xml. A file that exists is not overwritten. Without a file they are printed.",
            )
            .help_heading("Help"),
        flag(LIST_PRESETS, "Print the names for --preset"),
        Arg::new(EXPLAIN)
            .long("explain")
            .value_name("NAME")
            .help("Say what a preset sets, and why")
            .help_heading("Help"),
        flag(LIST_KEYS, "Print the keys that output paths may hold"),
        Arg::new(COMPLETIONS)
            .long("completions")
            .value_name("SHELL")
            .value_parser(clap::value_parser!(clap_complete::Shell))
            .help("Print completions for a shell")
            .help_heading("Help"),
        flag(MAN, "Print the manual page, for man -l"),
        Arg::new("help")
            .short('h')
            .short_alias('?')
            .long("help")
            .action(ArgAction::Help)
            .help("Print help: -h is short, --help is long, --help=TOPIC is about one group of options")
            .help_heading("Help"),
        Arg::new("version")
            .short('V')
            .long("version")
            .action(ArgAction::Version)
            .help("Print the version")
            .help_heading("Help"),
    ]
}

/// The option of a row of [`shorthands`].
fn shorthand(row: &'static Shorthand) -> Arg {
    let mut text = format!("{}.", row.summary);
    let settings = row.settings();
    text.push_str(if row.old {
        "\n[for old command lines"
    } else {
        "\n["
    });
    if !settings.is_empty() {
        let comma = if row.old { "; " } else { "" };
        let plural = if settings.len() == 1 { "" } else { "s" };
        text.push_str(&format!("{comma}setting{plural}: {}", settings.join(", ")));
    }
    if !row.aliases.is_empty() {
        text.push_str(&format!("; also --{}", row.aliases.join(", --")));
    }
    text.push(']');
    let mut argument = Arg::new(row.long)
        .long(row.long)
        .aliases(row.aliases)
        .help(row.summary)
        .long_help(text)
        .help_heading(row.category.title());
    if let Some(short) = row.short {
        argument = argument.short(short);
    }
    match row.takes {
        Takes::One(name) => argument.value_name(name),
        Takes::List(name) => argument.value_name(name).action(ArgAction::Append),
        Takes::Bool | Takes::Maybe(_) | Takes::MaybeList(_) => {
            let (name, action) = match row.takes {
                Takes::MaybeList(name) => (name, ArgAction::Append),
                Takes::Maybe(name) => (name, ArgAction::Set),
                _ => ("BOOL", ArgAction::Set),
            };
            argument
                .action(action)
                .value_name(name)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("")
        }
    }
}

/// The option of one setting.
fn argument(setting: &'static Setting, option: &'static CommandOption) -> Arg {
    let mut argument = Arg::new(setting.name)
        .long(option.long)
        .aliases(option.aliases)
        .help(short_help(setting))
        .long_help(long_help(setting, option))
        .help_heading(setting.category.title());
    if let Some(short) = option.short {
        argument = argument.short(short);
    }
    match setting.kind {
        Kind::Bool => argument
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        Kind::Int { .. } if setting.name == "VERBOSE" => argument
            .value_name(option.value_name)
            .action(ArgAction::Append)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value(ONE_MORE),
        Kind::Backends | Kind::PathList | Kind::Numbers { .. } | Kind::Periods => argument
            .value_name(option.value_name)
            .action(ArgAction::Append),
        _ if is_list(option.long) => argument
            .value_name(option.value_name)
            .action(ArgAction::Append),
        Kind::Text if setting.name == "CPU_EVENTS" => argument
            .value_name(option.value_name)
            .action(ArgAction::Append),
        _ => argument.value_name(option.value_name),
    }
}

fn short_help(setting: &Setting) -> StyledStr {
    let mut text = setting.summary.to_owned();
    if let Kind::Choice(choices) = setting.kind {
        let names: Vec<_> = choices.iter().map(|choice| choice.name).collect();
        let others = if setting.also_takes.is_empty() {
            ""
        } else {
            " (and the clocks of the original: see --help)"
        };
        text.push_str(&format!(": {}{others}", names.join(", ")));
    }
    if setting.kind == Kind::Backends {
        let names: Vec<_> = backends::BACKENDS
            .iter()
            .filter(|backend| backend.is_built())
            .map(|backend| backend.name)
            .collect();
        text.push_str(&format!(": {}", names.join(", ")));
    }
    let is_off = setting.kind == Kind::Bool && setting.default == "false";
    if !setting.default.is_empty() && !is_off {
        text.push_str(&format!(" [default: {}]", default_text(setting)));
    }
    text.into()
}

fn long_help(setting: &Setting, option: &CommandOption) -> StyledStr {
    let mut text = format!("{}.", setting.summary);
    if !setting.details.is_empty() {
        text.push(' ');
        text.push_str(setting.details);
    }
    match setting.kind {
        Kind::Choice(choices) => {
            for choice in choices {
                text.push_str(&format!("\n- {}: {}", choice.name, choice.help));
            }
            if !setting.also_takes.is_empty() {
                text.push_str(&format!("\nAlso {}.", setting.also_takes));
            }
            text.push('\n');
        }
        Kind::Backends => {
            let names: Vec<_> = backends::names().collect();
            text.push_str(&format!(" Names: {}.\n", names.join(" ")));
        }
        Kind::Int { .. }
        | Kind::Float { .. }
        | Kind::Seconds { .. }
        | Kind::SecondsOr { .. }
        | Kind::Numbers { .. } => {
            text.push_str(&format!(" Takes {}.\n", allowed_text(setting)));
        }
        _ => text.push('\n'),
    }
    text.push_str(&format!("[setting: {}", setting.name));
    if !setting.default.is_empty() {
        text.push_str(&format!("; default: {}", default_text(setting)));
    }
    if !option.aliases.is_empty() {
        text.push_str(&format!("; also --{}", option.aliases.join(", --")));
    }
    text.push(']');
    text.into()
}

fn default_text(setting: &Setting) -> String {
    format!("{} {}", setting.default, setting.unit())
        .trim_end()
        .to_owned()
}
