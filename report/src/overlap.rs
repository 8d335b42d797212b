//! `rsys-report overlap`: iterations of ranks, and the parts in which they are found on many nodes.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::measure::job::collectives;
use rsys_analysis::measure::job::iterations;
use rsys_analysis::measure::job::iterations::{Options, Part};
use rsys_analysis::parquet::PartError;
use rsys_analysis::ranks;
use rsys_analysis::table::{Answer, Table};
use rsys_traces::model::Notice;
use rsys_traces::read::BytesRead;

use crate::cache;
use crate::inputs::{Asked, Form, Inputs};
use crate::parts::{self, PartOptions};
use crate::progress::Progress;

/// Options of `overlap`.
#[derive(Debug, Args)]
pub(crate) struct OverlapOptions {
    #[command(flatten)]
    inputs: Inputs,
    /// What recurs once in each iteration: the name of a range, mark, operator, function, call, kernel or collective, also with a number behind it; `NAME*`
    /// for any end [default: step, iteration and the like, else a range or kernel that recurs]
    #[arg(short, long, value_name = "NAME")]
    marker: Option<String>,
    /// Which operations of GPUs belong to an iteration
    #[arg(long, value_enum, default_value_t = Assign::Launch, value_name = "HOW")]
    assign: Assign,
    /// Instead: what the end of an iteration had waited for, step by step back to its begin, over all ranks; of the median iteration and the slowest
    #[arg(long)]
    critical_path: bool,
    /// The iterations whose critical path is wanted, by their numbers
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        requires = "critical_path"
    )]
    iteration: Vec<u64>,
    #[command(flatten)]
    parts: PartOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Assign {
    /// Those that were launched in it
    Launch,
    /// What the GPU does from its begin to its end on the host
    Window,
    /// The GPU's time is cut where the first computation of each begins, so that sums are those of the run
    Partition,
}

impl parts::Part for Part {
    const END: &'static str = "iterations";
    type Options = Options;

    fn wrong(notice: Notice) -> Self {
        Self {
            notices: vec![notice],
            ..Self::default()
        }
    }

    fn read(file: &[u8], options: &Options, source: &str) -> Result<Self, PartError> {
        Self::read(file, options, source)
    }

    fn write(&self, options: &Options, source: &str) -> std::io::Result<Vec<u8>> {
        self.write(options, source)
    }
}

/// Answers, or makes parts.
///
/// # Errors
/// When there is no trace, or a part cannot be written. What is wrong with a trace is in the notes of the answer.
pub(crate) fn ask(options: &OverlapOptions) -> Result<Asked> {
    let inputs = &options.inputs;
    let (mut files, notes) = inputs.files()?;
    let wanted = Options {
        marker: options.marker.clone(),
        assign: match options.assign {
            Assign::Launch => iterations::Assign::Launch,
            Assign::Window => iterations::Assign::Window,
            Assign::Partition => iterations::Assign::Partition,
        },
    };
    options.parts.prepare(&mut files)?;
    let is_default =
        options.marker.is_none() && options.assign == Assign::Launch && !options.critical_path;
    let kept = inputs.kept(&files, is_default && !options.parts.is_given());
    let asked = |(mut answer, cost): (Answer, Table)| {
        if matches!(inputs.form(), Form::Csv) {
            // CSV has the first table.
            answer.tables.sort_by_key(|table| table.key != "iterations");
        }
        inputs.asked((answer, cost), notes)
    };
    if let Some(found) = kept.find("overlap") {
        return Ok(asked(found));
    }
    let jobs = inputs.job_count();
    let jobs_of_file = (jobs / files.len().max(1)).max(1);
    let read = BytesRead::default();
    let progress = Progress::on_terminal(read.clone(), cache::bytes_of(&files));
    if options.critical_path {
        let find = |file: &Path| ranks::critical_path_parts(file, &wanted, &read, jobs_of_file);
        return critical_path(options, &files, &wanted, find).map(|found| match found {
            Found::Answer(answer) => asked(*answer),
            Found::Parts(folder) => Asked::Parts(2 * files.len(), folder),
        });
    }
    let of_file = |file: &Path| {
        let find = || ranks::overlap_part(file, &wanted, &read, jobs_of_file);
        options.parts.part(file, &wanted, find)
    };
    let only_parts = options
        .parts
        .only_parts::<Part>(&files, jobs, |file| of_file(file).notices)?;
    if let Some(folder) = only_parts {
        return Ok(Asked::Parts(files.len(), folder));
    }
    let (answer, model) = ranks::overlap_of(&files, &wanted, jobs, of_file);
    drop(progress);
    let found = (answer, profiling_cost(&model));
    kept.keep("overlap", &found);
    Ok(asked(found))
}

/// What came of looking for critical paths.
enum Found {
    Answer(Box<(Answer, Table)>),
    Parts(PathBuf),
}

/// Answers, or makes parts: those of `overlap` and of `collectives` of each trace. What is not kept yet is found in one reading of the trace.
fn critical_path(
    options: &OverlapOptions,
    files: &[PathBuf],
    wanted: &Options,
    find: impl Fn(&Path) -> (Part, collectives::Part) + Sync,
) -> Result<Found> {
    let jobs = options.inputs.job_count();
    let of_file = |file: &Path| {
        let mut found = None;
        let iterations = options.parts.part(file, wanted, || {
            let (iterations, of_collectives) = find(file);
            found = Some(of_collectives);
            iterations
        });
        let find_collectives = || found.unwrap_or_else(|| find(file).1);
        let mut of_collectives = options.parts.part(file, &(), find_collectives);
        // Whoever made it may have called the file by another path.
        let path = file.display().to_string();
        let processes = of_collectives.processes.iter_mut();
        processes.for_each(|process| process.file.clone_from(&path));
        (iterations, of_collectives)
    };
    let only_parts = options.parts.only_parts::<Part>(files, jobs, |file| {
        let (iterations, of_collectives) = of_file(file);
        [iterations.notices, of_collectives.notices].concat()
    })?;
    if let Some(folder) = only_parts {
        return Ok(Found::Parts(folder));
    }
    let (mut answer, model) = ranks::critical_path_of(files, &options.iteration, jobs, of_file);
    if matches!(options.inputs.form(), Form::Csv) {
        // CSV has the first table.
        answer
            .tables
            .sort_by_key(|table| table.key != "critical_path");
    }
    Ok(Found::Answer(Box::new((answer, profiling_cost(&model)))))
}
