//! The options and their help, made from the table of settings.

use clap::builder::{StyledStr, Styles, ValueParser};
use clap::{Arg, ArgAction, Command};
use rsys_config::documents::allowed_text;
use rsys_config::table::{self, Category, CommandOption, Kind, Setting};
use rsys_config::{backends, keys};

/// The id of the words of the command.
pub(super) const COMMAND: &str = "command";
/// The id of `-q`.
pub(super) const QUIET: &str = "quiet";
/// The id of `--list-keys`.
pub(super) const LIST_KEYS: &str = "list-keys";
/// The id of `--dry-run`.
pub(super) const DRY_RUN: &str = "dry-run";
/// The id of `--export-config`.
pub(super) const EXPORT_CONFIG: &str = "export-config";
/// What a bare `-v` stands for.
pub(super) const ONE_MORE: &str = "+";

/// The whole command line.
pub(super) fn command() -> Command {
    let mut command = Command::new("rsys-sample")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs a program and writes where its time goes as Perfetto traces")
        .long_about(introduction())
        .override_usage("rsys-sample [OPTIONS] [--] COMMAND [ARGUMENTS]...")
        .after_help("'--help' tells more, with examples.")
        .after_long_help(epilogue())
        .styles(Styles::styled())
        .max_term_width(110)
        .args_override_self(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(
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
        command = command.args(options.map(|(setting, option)| argument(setting, option)));
    }
    command.args([
        Arg::new(QUIET)
            .short('q')
            .long("quiet")
            .action(ArgAction::SetTrue)
            .conflicts_with("VERBOSE")
            .help("Print nothing but errors: the same as --verbose=-1")
            .help_heading(Category::Diagnostics.title()),
        Arg::new(DRY_RUN)
            .long("dry-run")
            .action(ArgAction::SetTrue)
            .help("Run nothing: print the command, and all settings that are not at their default")
            .hide_short_help(true)
            .help_heading("Help"),
        Arg::new(EXPORT_CONFIG)
            .long("export-config")
            .action(ArgAction::SetTrue)
            .help("Run nothing: print a configuration file with the settings as they are now")
            .hide_short_help(true)
            .help_heading("Help"),
        Arg::new(LIST_KEYS)
            .long("list-keys")
            .action(ArgAction::SetTrue)
            .help("Print the keys that output paths may hold")
            .hide_short_help(true)
            .help_heading("Help"),
        Arg::new("help")
            .short('h')
            .long("help")
            .action(ArgAction::Help)
            .help("Print help: -h is short, --help is long")
            .help_heading("Help"),
        Arg::new("version")
            .short('V')
            .long("version")
            .action(ArgAction::Version)
            .help("Print the version")
            .help_heading("Help"),
    ])
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
        Kind::Backends | Kind::PathList => argument
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
            text.push('\n');
        }
        Kind::Backends => {
            let names: Vec<_> = backends::names().collect();
            text.push_str(&format!(" Names: {}.\n", names.join(" ")));
        }
        Kind::Int { .. } | Kind::Float { .. } | Kind::Seconds { .. } => {
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

fn introduction() -> StyledStr {
    let heading = *Styles::styled().get_header();
    format!(
        "Runs a program and writes where its time goes as Perfetto traces: one per process of its tree.\n\n\
         The program is not changed and needs no recompilation; it prints, returns and receives signals as without rsys-sample. \
         Open the traces in https://ui.perfetto.dev.\n\n\
         {heading}Examples:{heading:#}\n{EXAMPLES}"
    )
    .into()
}

const EXAMPLES: &str = "  \
  rsys-sample -- python3 train.py            a program and all that it starts
  rsys-sample ./solver -n 100                '--' may be left out
  rsys-sample -f 1000 -o traces -- ./solver  1000 Hz; traces go to ./traces
  rsys-sample -c my.cfg -I roctracer -- ./a  settings from a file, one backend
  rsys-sample --follow none -- make -j4      the command without its children
  srun -n 4 rsys-sample -- ./mpi_program     each rank writes its own trace";

/// What follows the options in the long help; no line is longer than 80 characters.
fn epilogue() -> StyledStr {
    let heading = *Styles::styled().get_header();
    let key_rows = key_rows();
    let sections = [
        ("Where the command begins", BEGINNING),
        (
            "Keys in --output, --output-prefix and --trace-file",
            key_rows.trim_end(),
        ),
        ("Exit status", EXIT_STATUS),
        ("Environment", ENVIRONMENT),
        ("Files", FILES),
    ];
    let sections: Vec<String> = sections
        .iter()
        .map(|(title, body)| format!("{heading}{title}:{heading:#}\n{body}"))
        .collect();
    sections.join("\n\n").into()
}

/// The keys for output paths, one per line.
pub(super) fn key_rows() -> String {
    keys::KEYS
        .iter()
        .map(|(key, meaning)| format!("  {key:<26}{meaning}\n"))
        .collect()
}

const BEGINNING: &str = "  \
  Options end at '--' or at the first word that is not an option. From there,
  every word belongs to the command. Names of backends after -I and -E may stand
  one after another; such a list ends at the first word that names no backend.
  So may files after -c: 'none', or names that end in .cfg, .conf, .toml, .json
  or .xml.";

const EXIT_STATUS: &str = "  \
  The command's own. If a signal ended it, rsys-sample ends by the same signal.
  2    an option or a setting is wrong; the command was not run
  125  rsys-sample itself failed
  126  the command was found but cannot be executed
  127  the command was not found";

const ENVIRONMENT: &str = "  \
  RSYS_<SETTING>   sets any setting, for example RSYS_SAMPLING_FREQ=100; without
                   it, ROCPROFSYS_<SETTING> and OMNITRACE_<SETTING> count
  NO_COLOR         switches colours off, like --monochrome
  Options win over the environment, and the environment wins over files.";

const FILES: &str = "  \
  ~/.rsys.cfg, ~/.rocprof-sys.cfg, ~/.rocprofiler-systems.cfg
                   read where they exist, unless -c or RSYS_CONFIG_FILE names
                   others; the first of them wins. They hold lines KEY = value,
                   TOML, JSON or XML; rsys-avail -G writes one. -c none reads
                   no file; -v says what was read.";
