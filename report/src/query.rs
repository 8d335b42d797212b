//! SQL over tables of records: where the tables are, and how they are asked.
//!
//! The tables are written in a pass that reads the traces, and kept in the cache as answers are.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use rsys_analysis::measure::Measure;
use rsys_analysis::show::{ToTerminal, printable};
use rsys_analysis::{answers, pass_in_order};
use rsys_query::{Failure, Form};
use rsys_tables::catalog::{TABLES, Table};
use rsys_tables::record::Recorder;
use rsys_tables::store::Store;
use rsys_traces::read::BytesRead;

use crate::absent::NOTHING;
use crate::cache::{self, Identity};
use crate::inputs::{CacheOptions, Inputs, Jobs};
use crate::progress::Progress;

/// Text is for people.
const ROWS_IN_TEXT: u64 = 100;
/// What failed, and where else it may work.
const NOT_WRITTEN: &str =
    "cannot write the file of tables (kept beside the traces, or in the folder that TMPDIR names)";

/// Options of `query`.
#[derive(Debug, Args)]
pub(crate) struct QueryOptions {
    /// A folder with traces, or a trace; several with --with
    #[arg(value_name = "DIR|TRACE", required_unless_present = "tables")]
    input: Option<PathBuf>,
    /// A query: `select name, count(*) from operations group by name`; without one, the tables and their columns are listed
    #[arg(value_name = "SQL")]
    sql: Option<String>,
    /// List the tables and their columns
    #[arg(long, conflicts_with_all = ["sql", "with", "limit"])]
    tables: bool,
    /// Another folder or trace
    #[arg(long, value_name = "DIR|TRACE")]
    with: Vec<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
    /// At most so many rows; text has 100 by default, JSON and CSV have all
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    cache: CacheOptions,
}

/// Answers; the exit code: 2 if the query is wrong.
///
/// # Errors
/// When there is no trace, or no answer.
pub(crate) fn query(options: QueryOptions) -> Result<i32> {
    let inputs: Vec<PathBuf> = options.input.into_iter().chain(options.with).collect();
    let Some(sql) = options.sql else {
        if !inputs.is_empty() {
            // A path that is wrong is told at once.
            Inputs::new(inputs, None, options.jobs).files()?;
        }
        return list(options.json);
    };
    let (form, limit) = match (options.json, options.csv) {
        (true, _) => (Form::Json, options.limit),
        (_, true) => (Form::Csv, options.limit),
        _ => (Form::Text, options.limit.or(Some(ROWS_IN_TEXT))),
    };
    let store = tables(&inputs, options.cache, options.jobs, None)?;
    let stdout = io::stdout();
    // Programs get values as they are.
    let mut out: Box<dyn Write> = match form == Form::Text || stdout.is_terminal() {
        true => Box::new(ToTerminal::new(stdout.lock())),
        false => Box::new(stdout.lock()),
    };
    match rsys_query::query(store, &sql, limit, form, &mut *out) {
        Ok(_) => Ok(0),
        // Nobody need be listening, as with `| head`.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(failure @ Failure::Query(_)) => {
            let text = failure.to_string();
            let meant = meant(&text);
            eprintln!("rsys-report: error: {}{meant}", printable(&text));
            Ok(2)
        }
        Err(failure) => Err(failure.into()),
    }
}

/// The file of the tables of these traces: one that was kept, or a new one. If it is not kept it is best in `folder`.
pub(crate) fn tables(
    inputs: &[PathBuf],
    options: CacheOptions,
    jobs: Jobs,
    folder: Option<&Path>,
) -> Result<File> {
    let asked = Inputs::new(inputs.to_vec(), None, jobs);
    let (files, notes) = asked.files()?;
    for note in notes {
        eprintln!("rsys-report: note: {}", printable(&note));
    }
    let place = cache::place(inputs, &files, options.choice());
    let kept = place.and_then(|place| Some((place, Identity::of(&files, "")?)));
    let not_kept = || {
        let file = cache::unnamed(folder).context(NOT_WRITTEN)?;
        written(file, folder, &files, "", jobs)
    };
    let Some((place, identity)) = kept else {
        return not_kept();
    };
    let name = cache::name_of_tables(&files);
    if let Some(file) = place.open(&name).find_map(|file| checked(file, &identity)) {
        return Ok(file);
    }
    let Some(draft) = place.draft(&name) else {
        return not_kept();
    };
    let file = draft.file.try_clone().context("the file of tables")?;
    let file = written(file, Some(draft.folder()), &files, identity.text(), jobs)?;
    // Of files that have changed meanwhile nobody knows what is in the tables.
    if Identity::of(&files, "").as_ref() == Some(&identity) {
        draft.keep().ok();
    }
    Ok(file)
}

/// The file, if it is whole and about these traces.
fn checked(file: File, identity: &Identity) -> Option<File> {
    let store = Store::open(file.try_clone().ok()?).ok()?;
    let is_good = store.identity() == identity.text() && store.verify().is_ok();
    is_good.then_some(file)
}

/// Reads the traces and writes their tables. What is joined at the end is meanwhile in `folder`, best of all.
fn written(
    file: File,
    folder: Option<&Path>,
    files: &[PathBuf],
    identity: &str,
    jobs: Jobs,
) -> Result<File> {
    let scratch = cache::unnamed(folder).context(NOT_WRITTEN)?;
    let recorder = Recorder::new(file.try_clone().context(NOT_WRITTEN)?, scratch, identity);
    let (recorder, outcome) = recorder.context(NOT_WRITTEN)?;
    let read = BytesRead::default();
    let progress = Progress::on_terminal(read.clone(), cache::bytes_of(files));
    // Numbers of rows are the same whenever the tables are made.
    let mut measures: [Box<dyn Measure>; 1] = [Box::new(recorder)];
    let model = pass_in_order(files, &mut measures, &read, jobs.count());
    // What belongs together is joined when all was read.
    answers(&mut measures, &model, "", jobs.count());
    drop(progress);
    outcome.take().context(NOT_WRITTEN)?;
    for notice in &model.notices {
        eprintln!("rsys-report: note: {}", printable(&notice.to_string()));
    }
    ensure!(!model.processes.is_empty(), NOTHING);
    Ok(file)
}

/// What may be meant where a query names a table or column that is not there.
fn meant(error: &str) -> String {
    /// By Jaro and Winkler, 0 to 1.
    const ALIKE_ENOUGH: f64 = 0.8;
    const LISTS: &str = "`rsys-report query --tables` lists tables and columns";
    let word = |start: &str| {
        let (_, rest) = error.split_once(start)?;
        let word = rest.split_whitespace().next()?;
        Some(word.rsplit('.').next().unwrap_or(word).to_ascii_lowercase())
    };
    let (word, names): (String, Vec<&str>) = if let Some(word) = word("no such table: ") {
        (word, TABLES.iter().map(|table| table.name).collect())
    } else if let Some(word) = word("no such column: ") {
        let columns = TABLES.iter().flat_map(|table| table.columns);
        (word, columns.map(|column| column.name).collect())
    } else {
        return String::new();
    };
    let alike = names
        .iter()
        .map(|name| (strsim::jaro_winkler(&word, name), *name));
    let nearest = alike.max_by(|one, other| one.0.total_cmp(&other.0));
    match nearest.filter(|(alike, _)| *alike >= ALIKE_ENOUGH) {
        // It is a column of another table.
        Some((_, name)) if name == word => {
            let tables = TABLES.iter().filter(|table| {
                let mut columns = table.columns.iter();
                columns.any(|column| column.name == name)
            });
            let tables: Vec<&str> = tables.map(|table| table.name).collect();
            format!("; {name} is a column of {}", tables.join(", "))
        }
        Some((_, name)) => format!("; did you mean '{name}'? {LISTS}"),
        None => format!("; {LISTS}"),
    }
}

/// Prints the tables and their columns.
fn list(json: bool) -> Result<i32> {
    let text = if json {
        let tables: Vec<_> = TABLES.iter().map(described).collect();
        format!("{:#}\n", serde_json::json!({ "tables": tables }))
    } else {
        TABLES.iter().map(lines).collect::<Vec<_>>().join("\n")
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write the answer")
        }
        _ => Ok(0),
    }
}

fn described(table: &Table) -> serde_json::Value {
    let columns = table.columns.iter().map(|column| {
        serde_json::json!({
            "name": column.name,
            "type": column.kind.sql(),
            "about": column.about,
        })
    });
    serde_json::json!({
        "name": table.name,
        "about": table.about,
        "columns": columns.collect::<Vec<_>>(),
    })
}

fn lines(table: &Table) -> String {
    let mut text = format!("{}: {}\n", table.name, table.about);
    let width = |of: fn(&rsys_tables::catalog::Column) -> usize| {
        table.columns.iter().map(of).max().unwrap_or_default()
    };
    let (name, kind) = (
        width(|column| column.name.len()),
        width(|column| column.kind.sql().len()),
    );
    for column in table.columns {
        text.push_str(&format!(
            "  {:name$}  {:kind$}  {}\n",
            column.name,
            column.kind.sql(),
            column.about
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn what_is_spelled_wrong_has_a_proposal() {
        for (error, told) in [
            (
                "the query: no such table: operation",
                "did you mean 'operations'?",
            ),
            (
                "the query: no such column: o.duration",
                "did you mean 'duration_ns'?",
            ),
            ("the query: no such table: zzz", "query --tables"),
        ] {
            assert!(meant(error).contains(told), "{}", meant(error));
        }
        assert_eq!(meant("the query: near \"frm\": syntax error"), "");
    }
}
