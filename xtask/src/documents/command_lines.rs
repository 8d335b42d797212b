//! Command lines that the pages show: each is read by the parser of the program that it calls, so that no page shows an option, a question
//! or a value that does not exist. Nothing is run.
//!
//! Read are blocks of code (between fences, or indented) and spans in backticks that begin with a program's name. A span may leave out what
//! a command line needs. Forms such as `rsys-sample [OPTIONS] COMMAND` are none.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use clap::Parser as _;
use clap::error::ErrorKind;
use rsys_config::{Environment, Sources};

use super::{are_code, is_page, reached_from, read, shell};
use crate::Arguments;
use crate::steps::workspace_dir;

/// A command line with the place that shows it.
#[derive(Debug)]
struct Shown {
    place: String,
    /// The program's name and its arguments.
    words: Vec<String>,
    /// Whether it is a span in a text, which may be a part of a command line.
    is_part: bool,
}

const PROGRAMS: [&str; 3] = ["rsys-sample", "rsys-report", "rsys-avail"];
/// How tasks are called here.
const TASK: [&str; 2] = ["cargo", "xtask"];

/// The command lines of a page.
fn shown(page: &str, text: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    for (number, (line, is_code)) in text.lines().zip(are_code(text)).enumerate() {
        let place = || format!("{page}:{}", number + 1);
        let parts: Vec<&str> = match is_code {
            true => vec![line],
            false => line.split('`').skip(1).step_by(2).collect(),
        };
        for part in parts.into_iter().filter(|part| !is_none(part)) {
            let commands = shell::commands(part).into_iter().filter_map(called);
            found.extend(commands.map(|words| Shown {
                place: place(),
                words,
                is_part: !is_code,
            }));
        }
    }
    found
}

/// Whether a piece of code is a form of command lines, or what our programs say.
fn is_none(part: &str) -> bool {
    let said = ["rsys: ", "note: "];
    part.contains("[OPTIONS]") || said.iter().any(|said| part.trim_start().starts_with(said))
}

/// What is called in a simple command, if it is ours: behind launchers and variables.
fn called(words: Vec<String>) -> Option<Vec<String>> {
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let ours = words.iter().position(|word| {
        let name = name(word);
        PROGRAMS.contains(&name.as_str())
    });
    let task = words.windows(2).position(|pair| pair == TASK);
    let place = ours.or(task)?;
    // `cargo build -p rsys-report` names a package.
    let is_package = place.checked_sub(1).is_some_and(|at| words[at] == "-p");
    let mut called = words[place..].to_vec();
    called[0] = name(&called[0]);
    (!is_package).then_some(called)
}

/// A word with values for the words that stand for a number in the pages.
fn filled_in(word: &str) -> String {
    const VALUES: [(&str, &str); 5] = [
        ("$SLURM_PROCID", "0"),
        ("$SLURM_NTASKS", "4"),
        ("PERCENT", "70"),
        ("PID", "4711"),
        ("TIME", "1s"),
    ];
    let mut text = word.to_owned();
    // Names of settings have such parts.
    for (name, value) in VALUES
        .iter()
        .filter(|(name, _)| name.contains('$') || !word.contains('_'))
    {
        text = text.replace(name, value);
    }
    text
}

/// A command line for each of the values that a word such as `operator|shapes|rank` offers.
fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    let mut lines = vec![Vec::new()];
    for word in words {
        let offered: Vec<String> = word.split('|').map(filled_in).collect();
        // A query or a pattern is one word.
        let offered = match offered.iter().all(|one| is_name(one)) {
            true => offered,
            false => vec![filled_in(word)],
        };
        let longer = lines.iter().flat_map(|line: &Vec<String>| {
            offered.iter().map(move |one| {
                let mut line = line.clone();
                line.push(one.clone());
                line
            })
        });
        lines = longer.collect();
    }
    lines
}

fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|sign| sign.is_alphanumeric() || sign == '-')
}

/// The parsers of our programs.
struct Parsers {
    sample: rsys_sampler::cli::Parser,
    report: clap::Command,
    avail: rsys_avail::Options,
}

impl Parsers {
    fn new() -> Self {
        Self {
            sample: rsys_sampler::cli::Parser::new(),
            report: rsys_report::command(),
            avail: rsys_avail::Options::default(),
        }
    }

    /// What is wrong with a command line.
    fn fault(&mut self, shown: &Shown) -> Option<String> {
        let faults = alternatives(&shown.words).into_iter().filter_map(|words| {
            let fault = match words[0].as_str() {
                "rsys-sample" => self.fault_of_sample(&words[1..], shown.is_part),
                "rsys-report" => self.fault_of_report(&words, shown.is_part),
                "rsys-avail" => told(
                    self.avail.check(words.iter().map(OsString::from)),
                    shown.is_part,
                ),
                _ => told(
                    Arguments::try_parse_from(&words[1..]).map(drop),
                    shown.is_part,
                ),
            };
            fault.map(|fault| format!("{}: {}: {fault}", shown.place, words.join(" ")))
        });
        let faults: Vec<String> = faults.collect();
        (!faults.is_empty()).then(|| faults.join("\n"))
    }

    fn fault_of_sample(&mut self, words: &[String], is_part: bool) -> Option<String> {
        let mut words = without_files(words);
        let sources = Sources::without_files(Environment::default());
        let mut parse = |words: &[OsString]| match self.sample.parse(words.to_vec(), &sources) {
            Err(exit) if exit.code != 0 => Some(exit.to_string()),
            Ok(_) | Err(_) => None,
        };
        let fault = parse(&words)?;
        if !is_part {
            return Some(fault);
        }
        if fault.contains(NO_VALUE) {
            return None;
        }
        words.extend(["--".into(), "./app".into()]);
        parse(&words)
    }

    fn fault_of_report(&mut self, words: &[String], is_part: bool) -> Option<String> {
        let matches = match self.report.try_get_matches_from_mut(words) {
            Ok(matches) => matches,
            Err(error) => return told(Err(error), is_part),
        };
        // Without a question, the first word is an input: a path or a name for one, not a word that might have been a question.
        let is_question = |word: &&String| word.chars().all(|sign| sign.is_ascii_lowercase());
        let first = words.get(1).filter(is_question);
        match (matches.subcommand_name(), first) {
            (None, Some(word)) => Some(format!("there is no question {word}")),
            _ => None,
        }
    }
}

/// What clap says of an option without its value: `--for` in a text is the name of the option.
const NO_VALUE: &str = "none was supplied";

/// What a parser of clap has against a command line. A part of one may lack words.
fn told(result: Result<(), clap::Error>, is_part: bool) -> Option<String> {
    let error = result.err()?;
    let is_harmless = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => is_part,
        ErrorKind::InvalidValue => is_part && error.to_string().contains(NO_VALUE),
        // A file that an option reads at once: a reader has one.
        ErrorKind::ValueValidation => error.to_string().contains("No such file or directory"),
        _ => false,
    };
    (!is_harmless).then(|| error.to_string())
}

/// The options of `rsys-sample` without the files that it would read or write at once.
fn without_files(words: &[String]) -> Vec<OsString> {
    let end = words.iter().position(|word| word == "--");
    let (options, command) = words.split_at(end.unwrap_or(words.len()));
    let mut kept = Vec::new();
    let mut before = "";
    for word in options {
        let is_file = word.contains('.');
        match before {
            "-c" | "--config" if is_file => kept.push("none".into()),
            "--export-config" if is_file => {}
            _ => kept.push(OsString::from(word)),
        }
        before = word;
    }
    kept.extend(command.iter().map(OsString::from));
    kept
}

#[test]
fn command_lines_of_the_pages_are_understood() -> Result<()> {
    let root = workspace_dir();
    let mut pages = reached_from(&root, "README.md")?;
    pages.insert("packaging/wheel/README.md".into());
    let mut parsers = Parsers::new();
    let mut faults = Vec::new();
    let (mut lines, mut parts) = (0, 0);
    for page in pages.iter().filter(|page| is_page(page)) {
        for shown in shown(&page.display().to_string(), &read(&root, page)?) {
            match shown.is_part {
                true => parts += 1,
                false => lines += 1,
            }
            faults.extend(parsers.fault(&shown));
        }
    }
    assert!(
        lines > 150 && parts > 100,
        "only {lines} lines and {parts} parts were found"
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

#[test]
fn what_does_not_exist_is_found() {
    let faults = |text: &str| -> Vec<String> {
        let mut parsers = Parsers::new();
        let shown = shown("page.md", text);
        assert!(!shown.is_empty(), "nothing is called in {text}");
        let faults = shown.iter().filter_map(|shown| parsers.fault(shown));
        faults.collect()
    };
    for wrong in [
        "    srun rsys-sample --realtim -- ./a",
        "    rsys-sample --follow exce -- ./a",
        "    rsys-sample -I rocn -- ./a",
        "    rsys-report kernells DIR",
        "    rsys-report kernels --by griddle DIR",
        "    rsys-report efficiency --by operator|shape DIR",
        "    rsys-report html DIR                 # a page needs a name",
        "    rsys-avail --doktor",
        "    bash -c 'rsys-report colectives JOB --parts $PARTS'",
        "    cargo xtask demonstrate",
        "Ask `rsys-report gaps --by-line`.",
        "Take `rsys-sample --unwinder dwarf`.",
    ] {
        assert_eq!(faults(wrong).len(), 1, "{wrong}");
    }
    for good in [
        "    A=1 srun -n 2 rsys-sample -I rocm -- ./a | tee log   # --not-ours",
        "    rsys-report efficiency --by operator|shapes --target PERCENT DIR > file",
        "    rsys-report query DIR 'select a || b from c; -- d'",
        "    x=$(rsys-report view --ui fetch) && rsys-avail -H",
        "Ask `rsys-report merge`, and `rsys-sample --split`.",
    ] {
        assert_eq!(faults(good), [""; 0], "{good}");
    }
    assert!(
        shown(
            Path::new("p").to_str().unwrap_or(""),
            "    rsys-sample [OPTIONS] x"
        )
        .is_empty()
    );
}
