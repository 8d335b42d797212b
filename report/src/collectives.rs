//! `rsys-report collectives`: ranks compared.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::measure::job::collectives::{Job, Part};
use rsys_analysis::parquet::PartError;
use rsys_analysis::ranks;
use rsys_analysis::table::{Answer, Table};
use rsys_traces::model::Notice;
use rsys_traces::read::BytesRead;

use crate::cache;
use crate::inputs::{Asked, Inputs};
use crate::parts::{self, PartOptions};
use crate::progress::Progress;

/// Options of `collectives`.
#[derive(Debug, Args)]
pub(crate) struct CollectiveOptions {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    parts: PartOptions,
}

impl parts::Part for Part {
    const END: &'static str = "collectives";
    type Options = ();

    fn wrong(notice: Notice) -> Self {
        let mut part = Self::default();
        part.notices.push(notice);
        part
    }

    fn read(file: &[u8], _: &(), source: &str) -> Result<Self, PartError> {
        Self::read(file, source)
    }

    fn write(&self, _: &(), source: &str) -> std::io::Result<Vec<u8>> {
        self.write(source)
    }
}

/// Compares the ranks in these traces, as the command without options does; an answer that was kept is taken. With what profiling cost.
pub(crate) fn of_files(inputs: &Inputs, files: &[PathBuf]) -> (Answer, Table) {
    let kept = inputs.kept(files, true);
    kept.find("collectives").unwrap_or_else(|| {
        let read = BytesRead::default();
        let progress = Progress::on_terminal(read.clone(), cache::bytes_of(files));
        let (answer, model) = ranks::collectives(files, &read, inputs.job_count());
        drop(progress);
        let found = (answer, profiling_cost(&model));
        kept.keep("collectives", &found);
        found
    })
}

/// Answers, or makes parts.
///
/// # Errors
/// When there is no trace, or a part cannot be written. What is wrong with a trace is in the notes of the answer.
pub(crate) fn ask(options: &CollectiveOptions) -> Result<Asked> {
    let inputs = &options.inputs;
    let (mut files, notes) = inputs.files()?;
    options.parts.prepare(&mut files)?;
    let kept = inputs.kept(&files, !options.parts.is_given());
    if let Some(found) = kept.find("collectives") {
        return Ok(inputs.asked(found, notes));
    }
    let jobs = inputs.job_count();
    let jobs_of_file = (jobs / files.len().max(1)).max(1);
    let read = BytesRead::default();
    let progress = Progress::on_terminal(read.clone(), cache::bytes_of(&files));
    let of_file = |file: &Path| {
        let find = || ranks::collectives_part(file, &read, jobs_of_file);
        let mut part: Part = options.parts.part(file, &(), find);
        // Whoever made it may have called the file by another path.
        let path = file.display().to_string();
        let processes = part.processes.iter_mut();
        processes.for_each(|process| process.file.clone_from(&path));
        part
    };
    let only_parts = options
        .parts
        .only_parts::<Part>(&files, jobs, |file| of_file(file).notices)?;
    if let Some(folder) = only_parts {
        return Ok(Asked::Parts(files.len(), folder));
    }
    let job = options
        .parts
        .working_file()
        .map_or_else(Job::default, Job::in_file);
    let (answer, model) = ranks::collectives_of(&files, jobs, job, of_file)
        .context("cannot read again what was kept in the folder for parts")?;
    drop(progress);
    let found = (answer, profiling_cost(&model));
    kept.keep("collectives", &found);
    Ok(inputs.asked(found, notes))
}
