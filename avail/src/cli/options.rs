//! The options, group by group.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{Styles, ValueParser};
use clap::{Arg, ArgAction, Command};

/// The options.
pub fn command() -> Command {
    Command::new("rsys-avail")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Lists settings, components and counters, and writes configuration files")
        .override_usage("rsys-avail [OPTIONS] [REGEX]...")
        .after_help(EXAMPLES)
        .styles(Styles::styled())
        .max_term_width(110)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .args(information())
        .args(filtering())
        .args(columns())
        .args(output())
        .args([
            flag(
                "monochrome",
                None,
                "Output",
                "No colours, not even on a terminal",
            ),
            // Nothing here has more to say; old command lines run as they are.
            flag("debug", None, "Output", "Accepted for old scripts").hide(true),
            Arg::new("verbose")
                .long("verbose")
                .num_args(0..=1)
                .value_parser(ValueParser::string())
                .hide(true),
            Arg::new("completions")
                .long("completions")
                .value_name("SHELL")
                .value_parser(clap::value_parser!(clap_complete::Shell))
                .help("Print completions for a shell")
                .help_heading("Help"),
            flag("man", None, "Help", "Print the manual page, for man -l"),
            Arg::new("help")
                .short('h')
                .long("help")
                .visible_short_alias('?')
                .action(ArgAction::Help)
                .help("Print this help")
                .help_heading("Help"),
            Arg::new("version")
                .short('V')
                .long("version")
                .action(ArgAction::Version)
                .help("Print the version")
                .help_heading("Help"),
            Arg::new("REGEX_FILTER")
                .num_args(0..)
                .value_name("REGEX")
                .help("The same as -r REGEX"),
        ])
}

const EXAMPLES: &str = "\
Examples:
  rsys-avail                        settings with their current values
  rsys-avail -d freq                those about 'freq', fully described
  rsys-avail -H -A                  counters that can be used here
  rsys-avail -H -c GPU --json       GPU counters and sensors, for a program
  rsys-avail --for ./app            what it loads of ROCm, and what rsys sees of it
  rsys-avail --doctor ./app         what would be recorded of it here, how well, and what helps
  rsys-avail -G my.cfg -d           write a configuration with descriptions

Exit status: 0, or 2 when an option, a setting or a file is wrong; of --doctor also 1, when something is missing that the
settings ask for.";

fn flag(name: &'static str, short: Option<char>, heading: &'static str, help: &'static str) -> Arg {
    let argument = Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
        .help_heading(heading);
    match short {
        Some(short) => argument.short(short),
        None => argument,
    }
}

/// Reads `--flag=BOOL`, as it could always be written: a flag that is switched off goes away.
pub(super) fn without_value(command: &Command, word: OsString) -> Option<OsString> {
    let flag = word.to_str().and_then(|text| text.split_once('='));
    let Some((flag, value)) = flag else {
        return Some(word);
    };
    let is_flag = command.get_arguments().any(|argument| {
        let named = |name: &str| flag.strip_prefix("--") == Some(name);
        let letter = |letter: char| flag.strip_prefix('-') == Some(letter.encode_utf8(&mut [0; 4]));
        matches!(argument.get_action(), ArgAction::SetTrue)
            && (argument.get_long().is_some_and(named)
                || argument.get_short().is_some_and(letter)
                || argument.get_all_aliases().into_iter().flatten().any(named))
    });
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" | "t" | "y" if is_flag => Some(OsString::from(flag)),
        "false" | "off" | "no" | "0" | "f" | "n" if is_flag => None,
        _ => Some(word),
    }
}

fn information() -> Vec<Arg> {
    let flag = |name, short, help| flag(name, short, "What to list", help);
    vec![
        flag(
            "settings",
            Some('S'),
            "Settings with their current values (the default)",
        )
        .alias("print-settings"),
        flag(
            "components",
            Some('C'),
            "What can be recorded, and why the rest cannot",
        )
        .alias("print-components"),
        flag(
            "hw-counters",
            Some('H'),
            "Counters of processor, kernel and GPU, each tried out",
        )
        .alias("print-hw-counters"),
        flag("all", Some('a'), "All three, with all columns"),
        flag(
            "advanced",
            None,
            "Also what few users need: advanced settings, tracepoints",
        ),
        flag(
            "runtimes",
            None,
            "Which runtimes of ROCm are installed, which versions, and where",
        ),
        Arg::new("for")
            .long("for")
            .value_name("PROGRAM")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Which of them PROGRAM would load, and how its GPU work would be recorded")
            .help_heading("What to list"),
        Arg::new("doctor")
            .long("doctor")
            .num_args(0..=1)
            .value_name("PID|PROGRAM")
            .value_parser(clap::value_parser!(PathBuf))
            .help("What would be recorded here with these settings, how well, and what helps")
            .help_heading("What to list"),
        flag("list-categories", None, "The names for -c"),
        flag("list-keys", None, "The keys that output paths may hold"),
        flag(
            "expand-keys",
            None,
            "With --list-keys: what they stand for now",
        ),
    ]
}

fn filtering() -> Vec<Arg> {
    let heading = "Which rows";
    let flag = |name, short, help| flag(name, short, heading, help);
    let list = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .num_args(1..)
            .action(ArgAction::Append)
            .value_name(value)
            .help(help)
            .help_heading(heading)
    };
    vec![
        list(
            "filter",
            "REGEX",
            "Rows that match any of these; '~REGEX' takes rows away",
        )
        .short('r'),
        list(
            "category-filter",
            "REGEX",
            "The same for the names of categories",
        )
        .short('R'),
        list(
            "categories",
            "CATEGORY",
            "Rows of these categories; alone, shows the column of categories",
        )
        .num_args(0..)
        .short('c'),
        flag(
            "ignore-case",
            Some('i'),
            "REGEX with capitals finds small letters too",
        ),
        flag("available", Some('A'), "Only what is available here"),
        flag(
            "highlight",
            Some('p'),
            "Mark what was found (on a terminal)",
        )
        .alias("hl"),
        flag("alphabetical", None, "Sorted by name"),
    ]
}

fn columns() -> Vec<Arg> {
    let heading = "Which columns";
    let flag = |name, short, help| flag(name, short, heading, help);
    let width = |name: &'static str, short, help: &'static str| {
        Arg::new(name)
            .long(name)
            .short(short)
            .value_name("N")
            .value_parser(clap::value_parser!(usize))
            .help(help)
            .help_heading(heading)
    };
    vec![
        flag("brief", Some('b'), "Without values and availability"),
        flag(
            "description",
            Some('d'),
            "With the whole description; also in files of -G",
        ),
        flag(
            "value",
            Some('v'),
            "With types, defaults and where values came from",
        ),
        flag(
            "string",
            Some('s'),
            "With other names: options, aliases, numbers",
        ),
        flag("filename", Some('f'), "With the files that are written"),
        width(
            "column-width",
            'w',
            "Columns of N characters at most; 0 for no limit",
        ),
        width(
            "max-total-width",
            'W',
            "Lines of N characters; 0 for no limit [default: the terminal's]",
        ),
    ]
}

fn output() -> Vec<Arg> {
    let heading = "Output";
    let flag = |name, short, help| flag(name, short, heading, help);
    let path = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help(help)
            .help_heading(heading)
    };
    vec![
        path(
            "generate-config",
            "Write a configuration file with the current values [default: rsys-config]",
        )
        .short('G')
        .num_args(0..=1),
        Arg::new("config-format")
            .long("config-format")
            .short('F')
            .num_args(1..=4)
            .value_parser(["txt", "toml", "json", "xml"])
            .value_name("FORMAT")
            .help("Its formats; FILE's extension is one too [default: txt]")
            .help_heading(heading),
        flag("force", None, "Replace files that exist"),
        path("output", "Write the list to FILE instead of the terminal").short('O'),
        flag("csv", None, "Values separated by commas").conflicts_with_all(["markdown", "json"]),
        Arg::new("csv-separator")
            .long("csv-separator")
            .value_name("TEXT")
            .help("The same with another separator")
            .help_heading(heading)
            .conflicts_with_all(["markdown", "json"]),
        flag("json", None, "JSON, with all columns").conflicts_with("markdown"),
        flag("markdown", Some('M'), "Tables in Markdown"),
        Arg::new("tag")
            .long("tag")
            .short('t')
            .value_name("NAME")
            .help("With --expand-keys: what %tag% stands for")
            .help_heading(heading),
        Arg::new("set")
            .long("set")
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .help("With this value of a setting, over files and environment")
            .help_heading(heading),
        path(
            "gpu-counters",
            "Read GPU counter definitions from FILE (yaml or xml), not from the installed ROCm",
        )
        .action(ArgAction::Append),
    ]
}
