//! What a question is asked of: the traces, how they are read, what is kept of the answer, and how it is written.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use rsys_analysis::table::{Answer, Table};
use rsys_analysis::{processors, ranks, show};
use rsys_traces::model::count_as_communication;
use rsys_traces::read;

use crate::cache::answers::{Answers, Kept};
use crate::cache::{self, Choice};
use crate::files::{self, short_name};
use crate::temp_output::{put, refuse_existing};
use crate::workbook::workbook;

/// What is read, and how the answer is written.
#[derive(Debug, Args)]
pub(crate) struct Inputs {
    /// Folders with traces, or traces
    #[arg(required = true, value_name = "DIR|TRACE")]
    inputs: Vec<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
    /// Write the answer into this file: JSON if its name ends with .json, CSV if with .csv, a workbook with a sheet for each table if with .xlsx; of a
    /// summary, the page if with .html
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output if it is already there
    #[arg(short, long, requires = "output")]
    force: bool,
    /// The name of the run in the answer; by default that of the first input
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Of a folder with traces of several runs, the one with this number, in the order in which they began
    #[arg(long, value_name = "N")]
    run: Option<NonZeroUsize>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    cache: CacheOptions,
}

/// How files are read.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Jobs {
    /// Read so many files, and measure so much, at the same time [default: the processors at hand]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Count kernels as communication whose names match, beside those of the libraries that are known
    // All readers depend on it, so it holds for the whole run from here on.
    #[arg(long, value_name = "REGEX", value_parser = count_as_communication)]
    communication: Option<()>,
}

impl Jobs {
    /// The number, by default that of the processors that this process may use.
    pub(crate) fn count(self) -> usize {
        self.jobs.map_or_else(processors, NonZeroUsize::get)
    }
}

/// Whether what was found out is kept.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct CacheOptions {
    /// Keep what is found out beside the traces, and take what was kept (the default from 16 MiB of traces on)
    #[arg(long, conflicts_with = "no_cache")]
    cache: bool,
    /// Read the traces again, and keep nothing
    #[arg(long)]
    no_cache: bool,
}

impl CacheOptions {
    /// What is wanted.
    pub(crate) fn choice(self) -> Choice {
        match (self.cache, self.no_cache) {
            (true, _) => Choice::Always,
            (_, true) => Choice::Never,
            _ => Choice::Large,
        }
    }
}

/// How an answer is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Text,
    Json,
    Csv,
    /// A workbook, which only files are.
    Workbook,
}

/// How an answer is written, and into which file, if it is not to be printed.
#[derive(Debug)]
pub(crate) struct Writing {
    form: Form,
    file: Option<PathBuf>,
}

/// What is to be printed, if anything is.
pub(crate) enum Asked {
    /// The answer, in the form that is wanted.
    Answer(Answer, Writing),
    /// How many parts there are now, and where.
    Parts(usize, PathBuf),
}

/// The answer to one question, as it is kept if it is to be.
pub(crate) struct KeptAnswer(Option<Answers>);

impl KeptAnswer {
    /// The answer that was kept, and what profiling cost.
    pub(crate) fn find(&self, name: &'static str) -> Option<(Answer, Table)> {
        let mut found = self.0.as_ref()?.find(&[name])?;
        let (_, answer) = found.answers.pop()?;
        Some((answer, found.cost?))
    }

    /// Keeps an answer.
    pub(crate) fn keep(&self, name: &'static str, (answer, cost): &(Answer, Table)) {
        if let Some(kept) = &self.0 {
            kept.keep(&Kept {
                answers: vec![(name, answer.clone())],
                cost: Some(cost.clone()),
            });
        }
    }
}

impl Writing {
    /// Writes the answer into its file; else returns what is to be printed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, answer: &Answer) -> Result<String> {
        if let (Form::Workbook, Some(file)) = (self.form, &self.file) {
            put(file, &workbook(answer)?)?;
            return Ok(format!("{}: written\n", file.display()));
        }
        let text = match (self.form, &self.file) {
            (Form::Text | Form::Workbook, Some(_)) => show::text(answer),
            (Form::Text | Form::Workbook, None) => show::text_within(answer, terminal_width()),
            (Form::Json, _) => format!("{:#}\n", show::json(answer)),
            (Form::Csv, _) => show::csv(answer),
        };
        let Some(file) = &self.file else {
            return Ok(text);
        };
        put(file, text.as_bytes())?;
        Ok(format!("{}: written\n", file.display()))
    }
}

/// Names of pages, and of files in forms that no answer has.
const PAGES: [&str; 2] = ["html", "htm"];
const OTHERS: [&str; 9] = [
    "pdf", "png", "svg", "xls", "ods", "parquet", "yaml", "yml", "xml",
];

/// Whether a file's name ends like this.
pub(crate) fn is_of(file: &Path, ends: &[&str]) -> bool {
    let end = file.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| ends.iter().any(|one| one.eq_ignore_ascii_case(end)))
}

/// Says so where a file's name promises a form that answers are not written in.
fn refuse_form(file: &Path) -> Result<()> {
    let name = file.display();
    if is_of(file, &PAGES) {
        bail!("{name}: a page has all answers: rsys-report html DIR -o {name}");
    }
    if is_of(file, &OTHERS) {
        bail!(
            "{name}: answers are written as .txt, .json, .csv or .xlsx, all of them as .html; rsys-report export writes other forms"
        );
    }
    Ok(())
}

/// How many characters a line on standard output has room for, where that is a terminal.
pub(crate) fn terminal_width() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    size.map_or(usize::MAX, |(width, _)| usize::from(width.0))
}

impl Inputs {
    /// How many files are read, and how much is measured, at the same time.
    pub(crate) fn job_count(&self) -> usize {
        self.jobs.count()
    }

    /// What is kept of a question about these files; nothing of one that is asked with options that change the answer.
    pub(crate) fn kept(&self, files: &[PathBuf], is_default: bool) -> KeptAnswer {
        KeptAnswer(self.kept_answers(files, is_default))
    }

    /// The same of several questions.
    pub(crate) fn kept_answers(&self, files: &[PathBuf], is_default: bool) -> Option<Answers> {
        let place = cache::place(&self.inputs, files, self.cache.choice());
        let place = place.filter(|_| is_default)?;
        Answers::new(place, files, &self.label())
    }

    /// An answer with further notes and what profiling cost, as it is to be printed.
    pub(crate) fn asked(&self, (mut answer, cost): (Answer, Table), notes: Vec<String>) -> Asked {
        answer.notes.extend(notes);
        answer.closing = Some(cost);
        Asked::Answer(answer, self.writing())
    }

    /// How the answer is written, and where.
    pub(crate) fn writing(&self) -> Writing {
        Writing {
            form: self.form(),
            file: self.output.clone(),
        }
    }

    /// How the answer is written.
    pub(crate) fn form(&self) -> Form {
        let ends_with = |end: &str| {
            self.output
                .as_deref()
                .is_some_and(|file| is_of(file, &[end]))
        };
        match (self.json, self.csv) {
            (true, _) => Form::Json,
            (_, true) => Form::Csv,
            _ if ends_with("json") => Form::Json,
            _ if ends_with("csv") => Form::Csv,
            _ if ends_with("xlsx") => Form::Workbook,
            _ => Form::Text,
        }
    }

    /// The page that these are wanted as, and whether what is there is replaced.
    pub(crate) fn page(&self) -> Option<(PathBuf, bool)> {
        let is_page = |file: &PathBuf| !self.json && !self.csv && is_of(file, &PAGES);
        let page = self.output.clone().filter(is_page);
        page.map(|page| (page, self.force))
    }

    /// The same inputs for a command that writes its file itself.
    pub(crate) fn without_output(self) -> Self {
        Self {
            output: None,
            force: false,
            ..self
        }
    }

    /// What is no file, and may be a command that was spelled wrong.
    pub(crate) fn unknown_word(&self) -> Option<std::path::Display<'_>> {
        let mut words = self.inputs.iter();
        let unknown = words.find(|word| !word.exists() && word.components().count() == 1);
        unknown.map(|word| word.display())
    }

    /// Inputs of a command that has its own form.
    pub(crate) fn new(inputs: Vec<PathBuf>, label: Option<String>, jobs: Jobs) -> Self {
        Self {
            inputs,
            json: false,
            csv: false,
            output: None,
            force: false,
            label,
            run: None,
            jobs,
            cache: CacheOptions::default(),
        }
    }

    /// The same, with a choice of what is kept.
    pub(crate) fn with_cache(self, cache: CacheOptions) -> Self {
        Self { cache, ..self }
    }

    /// Whether a path is one of the traces.
    ///
    /// # Errors
    /// When there is no trace.
    pub(crate) fn are_at(&self, path: &Path) -> Result<bool> {
        let Ok(path) = path.canonicalize() else {
            return Ok(false);
        };
        let files = files::traces(&self.inputs, files::READABLE, None)?;
        let mut files = files.iter().filter_map(|file| file.canonicalize().ok());
        Ok(files.any(|file| file == path))
    }

    /// What is named first.
    pub(crate) fn first(&self) -> &Path {
        self.inputs.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// How a command that asks about the same traces goes on.
    pub(crate) fn again(&self) -> String {
        match self.inputs.as_slice() {
            [_, _, ..] => "with the same files".to_owned(),
            _ => self.first().display().to_string(),
        }
    }

    /// The name of the run.
    pub(crate) fn label(&self) -> String {
        let first = self.first();
        let named = first.canonicalize();
        let named = named.as_deref().unwrap_or(first);
        self.label.clone().unwrap_or_else(|| short_name(named))
    }

    /// The traces that are meant, and notes on those among them that are left out.
    ///
    /// # Errors
    /// When there is no trace, or the output is there and is not to be replaced.
    pub(crate) fn files(&self) -> Result<(Vec<PathBuf>, Vec<String>)> {
        if let Some(output) = &self.output {
            if !self.json && !self.csv {
                refuse_form(output)?;
            }
            refuse_existing(output, self.force)?;
            if self.are_at(output)? {
                bail!("{} is one of the traces", output.display());
            }
        }
        let files = files::traces(&self.inputs, files::READABLE, None)?;
        let files = files
            .into_iter()
            .filter(|file| !read::is_further_part(file));
        let (files, mut notes) = files::one_of_each_process(files.collect());
        let (mut files, packed) = files::without_packed(files);
        notes.extend(packed);
        if let Some(run) = self.run {
            files =
                ranks::of_run(files, run.get(), self.job_count()).map_err(|count| match count {
                    None => anyhow!("--run {run}: ranks are several times in these traces, and nothing in them tells in what order"),
                    Some(1) => anyhow!("--run {run}: all of these traces are of one run"),
                    Some(count) => anyhow!("--run {run}: these traces are of {count} runs"),
                })?;
        }
        let (merged, single): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| read::is_merged(file));
        if single.is_empty() {
            return Ok((merged, notes));
        }
        let beside = merged
            .iter()
            .map(|file| format!("{}: a merged trace beside others, left out", file.display()));
        notes.extend(beside);
        Ok((single, notes))
    }
}
