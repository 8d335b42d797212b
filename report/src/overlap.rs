//! `rsys-report overlap`: iterations of ranks, and the parts in which they are found on many nodes.

use std::path::Path;

use anyhow::Result;
use clap::{Args, ValueEnum};
use rsys_analysis::measure::cost::profiling_cost;
use rsys_analysis::measure::iterations::{self, Options, Part};
use rsys_analysis::model::Notice;
use rsys_analysis::parquet::PartError;
use rsys_analysis::ranks;
use rsys_analysis::read::BytesRead;
use rsys_analysis::table::{Answer, Table};

use crate::ask::{Asked, Form, Inputs};
use crate::cache;
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
    let is_default = options.marker.is_none() && options.assign == Assign::Launch;
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
