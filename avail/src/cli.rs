//! The command line: the original's options with their old spellings, and `--json`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{Styles, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use rsys_config::generate::{self, Format};
use rsys_config::table::Category;

use crate::filter::{Choice, Filter};
use crate::table::{Cell, Column, Table};
use crate::{components, counters};

/// What the user asked for.
#[derive(Debug)]
pub struct Request {
    /// Completions or a manual page, to be printed instead of anything else.
    pub about_itself: Option<String>,
    /// The tables to print.
    pub views: Vec<View>,
    /// The file to write instead.
    pub generate: Option<Generation>,
    /// What goes into that file beside the values.
    pub comments: generate::Choice,
    /// Which rows to print.
    pub filter: Filter,
    /// In which form.
    pub form: Form,
    /// Into which file; standard output if none.
    pub output: Option<PathBuf>,
    /// Which columns to print.
    pub columns: Columns,
    /// Also what few users need.
    pub advanced: bool,
    /// Path keys with their values.
    pub expand_keys: bool,
    /// What `%tag%` shall stand for.
    pub tag: Option<String>,
    /// Files of GPU counter definitions instead of the installed ones.
    pub gpu_counters: Vec<PathBuf>,
    /// No colours.
    pub monochrome: bool,
    /// Mark what the filter found.
    pub highlight: bool,
    /// Characters of a column, at most.
    pub column_width: Option<usize>,
    total_width: Option<usize>,
}

/// A table to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// `-S`.
    Settings,
    /// `-C`.
    Components,
    /// `-H`.
    Counters,
    /// `--list-keys`.
    Keys,
    /// `--list-categories`.
    Categories,
}

/// `-G`: a file to write.
#[derive(Debug)]
pub struct Generation {
    /// Its name; an extension is added where it has none.
    pub file: PathBuf,
    /// In which formats, each a file of its own.
    pub formats: Vec<Format>,
    /// Whether an existing file may be replaced.
    pub force: bool,
}

/// Columns beyond those that are always there.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one option")]
pub struct Columns {
    /// No values, no availability.
    pub brief: bool,
    /// The whole description.
    pub description: bool,
    /// Types, defaults, origins.
    pub value: bool,
    /// Other names.
    pub string: bool,
    /// Output files.
    pub filename: bool,
    /// Categories.
    pub category: bool,
}

/// The form of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// For the eye.
    Text,
    /// Tables in Markdown.
    Markdown,
    /// Values with this text between two.
    Csv(String),
    /// JSON.
    Json,
}

impl Request {
    /// Characters of a line: as asked, else as the terminal has, else without limit.
    pub fn width(&self, is_terminal: bool) -> Option<usize> {
        match self.total_width {
            Some(0) => None,
            Some(width) => Some(width),
            None if is_terminal => {
                terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
            }
            None => None,
        }
    }
}

/// Reads the arguments, of which the first is the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, clap::Error> {
    let mut command = command();
    let words: Vec<OsString> = arguments
        .into_iter()
        .filter_map(|word| without_value(&command, word))
        .collect();
    let matches = command.try_get_matches_from_mut(words)?;
    request(&matches).map_err(|error| command.error(ErrorKind::InvalidValue, format!("{error:#}")))
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
    let chosen = categories(&words("categories"), &asked)?;
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
        category: all || matches.contains_id("categories"),
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
        column_width: number("column-width").filter(|width| *width > 0),
        total_width: number("max-total-width"),
    })
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
            .ok_or_else(|| anyhow::anyhow!("'{name}' is no format of configuration files"))?;
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

/// All categories by table, as `-c` takes them.
fn all_categories() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<(&str, &str)> = Category::ALL
        .iter()
        .map(|category| ("settings", category.title()))
        .collect();
    all.push(("settings", crate::settings::ORIGINAL));
    all.extend(components::CATEGORIES.map(|name| ("components", name)));
    all.extend(counters::CATEGORIES.map(|name| ("counters", name)));
    all
}

/// The table for `--list-categories`.
pub fn category_table() -> Table {
    Table {
        name: "categories",
        title: "Categories for -c",
        columns: vec![Column::new("name", true)],
        rows: all_categories()
            .iter()
            .map(|(table, name)| vec![Cell::text(format!("{}::{name}", spoken(table)))])
            .collect(),
        notes: Vec::new(),
    }
}

/// The original's word for a table in `-c`.
fn spoken(table: &str) -> &str {
    match table {
        "components" => "component",
        "counters" => "hw_counters",
        other => other,
    }
}

/// Gives each name the table that it belongs to; where there are several, those that are asked for come first.
fn categories(words: &[String], asked: &[&str]) -> anyhow::Result<Vec<String>> {
    let all = all_categories();
    words
        .iter()
        .flat_map(|word| word.split(','))
        .map(|word| {
            let (table, name) = match word.split_once("::") {
                Some((table, name)) => (Some(table), name),
                None => (None, word),
            };
            let mut fitting: Vec<_> = all
                .iter()
                .filter(|(other, category)| {
                    let in_table = table.is_none_or(|table| {
                        table.eq_ignore_ascii_case(other)
                            || table.eq_ignore_ascii_case(spoken(other))
                    });
                    in_table && category.eq_ignore_ascii_case(name)
                })
                .collect();
            if fitting.iter().any(|(table, _)| asked.contains(table)) {
                fitting.retain(|(table, _)| asked.contains(table));
            }
            match fitting.as_slice() {
                [(table, category)] => Ok(format!("{table}::{category}")),
                [] => Err(anyhow::anyhow!("{}", unknown_category(word, name, &all))),
                several => {
                    let names: Vec<String> = several
                        .iter()
                        .map(|(table, category)| format!("{}::{category}", spoken(table)))
                        .collect();
                    Err(anyhow::anyhow!(
                        "category '{word}' is in more than one table; write one of {}",
                        names.join(", ")
                    ))
                }
            }
        })
        .collect()
}

fn unknown_category(word: &str, name: &str, all: &[(&str, &str)]) -> String {
    let nearest = all
        .iter()
        .map(|(table, category)| {
            let likeness = strsim::jaro_winkler(&name.to_lowercase(), &category.to_lowercase());
            (likeness, format!("{}::{category}", spoken(table)))
        })
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|left, right| left.0.total_cmp(&right.0));
    let hint = nearest.map_or_else(String::new, |(_, name)| format!(" Did you mean '{name}'?"));
    format!(
        "unknown category '{word}'.{hint} '--list-categories' lists all; a regular expression goes after -r"
    )
}

/// The options.
fn command() -> Command {
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
  rsys-avail -G my.cfg -d           write a configuration with descriptions

Exit status: 0, or 2 when an option, a setting or a file is wrong.";

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
fn without_value(command: &Command, word: OsString) -> Option<OsString> {
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
        path(
            "gpu-counters",
            "Read GPU counter definitions from FILE (yaml or xml), not from the installed ROCm",
        )
        .action(ArgAction::Append),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        let words = line.split_whitespace().map(OsString::from);
        parse(std::iter::once(OsString::from("rsys-avail")).chain(words))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_option_of_the_original_is_known() {
        command().debug_assert();
        let lines = [
            "--monochrome --debug --verbose 2 -S",
            "--settings --print-settings",
            "-C -A -r fork$ ~x -i",
            "--print-components",
            "-H --print-hw-counters -c CPU",
            "-a --advanced",
            "--list-categories",
            "--list-keys --expand-keys -t name",
            "-R sampling --alphabetical --hl",
            "-bd -p -r FREQ",
            "-Sbdvsf",
            "-S -c settings::Sampling --brief=false",
            "-w 30 -W 0",
            "-G x.cfg -F txt json xml --force -d",
            "-G -O x.cfg --all",
            "-M",
            "--csv --csv-separator ;",
            "--settings=true --components=off",
            "some regex",
        ];
        for line in lines {
            parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn tables_follow_from_options_and_categories() {
        let cases = [
            ("", vec![View::Settings]),
            ("-CH", vec![View::Components, View::Counters]),
            ("-c hw_counters::GPU", vec![View::Counters]),
            ("-H -c GPU", vec![View::Counters]),
            ("-c sampling", vec![View::Settings]),
            ("-S=false", vec![View::Settings]),
            ("--list-keys", vec![View::Keys]),
            ("-a", vec![View::Settings, View::Components, View::Counters]),
        ];
        for (line, views) in cases {
            assert_eq!(parsed(line).expect(line).views, views, "{line}");
        }
    }

    #[test]
    fn formats_come_from_extension_and_option() {
        let cases = [
            ("-G a.cfg", vec![Format::Text]),
            ("-G a.json", vec![Format::Json]),
            ("-G a.toml -F xml", vec![Format::Toml, Format::Xml]),
            ("-G -F txt json", vec![Format::Text, Format::Json]),
            ("-G a.xyz", vec![Format::Text]),
        ];
        for (line, formats) in cases {
            let generation = parsed(line).expect(line).generate.expect(line);
            assert_eq!(generation.formats, formats, "{line}");
        }
    }

    #[test]
    fn mistakes_name_the_nearest() {
        let cases = [
            ("-c samplng", "settings::Sampling"),
            ("-c hw_counters::CPUs", "hw_counters::CPU"),
            ("-c nonsense", "--list-categories"),
            ("-c gpu", "hw_counters::GPU"),
            ("-r (", "not a regular expression"),
            ("--setings", "--settings"),
            ("--csv -M", "cannot be used with"),
            ("-w many", "many"),
            ("-G x -F yaml", "toml"),
        ];
        for (line, expected) in cases {
            let error = parsed(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
