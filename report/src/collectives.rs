//! `rsys-report collectives`: ranks compared.

use anyhow::Result;
use rsys_analysis::measure::cost::profiling_cost;
use rsys_analysis::ranks;
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
    let read = BytesRead::default();
    let progress = Progress::on_terminal(read.clone(), cache::bytes_of(&files));
    let (mut answer, model) = ranks::collectives(&files, &read, inputs.job_count());
    drop(progress);
    answer.notes.extend(notes);
    answer.closing = Some(profiling_cost(&model));
    Ok((answer, inputs.form()))
}
