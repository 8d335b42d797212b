//! What the user asked for, as the command line says it.

use std::path::PathBuf;

use rsys_config::generate::{self, Format};

use crate::filter::Filter;

/// What the user asked for.
#[derive(Debug)]
pub struct Request {
    /// Completions or a manual page, to be printed instead of anything else.
    pub about_itself: Option<String>,
    /// The tables to print.
    pub views: Vec<View>,
    /// `--for`: the program whose libraries are looked at.
    pub program: Option<PathBuf>,
    /// `--doctor`: the program or process that it is asked about, if there is one.
    pub doctor: Option<Option<PathBuf>>,
    /// `--set`: settings by name, over those of files and environment.
    pub set: Vec<String>,
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
    /// Characters of a line; 0 means without limit.
    pub total_width: Option<usize>,
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
    /// `--runtimes`.
    Runtimes,
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
