//! `rsys-avail` lists what can be set for `rsys-sample` and what this machine offers: settings, components, counters. It also writes
//! configuration files.
//!
//! - `cli` reads the command line into a `Request` (`request`).
//! - `settings`, `components`, `counters` and `keys` each make one [`table::Table`]; `rsys-machine` looks at the machine for them, and
//!   `gpu` at the counter definitions of an installed ROCm.
//! - `rocm` makes the tables about installed runtimes, and about what a program would load of them.
//! - `doctor` judges all that for the settings as they are.
//! - `filter` takes rows away; `text` and `render` print what remains.
//! - `config_file` is `-G`.
//!
//! Nothing is initialised for that: no GPU runtime, no counter is ever started. All of the machine is seen through
//! [`Roots`], so that tests can put other machines in its place.

pub mod gpu;
pub mod table;

mod cli;
mod components;
mod config_file;
mod counters;
mod doctor;
mod filter;
mod keys;
mod render;
mod request;
mod rocm;
mod settings;
mod style;
mod text;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use rsys_config::table::bare_name;
use rsys_config::{FileChoice, Origin, Settings, Sources};
use rsys_machine::roots::Roots;

use request::{Form, Request, View};
use style::Style;
use table::Table;

/// The exit code for a wrong option, setting or file.
const USAGE_ERROR: i32 = 2;

/// The exit code when something is missing that the settings ask for.
const PROBLEM: i32 = 1;

/// Does what the arguments (with the program's name) say; returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let request = match cli::parse(&mut cli::command(), arguments) {
        Ok(request) => request,
        Err(error) => {
            // There is nowhere to say it when the terminal is gone.
            error.print().ok();
            return error.exit_code();
        }
    };
    match answer(&request) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rsys-avail: error: {error:#}");
            USAGE_ERROR
        }
    }
}

/// The options, made once for any number of command lines that are read and not followed.
#[derive(Debug)]
pub struct Options(clap::Command);

impl Default for Options {
    fn default() -> Self {
        Self(cli::command())
    }
}

impl Options {
    /// Reads the arguments (with the program's name) and does nothing else.
    ///
    /// # Errors
    /// What is wrong with them, or the help that they ask for.
    pub fn check(
        &mut self,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<(), clap::Error> {
        cli::parse(&mut self.0, arguments).map(drop)
    }
}

/// Prints what was asked for; returns the exit code.
fn answer(request: &Request) -> Result<i32> {
    if let Some(text) = &request.about_itself {
        return say(text).map(|()| 0);
    }
    let settings = settings_of(request)?;
    if let Some(generation) = &request.generate {
        return config_file::write(&settings, generation, &request.comments).map(|()| 0);
    }
    let roots = Roots::of_this_process();
    let mut tables: Vec<Table> = request
        .views
        .iter()
        .map(|view| match view {
            View::Settings => Ok(settings::table(&settings, request)),
            View::Components => Ok(components::table(&roots, request)),
            View::Counters => counters::table(&roots, request),
            View::Keys => Ok(keys::table(request)),
            View::Categories => Ok(cli::category_table()),
            View::Runtimes => Ok(rocm::installed::table(&roots, request)),
        })
        .collect::<Result<_>>()?;
    if let Some(program) = &request.program {
        tables.extend(rocm::program::tables(&roots, &settings, program)?);
    }
    let mut code = 0;
    if let Some(word) = &request.doctor {
        let report = doctor::examine(&roots, &settings, word.as_deref())?;
        code = if report.has_problem { PROBLEM } else { 0 };
        tables.push(report.table);
    }
    for table in &mut tables {
        request.filter.apply(table);
        table.add_remedies();
    }
    print(&tables, request, settings.resolve().monochrome)?;
    Ok(code)
}

/// The settings of environment and files, and those of `--set` over them.
fn settings_of(request: &Request) -> Result<Settings> {
    let given: Vec<(&str, &str)> = request
        .set
        .iter()
        .map(|text| text.split_once('=').unwrap_or((text, "")))
        .collect();
    let mut sources = Sources::of_this_process();
    let files = given
        .iter()
        .rfind(|(name, _)| bare_name(name) == "CONFIG_FILE");
    if let Some((_, names)) = files {
        sources.files = FileChoice::Named(names.split(':').map(str::to_owned).collect());
    }
    let mut settings = Settings::load(&sources)?;
    for (name, value) in given {
        settings.set(name, value, Origin::CommandLine("--set".to_owned()))?;
    }
    Ok(settings)
}

fn print(tables: &[Table], request: &Request, monochrome: bool) -> Result<()> {
    let is_terminal = request.output.is_none() && std::io::stdout().is_terminal();
    let text = match &request.form {
        Form::Text => {
            let style = Style {
                width: request.width(is_terminal),
                column_width: request.column_width,
                colours: is_terminal && !request.monochrome && !monochrome && wants_colours(),
                highlight: request.highlight,
                whole: request.columns.description,
            };
            text::render(tables, &request.filter, &style)
        }
        Form::Markdown => render::markdown(tables),
        Form::Csv(separator) => render::csv(tables, separator),
        Form::Json => render::json(tables)?,
    };
    match &request.output {
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
        }
        None => say(&text),
    }
}

fn say(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // As with `rsys-avail | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write the answer"),
    }
}

fn wants_colours() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
