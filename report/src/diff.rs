//! `rsys-report diff`: two runs, or several of two programs.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use rsys_analysis::compare::{Run, Side, compare, measures};
use rsys_analysis::measure::pictures::spread::Spread;
use rsys_analysis::table::Answer;
use rsys_analysis::{pass_counted, show};
use rsys_traces::read::BytesRead;

use crate::cache;
use crate::inputs::{Inputs, Jobs, terminal_width};
use crate::progress::Progress;

/// Options of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffOptions {
    /// The run that the other is compared with: a folder with traces, or a trace
    #[arg(value_name = "REFERENCE")]
    first: PathBuf,
    /// The run that is compared
    #[arg(value_name = "CANDIDATE")]
    second: PathBuf,
    /// Another run of the reference; may be given again. From three runs of each side on, those tell what is chance
    #[arg(long, value_name = "DIR|TRACE")]
    reference: Vec<PathBuf>,
    /// Another run of the candidate; may be given again
    #[arg(long, value_name = "DIR|TRACE")]
    candidate: Vec<PathBuf>,
    /// Exit with 1 if something is surely slower by more than this, such as 3%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["csv", "markdown"])]
    json: bool,
    /// Print CSV: the kernels
    #[arg(long, conflicts_with = "markdown")]
    csv: bool,
    /// Print Markdown of the size of a comment, for pull requests
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    jobs: Jobs,
}

/// A part, from a number of percent.
fn percent(word: &str) -> Result<f64, String> {
    let number = word.strip_suffix('%').unwrap_or(word).trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..1e6).contains(&percent) => Ok(percent / 100.0),
        _ => Err("it is not a percentage, such as 3% or 0.5%".to_owned()),
    }
}

/// What is to be printed, and the exit code.
///
/// # Errors
/// When a side has no trace.
pub(crate) fn diff(options: &DiffOptions) -> Result<(String, i32)> {
    let side = |first: &Path, more: &[PathBuf]| {
        let paths = std::iter::once(first).chain(more.iter().map(PathBuf::as_path));
        let runs: Result<Vec<Run>> = paths.map(|path| read(path, options.jobs)).collect();
        let label = Inputs::new(vec![first.to_path_buf()], None, options.jobs).label();
        Ok::<_, anyhow::Error>(Side { label, runs: runs? })
    };
    let mut reference = side(&options.first, &options.reference)?;
    let mut candidate = side(&options.second, &options.candidate)?;
    if reference.label == candidate.label {
        reference.label = options.first.display().to_string();
        candidate.label = options.second.display().to_string();
    }
    let mut answer = compare(&reference, &candidate, options.fail_above);
    let failures = answer.tables.iter().find(|table| table.key == "failures");
    let has_failed = failures.is_some_and(|table| !table.rows.is_empty());
    let code = i32::from(has_failed || answer.is_empty);
    let text = match options {
        DiffOptions { json: true, .. } => format!("{:#}\n", show::json(&answer)),
        DiffOptions { csv: true, .. } => {
            kernels_first(&mut answer);
            show::csv(&answer)
        }
        DiffOptions { markdown: true, .. } => show::markdown(&answer),
        _ => show::text_within(&answer, terminal_width()),
    };
    Ok((text, code))
}

/// CSV has the first table.
fn kernels_first(answer: &mut Answer) {
    answer
        .tables
        .sort_by_key(|table| (table.key != "diff_kernels", table.key != "diff_functions"));
}

/// Reads the traces of a run once.
fn read(path: &Path, jobs: Jobs) -> Result<Run> {
    let inputs = Inputs::new(vec![path.to_path_buf()], None, jobs);
    let (files, _) = inputs.files()?;
    let read = BytesRead::default();
    let progress = Progress::on_terminal(read.clone(), cache::bytes_of(&files));
    let spread = Spread::default();
    let (names, mut measures): (Vec<_>, Vec<_>) = measures(&spread).into_iter().unzip();
    let model = pass_counted(&files, &mut measures, &read, jobs.count());
    let answers = rsys_analysis::answers(&mut measures, &model, "", jobs.count());
    drop(progress);
    Ok(Run::new(
        names.into_iter().zip(answers).collect(),
        &spread,
        &model,
    ))
}
