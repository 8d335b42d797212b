//! `--doctor`: what would be recorded here with the settings as they are, how well, and what helps. Nothing is started or attached to.
//!
//! `asked` says what the settings ask for; each of the other files looks at one part of the machine and makes [`Finding`]s; `show` prints
//! them.

mod asked;
mod cost;
mod finding;
mod gpu;
mod installation;
mod jobs;
mod names;
mod output;
mod perf;
mod python;
mod show;
mod system;
mod target;

use std::path::Path;

use anyhow::Result;
use rsys_config::Settings;
use rsys_machine::roots::Roots;

use self::asked::Asked;
use self::finding::{Finding, Level};
use self::target::Target;
use crate::table::Table;
pub use show::text;

/// The name of the table.
pub const TABLE: &str = "doctor";

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// A row for each finding.
    pub table: Table,
    /// Whether something is missing that the settings ask for.
    pub has_problem: bool,
}

/// Looks at everything. `word` names a program or the number of a process.
///
/// # Errors
/// When there is no such program or process.
pub fn examine(roots: &Roots, settings: &Settings, word: Option<&Path>) -> Result<Report> {
    let resolved = settings.resolve();
    let asked = Asked::of(settings, &resolved);
    let target = word.map(|word| Target::of(roots, word)).transpose()?;
    let program = target.as_ref().and_then(|target| target.program.as_ref());
    let mut found: Vec<Finding> = Vec::new();
    found.extend(
        target
            .iter()
            .flat_map(|target| target.findings.iter().cloned()),
    );
    found.extend(installation::findings(roots, &asked));
    found.extend(system::findings(roots, &asked));
    found.extend(perf::findings(roots, &asked, &resolved));
    found.extend(gpu::findings(roots, &asked, (settings, &resolved), program));
    found.extend(jobs::findings(roots, &asked, program));
    found.extend(python::findings(roots, &resolved, program));
    let file = target.as_ref().map(|target| target.file.as_path());
    found.extend(output::findings(roots, &resolved, file));
    found.extend(
        program
            .into_iter()
            .flat_map(|program| names::findings(roots, program)),
    );
    found.extend(cost::findings(&resolved, &asked));
    let title = target.map_or_else(|| "this machine".to_owned(), |target| target.title);
    Ok(Report {
        table: show::table(&title, &found),
        has_problem: found.iter().any(|one| one.level == Level::Problem),
    })
}
