//! `rsys-report collectives`: all traces are read once, and those of ranks that were late, with some to compare them with, once more.

use std::path::PathBuf;

use anyhow::Result;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::collectives::Collectives;
use rsys_analysis::measure::cost::profiling_cost;
use rsys_analysis::pass_counted;
use rsys_analysis::read::BytesRead;
use rsys_analysis::table::Answer;

use crate::ask::{Form, Inputs};
use crate::cache;
use crate::progress::Progress;

/// Answers, in the form that is wanted.
///
/// # Errors
/// When there is no trace. What is wrong with one is in the notes of the answer.
pub(crate) fn ask(inputs: &Inputs) -> Result<(Answer, Form)> {
    let (files, notes) = inputs.files()?;
    let jobs = inputs.job_count();
    let read = BytesRead::default();
    let progress = Progress::on_terminal(read.clone(), cache::bytes_of(&files));
    let collectives = Collectives::default();
    let measures = &mut [Box::new(collectives.clone()) as Box<dyn Measure>];
    let model = pass_counted(&files, measures, &read, jobs);
    drop(progress);
    let mut found = collectives.find(&model);
    for look in found.looks(&model) {
        let measures = &mut [Box::new(look.doings.clone()) as Box<dyn Measure>];
        let file: PathBuf = look.file.clone();
        let of_file = pass_counted(&[file], measures, &BytesRead::default(), jobs);
        found.learn(&look, &of_file);
    }
    let mut answer = found.answer(&model, &inputs.label());
    answer.notes.extend(notes);
    answer.closing = Some(profiling_cost(&model));
    Ok((answer, inputs.form()))
}
