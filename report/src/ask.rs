//! Questions: which traces are asked, what is measured, and how the answer is written.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use rsys_analysis::advice::{advise, further_measures};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::calls::Calls;
use rsys_analysis::measure::copies::Copies;
use rsys_analysis::measure::cost::profiling_cost;
use rsys_analysis::measure::functions::{self, Functions};
use rsys_analysis::measure::gaps::Gaps;
use rsys_analysis::measure::iterations::is_default_marker;
use rsys_analysis::measure::kernels::{By, Kernels};
use rsys_analysis::measure::launch::Launch;
use rsys_analysis::measure::memory::Memory;
use rsys_analysis::measure::sensors::Sensors;
use rsys_analysis::measure::timeline::Timeline;
use rsys_analysis::read::BytesRead;
use rsys_analysis::table::{Answer, Cell, Table};
use rsys_analysis::{pass_counted, processors, read, show};

use crate::cache::answers::{Answers, Kept};
use crate::cache::{self, Choice};
use crate::files::{self, short_name};
use crate::progress::Progress;

/// The most rows of each table in the text of a summary.
const SUMMARY_ROWS: usize = 10;
/// The most findings there.
const SUMMARY_FINDINGS: usize = 3;

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
    /// The name of the run in the answer; by default that of the first input
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    cache: CacheOptions,
}

/// How much is done at the same time.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Jobs {
    /// Read so many files, and measure so much, at the same time [default: the processors at hand]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
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

/// Options of `kernels`.
#[derive(Debug, Args)]
pub(crate) struct KernelOptions {
    #[command(flatten)]
    inputs: Inputs,
    /// What else tells rows apart
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    by: Vec<KernelKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KernelKey {
    /// The grid
    Grid,
    /// The stream or queue
    Stream,
    /// The GPU
    Device,
}

impl KernelOptions {
    /// What tells rows apart.
    fn by(&self) -> By {
        By {
            grid: self.by.contains(&KernelKey::Grid),
            stream: self.by.contains(&KernelKey::Stream),
            device: self.by.contains(&KernelKey::Device),
        }
    }
}

/// Options of `functions`.
#[derive(Debug, Args)]
pub(crate) struct FunctionOptions {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// What else tells rows apart
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    by: Vec<FunctionKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FunctionKey {
    /// The line
    Line,
    /// The thread
    Thread,
    /// The process
    Process,
}

impl FunctionOptions {
    /// What tells rows apart.
    pub(crate) fn by(&self) -> functions::By {
        functions::By {
            line: self.by.contains(&FunctionKey::Line),
            thread: self.by.contains(&FunctionKey::Thread),
            process: self.by.contains(&FunctionKey::Process),
        }
    }
}

/// The questions: each is a command, and a row of [`Question::measures`].
#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    /// Where the time went: the first lines of all questions (the same as no command)
    Summary(Inputs),
    /// What to look at first: at most ten findings, by the time that they could give back
    Advice(Inputs),
    /// Computation, communication, copies and idleness of each GPU
    Timeline(Inputs),
    /// Why each GPU was idle, by the line of code that kept it waiting
    Gaps(Inputs),
    /// The kernels that took the time of the GPUs, by name
    Kernels(KernelOptions),
    /// Copies by direction and size, their bandwidth, and the calls that waited for them
    Copies(Inputs),
    /// Calls of the GPU runtimes, and how long those held their threads
    Calls(Inputs),
    /// The functions that took the CPU time, and what threads waited for
    Functions(FunctionOptions),
    /// Memory that programs made and gave back, its peak, and what held it then
    Memory(Inputs),
    /// Power, clock, temperature, memory and load of GPUs, and when clocks were slow
    Sensors(Inputs),
    /// Who launched the kernels: operators, functions, ranges, calls; and how long launches waited
    Launch(Inputs),
}

impl Question {
    fn inputs(&self) -> &Inputs {
        match self {
            Self::Summary(inputs)
            | Self::Advice(inputs)
            | Self::Timeline(inputs)
            | Self::Gaps(inputs)
            | Self::Copies(inputs)
            | Self::Calls(inputs)
            | Self::Memory(inputs)
            | Self::Sensors(inputs)
            | Self::Launch(inputs) => inputs,
            Self::Kernels(options) => &options.inputs,
            Self::Functions(options) => &options.inputs,
        }
    }

    /// Whether it is asked without options that change the answer.
    fn is_default(&self) -> bool {
        match self {
            Self::Kernels(options) => options.by.is_empty(),
            Self::Functions(options) => options.by.is_empty(),
            _ => true,
        }
    }

    /// What is measured for it, each under the name of its question.
    fn measures(&self) -> Vec<Named> {
        match self {
            Self::Summary(_) | Self::Advice(_) => {
                all().into_iter().chain(further_measures()).collect()
            }
            Self::Timeline(_) => vec![("timeline", Box::<Timeline>::default())],
            Self::Gaps(_) => vec![("gaps", Box::<Gaps>::default())],
            Self::Kernels(options) => vec![("kernels", Box::new(Kernels::new(options.by())))],
            Self::Copies(_) => vec![("copies", Box::<Copies>::default())],
            Self::Calls(_) => vec![("calls", Box::<Calls>::default())],
            Self::Functions(options) => {
                vec![("functions", Box::new(Functions::new(options.by())))]
            }
            Self::Memory(_) => vec![("memory", Box::<Memory>::default())],
            Self::Sensors(_) => vec![("sensors", Box::<Sensors>::default())],
            Self::Launch(_) => vec![("launch", Box::<Launch>::default())],
        }
    }
}

/// A measure, and the name of its question.
pub(crate) type Named = (&'static str, Box<dyn Measure>);

/// All questions, in the order of a summary.
fn all() -> Vec<Named> {
    vec![
        ("timeline", Box::<Timeline>::default()),
        ("gaps", Box::<Gaps>::default()),
        ("kernels", Box::<Kernels>::default()),
        ("launch", Box::<Launch>::default()),
        ("copies", Box::<Copies>::default()),
        ("calls", Box::<Calls>::default()),
        ("functions", Box::<Functions>::default()),
        ("memory", Box::<Memory>::default()),
        ("sensors", Box::<Sensors>::default()),
    ]
}

/// How an answer is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Text,
    Json,
    Csv,
}

/// What is to be printed, if anything is.
pub(crate) enum Asked {
    /// The answer, in the form that is wanted.
    Answer(Answer, Form),
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

impl Form {
    /// The answer in this form.
    pub(crate) fn write(self, answer: &Answer) -> String {
        match self {
            Self::Text => show::text(answer),
            Self::Json => format!("{:#}\n", show::json(answer)),
            Self::Csv => show::csv(answer),
        }
    }
}

impl Inputs {
    /// How many files are read, and how much is measured, at the same time.
    pub(crate) fn job_count(&self) -> usize {
        self.jobs.count()
    }

    /// What is kept of a question about these files; nothing of one that is asked with options that change the answer.
    pub(crate) fn kept(&self, files: &[PathBuf], is_default: bool) -> KeptAnswer {
        let place = cache::place(&self.inputs, files, self.cache.choice());
        let place = place.filter(|_| is_default);
        KeptAnswer(place.and_then(|place| Answers::new(place, files, &self.label())))
    }

    /// An answer with further notes and what profiling cost, as it is to be printed.
    pub(crate) fn asked(&self, (mut answer, cost): (Answer, Table), notes: Vec<String>) -> Asked {
        answer.notes.extend(notes);
        answer.closing = Some(cost);
        Asked::Answer(answer, self.form())
    }

    /// How the answer is written.
    pub(crate) fn form(&self) -> Form {
        match (self.json, self.csv) {
            (true, _) => Form::Json,
            (_, true) => Form::Csv,
            _ => Form::Text,
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
            label,
            jobs,
            cache: CacheOptions::default(),
        }
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

    /// The name of the run.
    pub(crate) fn label(&self) -> String {
        let first = self.inputs.first().map(PathBuf::as_path);
        let first = first.unwrap_or(Path::new(""));
        let named = first.canonicalize();
        let named = named.as_deref().unwrap_or(first);
        self.label.clone().unwrap_or_else(|| short_name(named))
    }

    /// The traces that are meant, and notes on those among them that are left out.
    pub(crate) fn files(&self) -> Result<(Vec<PathBuf>, Vec<String>)> {
        let files = files::traces(&self.inputs, files::READABLE, None)?;
        let files = files
            .into_iter()
            .filter(|file| !read::is_further_part(file));
        let (files, mut notes) = files::one_of_each_process(files.collect());
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

/// What came of reading the traces once.
struct Measured {
    /// The answers, in the order of what was measured.
    answers: Vec<Part>,
    cost: Table,
    notes: Vec<String>,
}

/// Answers from the cache, or reads the traces once for all that is to be measured. Only answers with default options are kept.
fn measured(inputs: &Inputs, measures: Vec<Named>, is_default: bool) -> Result<Measured> {
    let (files, notes) = inputs.files()?;
    let label = inputs.label();
    let place = cache::place(&inputs.inputs, &files, inputs.cache.choice());
    let kept = place
        .filter(|_| is_default)
        .and_then(|place| Answers::new(place, &files, &label));
    let names: Vec<&'static str> = measures.iter().map(|(name, _)| *name).collect();
    if let Some(Kept {
        answers,
        cost: Some(cost),
    }) = kept.as_ref().and_then(|kept| kept.find(&names))
    {
        return Ok(Measured {
            answers,
            cost,
            notes,
        });
    }
    let mut measures: Vec<_> = measures.into_iter().map(|(_, measure)| measure).collect();
    let (answers, cost) = read_once(&files, &mut measures, &label, inputs.jobs.count());
    let measured = Measured {
        answers: names.into_iter().zip(answers).collect(),
        cost,
        notes,
    };
    if let Some(kept) = kept {
        kept.keep(&Kept {
            answers: measured.answers.clone(),
            cost: Some(measured.cost.clone()),
        });
    }
    Ok(measured)
}

/// Reads the traces once, and shows on a terminal how far that has come; the answers, and what profiling cost.
pub(crate) fn read_once(
    files: &[PathBuf],
    measures: &mut [Box<dyn Measure>],
    label: &str,
    jobs: usize,
) -> (Vec<Answer>, Table) {
    let read = BytesRead::default();
    let progress = Progress::on_terminal(read.clone(), cache::bytes_of(files));
    let model = pass_counted(files, measures, &read, jobs);
    let answers = rsys_analysis::answers(measures, &model, label, jobs);
    drop(progress);
    (answers, profiling_cost(&model))
}

/// Reads the traces once and answers, in the form that is wanted.
///
/// # Errors
/// When there is no trace. What is wrong with one is in the notes of the answer.
pub(crate) fn ask(question: &Question) -> Result<(Answer, Form)> {
    let inputs = question.inputs();
    let Measured {
        answers,
        cost,
        notes,
    } = measured(inputs, question.measures(), question.is_default())?;
    let mut answer = match question {
        Question::Summary(inputs) => summary(answers, &cost, inputs),
        Question::Advice(_) => advice(answers, &cost),
        _ => answers
            .into_iter()
            .next()
            .map_or_else(Answer::default, |(_, answer)| answer),
    };
    answer.notes.extend(notes);
    answer.closing = Some(cost);
    Ok((answer, inputs.form()))
}

/// Reads the traces once for all questions and for others beside them; the answers to all questions with every row, and those to the others.
///
/// # Errors
/// When there is no trace.
pub(crate) fn everything(inputs: &Inputs, others: Vec<Named>) -> Result<(Answer, Answer)> {
    let asked: Vec<Named> = all().into_iter().chain(further_measures()).collect();
    let count = asked.len();
    let Measured {
        mut answers,
        cost,
        notes,
    } = measured(inputs, asked.into_iter().chain(others).collect(), true)?;
    let others = answers.split_off(count);
    let mut advice = advise(&answers, &cost);
    // It finds something only where another has something; what was not judged is a table.
    advice.is_empty = true;
    advice.notes.clear();
    let shown = answers.into_iter().filter(|(name, _)| !is_further(name));
    let mut answer = Answer::joined(std::iter::once(("advice", advice)).chain(shown));
    answer.notes.extend(notes);
    answer.closing = Some(cost);
    Ok((answer, Answer::joined(others)))
}

/// All findings, and the answers beside all questions' that they are made of.
fn advice(answers: Vec<Part>, cost: &Table) -> Answer {
    let mut advice = advise(&answers, cost);
    let (further, shown): (Vec<Part>, Vec<Part>) =
        answers.into_iter().partition(|(name, _)| is_further(name));
    // What is wrong with the files; what each question lacks is in what was not judged.
    let files = shown.iter().find(|(name, _)| *name == "timeline");
    let files = files.map_or(&[][..], |(_, answer)| &answer.notes);
    advice.notes.extend_from_slice(files);
    advice.parts = further;
    advice
}

/// The answer to a question, under its name.
type Part = (&'static str, Answer);

/// Whether a question is asked for advice alone.
fn is_further(name: &str) -> bool {
    further_measures()
        .iter()
        .any(|(further, _)| *further == name)
}

/// Whether ranges that launch kernels are called as iterations commonly are: then the traces are worth a second reading.
pub(crate) fn has_iterations(answers: &[Part]) -> bool {
    let launch = answers.iter().find(|(name, _)| *name == "launch");
    let tables = launch.into_iter().flat_map(|(_, launch)| &launch.tables);
    let mut ranges = tables.filter(|table| table.key == "launch_ranges");
    ranges.any(|table| {
        let mut names = table.rows.iter().filter_map(|row| row.cells.first());
        names.any(|name| matches!(name, Cell::Text(name) if is_default_marker(name)))
    })
}

/// The first findings, then the first lines of all questions.
fn summary(answers: Vec<Part>, cost: &Table, inputs: &Inputs) -> Answer {
    let mut advice = advise(&answers, cost).brief(SUMMARY_FINDINGS);
    let first = inputs.inputs.first();
    let first = first.map_or_else(String::new, |path| path.display().to_string());
    advice.notes = match advice.tables.first() {
        Some(findings) if !findings.rows.is_empty() => {
            vec![format!(
                "rsys-report advice {first} says more of the findings"
            )]
        }
        _ => Vec::new(),
    };
    if has_iterations(&answers) {
        let note = format!("rsys-report overlap {first} says what each iteration consisted of");
        advice.notes.push(note);
    }
    let shown = answers.into_iter().filter(|(name, _)| !is_further(name));
    let parts = shown.map(|(name, answer)| (name, answer.brief(SUMMARY_ROWS)));
    // Nothing is found in traces that hold nothing.
    advice.is_empty = true;
    Answer::joined(std::iter::once(("advice", advice)).chain(parts))
}
