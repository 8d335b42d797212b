//! Questions that are answered without running anything.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::ArgMatches;
use rsys_config::{Environment, Origin, Settings, generate, presets};

use super::command;
use super::completions;
use super::early_exit::CliExit;
use super::help;
use crate::jobs::place::Place;
use crate::launch::command as program;
use crate::plan::Plan;
use crate::run::layout::FileId;

/// What `--help=TOPIC` asks for, if it is one of the options.
pub(super) fn help_about(words: &[OsString]) -> Option<CliExit> {
    let topic = words
        .iter()
        .find_map(|word| word.to_str()?.strip_prefix("--help="))?;
    let mut options = command::by_topic();
    if matches!(topic, "" | "all") {
        return Some(CliExit::answer(options.render_long_help()));
    }
    let wanted = topic.to_ascii_lowercase();
    let fits = |heading: &str| heading.to_ascii_lowercase().contains(&wanted);
    let headings: Vec<String> = options
        .get_arguments()
        .filter_map(|argument| argument.get_help_heading().map(str::to_owned))
        .collect();
    if !headings.iter().any(|heading| fits(heading)) {
        let text = format!(
            "no help about '{topic}'; write --help=all, or --help= and one of: {}",
            help::TOPICS.join(", ")
        );
        return Some(CliExit::error(&text));
    }
    options = options
        .mut_args(|argument| {
            let is_wanted = argument.get_help_heading().is_some_and(fits);
            argument.hide(!is_wanted)
        })
        .long_about("")
        .about("")
        .after_long_help("'--help' lists the options of all topics.");
    Some(CliExit::answer(options.render_long_help()))
}

/// Answers that need no settings.
pub(super) fn without_settings(matches: &ArgMatches, monochrome: bool) -> Option<CliExit> {
    if matches.get_flag(command::LIST_KEYS) {
        return Some(CliExit::answer(help::key_rows()));
    }
    if matches.get_flag(command::LIST_PRESETS) {
        return Some(CliExit::answer(presets::list()));
    }
    if let Some(name) = matches.get_one::<String>(command::EXPLAIN) {
        return Some(match presets::find(name) {
            Some(preset) => CliExit::answer(preset.explanation()),
            None => {
                CliExit::from_problems(&[super::presets::unknown(name, "--explain")], monochrome)
            }
        });
    }
    if let Some(shell) = matches.get_one::<clap_complete::Shell>(command::COMPLETIONS) {
        return Some(CliExit::answer(completions::script(*shell)));
    }
    matches
        .get_flag(command::MAN)
        .then(|| CliExit::answer(manual()))
}

fn manual() -> String {
    let mut page = Vec::new();
    // Nothing can go wrong where nothing is written to a file.
    clap_mangen::Man::new(command::by_topic().about(help::SUMMARY))
        .render(&mut page)
        .ok();
    String::from_utf8_lossy(&page).into_owned()
}

/// The answer to `--export-config`, with or without a file.
pub(super) fn export(settings: &Settings, file: &str, monochrome: bool) -> CliExit {
    let choice = generate::Choice {
        describe: true,
        advanced: false,
    };
    let heading = format!("Written by rsys-sample {}", env!("CARGO_PKG_VERSION"));
    let extension = Path::new(file).extension().and_then(|name| name.to_str());
    let format = match extension {
        None => generate::Format::Text,
        Some(name) => match generate::Format::of(name) {
            Some(format) => format,
            None => {
                return CliExit::error(&format!(
                    "{file}: '.{name}' is not a configuration format; write .cfg, .toml, .json or .xml"
                ));
            }
        },
    };
    let text = match generate::generate(settings, format, choice, &heading) {
        Ok(text) => text,
        Err(error) => return CliExit::from_unwritable(&error, monochrome),
    };
    if file.is_empty() {
        return CliExit::answer(text);
    }
    let created = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file);
    match created.and_then(|mut created| created.write_all(text.as_bytes())) {
        Ok(()) => CliExit::answer(format!("wrote {file}; use it with rsys-sample -c {file}\n")),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => CliExit::error(
            &format!("{file} exists and is not overwritten; remove it, or name another file"),
        ),
        Err(error) => CliExit::error(&format!("{file} cannot be written: {error}")),
    }
}

/// The answer to `--doctor`: `rsys-avail`, which stands beside us, gives it for the settings of this command line.
pub(super) fn doctor(settings: &Settings, words: &[OsString], json: bool) -> CliExit {
    let executable = std::env::current_exe().unwrap_or_default();
    let mut call = vec![executable.with_file_name("rsys-avail").into_os_string()];
    let given = settings
        .iter()
        .filter(|(_, _, origin)| matches!(origin, Origin::CommandLine(_)));
    for (setting, value, _) in given {
        call.push("--set".into());
        call.push(format!("{}={value}", setting.name).into());
    }
    if json {
        call.push("--json".into());
    }
    call.push("--doctor".into());
    call.extend(words.first().cloned());
    CliExit::instead(call)
}

/// The answer to `--dry-run`.
pub(super) fn dry_run(settings: &Settings, words: Vec<OsString>) -> CliExit {
    let resolved = settings.resolve();
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let mut lines = vec![format!("command: {}", shown.join(" "))];
    if let Some(name) = words.first() {
        let path = std::env::var_os("PATH");
        lines.push(match program::find(name, path.as_deref()) {
            Ok(file) => format!("program: {}", file.display()),
            Err(error) => format!("program: {error}"),
        });
    }
    for line in settings.report() {
        lines.push(line);
    }
    let included = resolved.backends.in_use();
    let exports = settings
        .exports()
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let place = Place::from_env(&Environment::of_this_process());
    let plan = Plan::new(&resolved, words, exports, place);
    let layout = &plan.run.layout;
    lines.push(format!(
        "traces: {}",
        layout.path(&FileId::new("<rank or pid>", 0)).display()
    ));
    lines.push(format!(
        "backends: {}",
        if included.is_empty() {
            "none".to_owned()
        } else {
            included.join(" ")
        }
    ));
    for warning in super::warnings(settings, &resolved) {
        lines.push(format!("warning: {warning}"));
    }
    lines.push(String::new());
    CliExit::answer(lines.join("\n"))
}
