//! The page with all answers, and its pictures as files.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rsys_analysis::measure::job::iterations::Options;
use rsys_analysis::measure::pictures::plots::plots;
use rsys_analysis::ranks;
use rsys_analysis::show::{self, Picture};
use rsys_analysis::table::{Answer, Cell};
use rsys_traces::read::BytesRead;

use crate::ask::{everything, has_iterations};
use crate::inputs::Inputs;
use crate::question::EFFICIENCY;
use crate::temp_output::{put, refuse_existing};

/// What to make a page of, and where.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The traces.
    pub(crate) inputs: Inputs,
    /// The page.
    pub(crate) output: &'a Path,
    /// The folder for the pictures, if they are wanted.
    pub(crate) pictures: Option<&'a Path>,
    /// Whether files that are there are replaced.
    pub(crate) force: bool,
    /// Functions whose callers flame graphs leave out.
    pub(crate) below: &'a [String],
}

/// What was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// Bytes of the page.
    pub(crate) bytes: usize,
    /// How many pictures.
    pub(crate) pictures: usize,
}

/// Reads traces and writes their page.
///
/// # Errors
/// When there is no trace or nothing in them, when an output is there and is not to be replaced, and when one cannot be written.
pub(crate) fn write(request: &Request<'_>) -> Result<Written> {
    let Request { inputs, output, .. } = request;
    refuse_existing(output, request.force)?;
    if inputs.are_at(output)? {
        bail!("{} is one of the traces", output.display());
    }
    if let Some(folder) = request
        .pictures
        .filter(|path| path.exists() && !path.is_dir())
    {
        bail!("{} is not a folder", folder.display());
    }
    let further = plots(request.below.to_vec());
    let (mut answer, mut plots) = everything(inputs, further, request.below.is_empty())?;
    answer.parts.extend(efficiency(&mut plots));
    let (files, _) = inputs.files()?;
    let (read, jobs) = (BytesRead::default(), inputs.job_count());
    if has_iterations(&answer.parts) {
        let (iterations, _) = ranks::overlap(&files, &Options::default(), &read, jobs);
        answer.parts.push(("overlap", iterations));
    }
    if answer.is_empty && plots.is_empty {
        let notes = answer.notes.iter().find(|note| note.contains(": "));
        let why = notes.map_or_else(String::new, |note| format!(" ({note})"));
        bail!("these traces hold nothing that could be shown{why}");
    }
    let label = inputs.label();
    let mut pictures: Vec<(PathBuf, Picture)> = Vec::new();
    if let Some(folder) = request.pictures {
        let drawn = show::pictures(&answer, &plots, &label).into_iter();
        pictures.extend(drawn.map(|picture| (folder.join(&picture.name), picture)));
        for (path, _) in &pictures {
            refuse_existing(path, request.force)?;
        }
    }
    let page = show::page(&answer, &plots, &label, env!("CARGO_PKG_VERSION"));
    put(output, page.as_bytes())?;
    for (path, picture) in &pictures {
        put(path, &picture.png)?;
    }
    Ok(Written {
        bytes: page.len(),
        pictures: pictures.len(),
    })
}

/// Takes the answer to how well the time of GPUs was used out of those that pictures are made from, if any operator has a figure.
fn efficiency(plots: &mut Answer) -> Option<(&'static str, Answer)> {
    let at = plots
        .parts
        .iter()
        .position(|(name, _)| *name == EFFICIENCY)?;
    let found = plots.parts.remove(at);
    let table = found.1.tables.first()?;
    let rate = table
        .columns
        .iter()
        .position(|column| column.key == "tflop_per_s")?;
    let mut rows = table.rows.iter();
    rows.any(|row| row.cells[rate] != Cell::Null)
        .then_some(found)
}
