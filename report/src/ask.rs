//! Asking: the traces are read once for what is measured, and once more where ranks are compared; or an answer that was kept is taken.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use rsys_analysis::advice::{advise, further_measures};
use rsys_analysis::measure::host::cost::{is_of_nothing, profiling_cost};
use rsys_analysis::measure::{Measure, Named};
use rsys_analysis::pass_counted;
use rsys_analysis::program::iteration_names::is_default_marker;
use rsys_analysis::table::{Answer, Cell, Table};
use rsys_traces::read::{BytesRead, foreign_kind};

use crate::absent::{folded, of_nothing};
use crate::cache;
use crate::cache::answers::Kept;
use crate::collectives;
use crate::inputs::{Inputs, Writing};
use crate::progress::Progress;
use crate::question::{EFFICIENCY, Question, of_advice};

/// The most rows of each table in the text of a summary.
const SUMMARY_ROWS: usize = 10;
/// The question of how ranks compare, which only jobs have an answer to.
const COLLECTIVES: &str = "collectives";
/// The most findings there.
const SUMMARY_FINDINGS: usize = 3;

/// What came of reading the traces once.
struct Measured {
    /// The answers, in the order of what was measured.
    answers: Vec<Part>,
    cost: Table,
    notes: Vec<String>,
    files: Vec<PathBuf>,
}

/// Answers from the cache, or reads the traces once for all that is to be measured. Only answers with default options are kept.
fn measured(inputs: &Inputs, measures: Vec<Named>, is_default: bool) -> Result<Measured> {
    let (files, notes) = inputs.files()?;
    let label = inputs.label();
    let kept = inputs.kept_answers(&files, is_default);
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
            files,
        });
    }
    let mut measures: Vec<_> = measures.into_iter().map(|(_, measure)| measure).collect();
    let (answers, cost) = read_once(&files, &mut measures, &label, inputs.job_count());
    let measured = Measured {
        answers: names.into_iter().zip(answers).collect(),
        cost,
        notes,
        files,
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
pub(crate) fn ask(question: &Question) -> Result<(Answer, Writing)> {
    let inputs = question.inputs();
    let mut measures = question.measures();
    let is_without_types = matches!(question, Question::Advice(_)) && !may_have_types(inputs)?;
    if is_without_types {
        measures.retain(|(name, _)| *name != EFFICIENCY);
    }
    let Measured {
        mut answers,
        cost,
        notes,
        files,
    } = measured(inputs, measures, question.is_default())?;
    if let Question::Summary(_) | Question::Advice(_) = question {
        answers.extend(compared(inputs, &files, &answers));
    }
    if is_without_types {
        answers.push((EFFICIENCY, Answer::default()));
    }
    let mut answer = match question {
        Question::Summary(inputs) => summary(answers, &cost, inputs),
        Question::Advice(_) => advice(answers, &cost),
        _ => answers
            .into_iter()
            .next()
            .map_or_else(Answer::default, |(_, answer)| answer),
    };
    let notes = [answer.notes, notes].concat();
    if is_of_nothing(&cost) {
        answer.notes = of_nothing(notes);
    } else {
        answer.notes = folded(notes);
        answer.closing = Some(cost);
    }
    Ok((answer, inputs.writing()))
}

/// Whether a file may say the types of operators' tensors, as PyTorch's profiler does. Without them advice judges nothing of how well the time of GPUs was used, and keeping
/// each launch for that would be in vain. Traces in Perfetto's form, as ours are, have none.
fn may_have_types(inputs: &Inputs) -> Result<bool> {
    let (files, _) = inputs.files()?;
    Ok(files.iter().any(|file| foreign_kind(file).is_some()))
}

/// How ranks waited for each other in collectives, if several have run some: advice judges that too. The traces are read once more for it, as far as there is no
/// answer that was kept.
fn compared(inputs: &Inputs, files: &[PathBuf], answers: &[Part]) -> Option<Part> {
    let timeline = answers.iter().find(|(name, _)| *name == "timeline");
    let mut owners = BTreeSet::new();
    for table in timeline.iter().flat_map(|(_, answer)| &answer.tables) {
        communicating(table, &mut owners);
    }
    let waits_for_ranks = || use_mpi(answers) || use_gloo(answers);
    (owners.len() > 1 || waits_for_ranks()).then(|| {
        let (mut collectives, _) = collectives::of_files(inputs, files);
        // Problems of the files are in the notes of the other answers already.
        let is_known = |note: &String| {
            answers
                .iter()
                .any(|(_, answer)| answer.notes.contains(note))
        };
        collectives.notes.retain(|note| !is_known(note));
        (COLLECTIVES, collectives)
    })
}

/// Whether several processes have called MPI.
fn use_mpi(answers: &[Part]) -> bool {
    let calls = answers.iter().find(|(name, _)| *name == "calls");
    let mut tables = calls.iter().flat_map(|(_, answer)| &answer.tables);
    let Some(table) = tables.find(|table| table.key == "runtimes") else {
        return false;
    };
    let Some(place) = table.columns.iter().position(|one| one.key == "runtime") else {
        return false;
    };
    let is_mpi = |cell: &Cell| matches!(cell, Cell::Text(name) if name == "MPI");
    let rows = table.rows.iter();
    rows.filter(|row| is_mpi(&row.cells[place])).count() > 1
}

/// Whether GPUs were idle while the host was in collectives of Gloo.
fn use_gloo(answers: &[Part]) -> bool {
    fn is_in(table: &Table) -> bool {
        let is_gloo = |cell: &Cell| matches!(cell, Cell::Text(text) if text.starts_with("gloo:"));
        let mut rows = table.rows.iter();
        rows.any(|row| row.cells.iter().any(is_gloo) || row.below.iter().any(is_in))
    }
    let gaps = answers.iter().filter(|(name, _)| *name == "gaps");
    gaps.flat_map(|(_, answer)| &answer.tables).any(is_in)
}

/// Rank, host and process of the GPUs in a table that have run collectives. In containers, ranks of a host may have the same process id.
fn communicating(table: &Table, owners: &mut BTreeSet<String>) {
    let place = |key| table.columns.iter().position(|column| column.key == key);
    let owner: Option<Vec<usize>> = ["rank", "host", "process"].into_iter().map(place).collect();
    let places = owner.zip(place("total_comm_ns"));
    for row in &table.rows {
        if let Some((owner, time)) = &places
            && let Cell::Count(1..) = &row.cells[*time]
        {
            let cells: Vec<&Cell> = owner.iter().map(|at| &row.cells[*at]).collect();
            owners.insert(format!("{cells:?}"));
        }
        for below in &row.below {
            communicating(below, owners);
        }
    }
}

/// Reads the traces for all questions and for others beside them; the answers to all questions with every row, how ranks compare if there are several, and the
/// answers to the others, with that to how well the time of GPUs was used.
///
/// # Errors
/// When there is no trace.
pub(crate) fn everything(
    inputs: &Inputs,
    others: Vec<Named>,
    is_default: bool,
) -> Result<(Answer, Answer)> {
    let asked = of_advice();
    let count = asked.len();
    let Measured {
        mut answers,
        cost,
        notes,
        files,
    } = measured(
        inputs,
        asked.into_iter().chain(others).collect(),
        is_default,
    )?;
    let mut others = answers.split_off(count);
    answers.extend(compared(inputs, &files, &answers));
    let mut advice = advise(&answers, &cost);
    // It finds something only where another has something; what was not judged is a table.
    advice.is_empty = true;
    advice.notes.clear();
    let (mut efficiency, answers): (Vec<Part>, Vec<Part>) = answers
        .into_iter()
        .partition(|(name, _)| *name == EFFICIENCY);
    others.append(&mut efficiency);
    let shown = answers.into_iter().filter(is_shown);
    let mut answer = Answer::joined(std::iter::once(("advice", advice)).chain(shown));
    answer.notes.extend(notes);
    answer.closing = Some(cost);
    Ok((answer, Answer::joined(others)))
}

/// All findings, and those answers that they are made of which no command gives.
fn advice(answers: Vec<Part>, cost: &Table) -> Answer {
    let mut advice = advise(&answers, cost);
    let (mut further, shown): (Vec<Part>, Vec<Part>) =
        answers.into_iter().partition(|(name, _)| is_further(name));
    for (_, stuck) in further.iter_mut().filter(|(name, _)| *name == "stuck") {
        let [never_done, never_ended, last @ ..] = &mut stuck.tables[..] else {
            continue;
        };
        // Where processes were at their end is of interest where they hung.
        if never_done.rows.is_empty() && never_ended.rows.is_empty() {
            last.iter_mut().for_each(|table| table.rows_in_text = 0);
        }
    }
    // What is wrong with the files; what each question lacks is in what was not judged.
    let files = shown.iter().find(|(name, _)| *name == "timeline");
    let files = files.map_or(&[][..], |(_, answer)| &answer.notes);
    advice.notes.extend_from_slice(files);
    let ranks = shown.iter().filter(|(name, _)| *name == COLLECTIVES);
    advice
        .notes
        .extend(ranks.flat_map(|(_, answer)| answer.notes.clone()));
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

/// Whether an answer is part of a summary: locks are where some were recorded, which few runs ask for.
fn is_shown((name, answer): &Part) -> bool {
    let is_left_out = *name == "locks" && answer.is_empty;
    !is_further(name) && !is_left_out
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
    let again = inputs.again();
    advice.notes = match advice.tables.first() {
        Some(findings) if !findings.rows.is_empty() => {
            vec![format!(
                "rsys-report advice {again} says more of the findings"
            )]
        }
        _ => Vec::new(),
    };
    if has_iterations(&answers) {
        let note = format!("rsys-report overlap {again} says what each iteration consisted of");
        advice.notes.push(note);
    }
    let shown = answers
        .into_iter()
        .filter(|part| is_shown(part) && part.0 != COLLECTIVES);
    let parts = shown.map(|(name, answer)| (name, answer.brief(SUMMARY_ROWS)));
    // Nothing is found in traces that hold nothing.
    advice.is_empty = true;
    Answer::joined(std::iter::once(("advice", advice)).chain(parts))
}
