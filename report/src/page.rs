//! The page with all answers.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rsys_analysis::measure::plots::plots;
use rsys_analysis::show;

use crate::ask::{Inputs, everything};
use crate::temp_output::TempOutput;

/// Reads traces and writes their page; tells its bytes.
///
/// # Errors
/// When there is no trace or nothing in them, when the output is there and is not to be replaced, and when it cannot be written.
pub(crate) fn write(inputs: &Inputs, output: &Path, force: bool) -> Result<usize> {
    if output.is_dir() {
        bail!("{} is a folder", output.display());
    }
    if output.exists() && !force {
        bail!("{} is already there; --force replaces it", output.display());
    }
    if inputs.are_at(output)? {
        bail!("{} is one of the traces", output.display());
    }
    let (answer, plots) = everything(inputs, plots())?;
    if answer.is_empty && plots.is_empty {
        let notes = answer.notes.iter().find(|note| note.contains(": "));
        let why = notes.map_or_else(String::new, |note| format!(" ({note})"));
        bail!("these traces hold nothing that could be shown{why}");
    }
    let page = show::page(&answer, &plots, &inputs.label(), env!("CARGO_PKG_VERSION"));
    let mut file = TempOutput::new(output)?;
    file.file
        .write_all(page.as_bytes())
        .with_context(|| format!("cannot write {}", output.display()))?;
    file.keep(output)?;
    Ok(page.len())
}
