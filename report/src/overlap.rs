//! `rsys-report overlap`: iterations of ranks, and the parts in which they are found on many nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rsys_analysis::measure::cost::profiling_cost;
use rsys_analysis::measure::iterations::{self, Options, Part};
use rsys_analysis::model::Notice;
use rsys_analysis::ranks;
use rsys_analysis::read::{self, BytesRead};
use rsys_analysis::table::Answer;

use crate::ask::{Form, Inputs};
use crate::cache;
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
    /// Keep what is found of each trace in this folder, a Parquet file each, and take what is there already
    #[arg(long, value_name = "FOLDER")]
    parts: Option<PathBuf>,
    /// Make only these parts, and give no answer: of N shares that which has number I, from 0 on
    #[arg(long, value_name = "I/N", requires = "parts", value_parser = share)]
    share: Option<Share>,
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

/// One of several shares of the traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    number: usize,
    of: usize,
}

fn share(word: &str) -> Result<Share, String> {
    let parts = word.split_once('/');
    let numbers = parts.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((number, of)) if number < of => Ok(Share { number, of }),
        _ => Err("it is no share, such as 0/4, which is the first of four".to_owned()),
    }
}

/// What is to be printed, if anything is.
pub(crate) enum Asked {
    /// The answer, in the form that is wanted.
    Answer(Answer, Form),
    /// How many parts there are now, and where.
    Parts(usize, PathBuf),
}

/// Answers, or makes parts.
///
/// # Errors
/// When there is no trace, or a part cannot be written. What is wrong with a trace is in the notes of the answer.
pub(crate) fn ask(options: &OverlapOptions) -> Result<Asked> {
    let (mut files, notes) = options.inputs.files()?;
    let wanted = Options {
        marker: options.marker.clone(),
        assign: match options.assign {
            Assign::Launch => iterations::Assign::Launch,
            Assign::Window => iterations::Assign::Window,
            Assign::Partition => iterations::Assign::Partition,
        },
    };
    if let Some(share) = options.share {
        files.sort();
        let own = files.into_iter().skip(share.number).step_by(share.of);
        files = own.collect();
    }
    let jobs = options.inputs.job_count();
    let jobs_of_file = (jobs / files.len().max(1)).max(1);
    let read = BytesRead::default();
    let progress = Progress::on_terminal(read.clone(), cache::bytes_of(&files));
    if let Some(folder) = &options.parts {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let of_file = |file: &Path| {
        let read_it = || ranks::overlap_part(file, &wanted, &read, jobs_of_file);
        let Some(folder) = &options.parts else {
            return read_it();
        };
        kept(folder, file, &wanted, read_it).unwrap_or_else(|error| Part {
            notices: vec![Notice {
                file: file.display().to_string(),
                offset: None,
                text: format!("{error:#}"),
            }],
            ..Part::default()
        })
    };
    let (mut answer, model) = ranks::overlap_of(&files, &wanted, jobs, of_file);
    drop(progress);
    if let (Some(_), Some(folder)) = (options.share, &options.parts) {
        let lost = files.iter().filter(|file| !part_of(folder, file).exists());
        if let Some(lost) = lost.min() {
            let why = model
                .notices
                .iter()
                .find(|one| Path::new(&one.file) == lost);
            let why = why.map_or_else(String::new, |why| format!(": {}", why.text));
            bail!("{} has no part{why}", lost.display());
        }
        return Ok(Asked::Parts(files.len(), folder.clone()));
    }
    answer.notes.extend(notes);
    answer.closing = Some(profiling_cost(&model));
    let form = options.inputs.form();
    if matches!(form, Form::Csv) {
        // CSV has the first table.
        answer.tables.sort_by_key(|table| table.key != "iterations");
    }
    Ok(Asked::Answer(answer, form))
}

/// The file of the part of a trace: two traces of one name in different folders have two.
fn part_of(folder: &Path, file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let parent = file.parent().unwrap_or(Path::new(""));
    let parent = parent
        .canonicalize()
        .unwrap_or_else(|_| parent.to_path_buf());
    // FNV-1a, the same on all nodes.
    let hash = parent
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
        });
    folder.join(format!("{name}.{hash:016x}.iterations.parquet"))
}

/// What is kept of a trace, else what is found, which is kept.
fn kept(
    folder: &Path,
    file: &Path,
    options: &Options,
    find: impl FnOnce() -> Part,
) -> Result<Part> {
    let path = part_of(folder, file);
    let source = source(file)?;
    if let Ok(bytes) = fs::read(&path)
        && let Ok(part) = Part::read(&bytes, options, &source)
    {
        return Ok(part);
    }
    let part = find();
    let bytes = part.write(options, &source)?;
    // Whoever looks meanwhile sees the old part, or the new one.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, &path));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(part)
}

/// What a trace is, and when it changed, with the files in which it goes on.
fn source(file: &Path) -> Result<String> {
    let parts = read::further_parts(file);
    let mut text = String::new();
    for one in std::iter::once(file.to_path_buf()).chain(parts) {
        let known = fs::metadata(&one).with_context(|| one.display().to_string())?;
        let changed = known
            .modified()
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let nanoseconds = changed.map_or(0, |since| since.as_nanos());
        let name = one.file_name().unwrap_or_default().to_string_lossy();
        text.push_str(&format!("{name}: {} {nanoseconds}\n", known.len()));
    }
    Ok(text)
}
