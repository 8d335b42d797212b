//! Traces in the formats of other tools: a file for each format, made of the tables of records.
//!
//! | module | writes |
//! |---|---|
//! | [`chrome`] | JSON of PyTorch's profiler (Kineto) and of Chrome |
//! | [`rpd`] | SQLite databases of rocmProfileData |
//! | [`rocpd`] | SQLite databases of rocprofiler-sdk |
//! | [`folded`], [`speedscope`], [`pprof`] | call stacks |
//! | [`firefox`] | profiles for the Firefox Profiler |
//! | [`rocprofv3`] | JSON of rocprofv3 |
//! | [`aorta`] | JSON lines of AORTA's trainer |
//! | [`csv`], [`parquet`] | each table as a file |
//! | [`run`], [`chooser`], [`rows`], [`calls`], [`links`], [`stacks`], [`streams`], [`copies`], [`memory`], [`json`] | nothing: which records are written, rows of tables, calls, the stacks of calls that launched something, call stacks, numbers of streams, directions of copies, which calls make memory, parts of JSON |
//! | [`background`], [`put`], [`sqlite`] | nothing: they make it fast: a thread that writes and packs, text without formatting, databases written page by page |
//!
//! What is written depends on the records alone: the same traces, named in whatever order, give the same bytes.

#![forbid(unsafe_code)]

mod aorta;
mod background;
mod calls;
mod chooser;
mod chrome;
mod copies;
mod csv;
mod firefox;
mod folded;
mod json;
mod links;
mod memory;
mod parquet;
mod pprof;
mod put;
mod rocpd;
mod rocprofv3;
mod rows;
mod rpd;
mod run;
mod speedscope;
mod sqlite;
mod stacks;
mod streams;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rsys_analysis::containers::packed_rows::RowFile;
use rsys_tables::store::{Store, StoreError};
use rsys_tables::view::View;
use thiserror::Error;

use background::Background;
use run::Run;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON as PyTorch's profiler writes it.
    Kineto,
    /// The same with waits and counters, for viewers.
    Chrome,
    /// A database of rocmProfileData.
    Rpd,
    /// A database of rocprofiler-sdk.
    Rocpd,
    /// A line for each call stack.
    Folded,
    /// JSON for speedscope.
    Speedscope,
    /// A gzipped profile for pprof.
    Pprof,
    /// JSON for the Firefox Profiler.
    Firefox,
    /// JSON as rocprofv3 writes it.
    Rocprofv3Json,
    /// A folder with JSON lines for each rank, as AORTA's trainer writes it.
    Aorta,
    /// A folder with a CSV file for each table.
    Csv,
    /// A folder with a Parquet file for each table.
    Parquet,
}

impl Format {
    /// How all files end that are written.
    #[must_use]
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Kineto => &[".pt.trace.json.gz"],
            Self::Chrome => &[".trace.json.gz"],
            Self::Rpd => &[".rpd"],
            Self::Rocpd => &[".db"],
            Self::Folded => &[".folded"],
            Self::Speedscope => &[".speedscope.json"],
            Self::Pprof => &[".pb.gz"],
            Self::Firefox => &[".firefox.json.gz"],
            Self::Rocprofv3Json => &["_results.json"],
            Self::Aorta => &["_metrics.jsonl", "summary.json"],
            Self::Csv => &[".csv"],
            Self::Parquet => &[".parquet"],
        }
    }

    /// Whether an output is a folder.
    #[must_use]
    pub fn is_folder(self) -> bool {
        matches!(self, Self::Aorta | Self::Csv | Self::Parquet)
    }

    /// How the output for a rank ends.
    fn ending(self) -> &'static str {
        match self.is_folder() {
            true => "",
            false => self.endings().first().copied().unwrap_or_default(),
        }
    }
}

/// Which call stacks are written, where a format holds those of one kind of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time {
    /// Those of CPU time.
    #[default]
    Cpu,
    /// Those of threads that waited.
    Wait,
    /// Those that launched kernels, by the kernels' time.
    Gpu,
}

/// Kinds of records that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Only {
    /// Operations of GPUs, and calls of HIP and HSA.
    pub gpu: bool,
    /// Calls of RCCL, MPI, OpenSHMEM and UCX.
    pub rccl: bool,
    /// Ranges, marks, operators and functions that were recorded.
    pub ranges: bool,
    /// Samples and waits of threads.
    pub samples: bool,
    /// Counters and sensors.
    pub sensors: bool,
}

impl Only {
    /// All of them.
    pub const ALL: Self = Self {
        gpu: true,
        rccl: true,
        ranges: true,
        samples: true,
        sensors: true,
    };

    /// Whether calls of a runtime are written, as the table `calls` names it.
    fn has_calls_of(self, runtime: &str) -> bool {
        if runtime == "RCCL" {
            self.rccl
        } else {
            self.gpu
        }
    }
}

impl Default for Only {
    fn default() -> Self {
        Self::ALL
    }
}

/// What is written.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The first and the last of ranges of ranks, which alone are written; all processes if there are none.
    pub ranks: Vec<(u64, u64)>,
    /// What lies in this time at least in part, in nanoseconds since the first record of the run.
    pub window: Option<Range<u64>>,
    /// These kinds of records only.
    pub only: Only,
    /// The time of the call stacks.
    pub time: Time,
}

/// Why a file was not written.
#[derive(Debug, Error)]
pub enum Failure {
    /// The tables cannot be read.
    #[error("the file of tables {0}")]
    Store(#[from] StoreError),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The database cannot be written.
    #[error("the database: {0}")]
    Database(String),
    /// No process is chosen.
    #[error("the traces are of other ranks than those: {0}")]
    Ranks(String),
}

impl From<rusqlite::Error> for Failure {
    /// SQLite's own words, which its error has for a source as well.
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.to_string())
    }
}

/// How an output is written.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// The format.
    pub format: Format,
    /// A folder with a file for each rank.
    pub is_each_rank: bool,
    /// JSON and lines are packed by gzip. Files for each rank are in whatever form their ending says.
    pub is_packed: bool,
}

/// Writes the records of a store to `path`, where nothing is yet. What has to be brought in order first is in an empty file meanwhile, which is of no use
/// then.
///
/// # Errors
/// When the tables cannot be read, the output cannot be written, or no rank is in the traces that is chosen.
pub fn export(
    store: File,
    scratch: File,
    selection: &Selection,
    output: Output,
    path: &Path,
) -> Result<(), Failure> {
    let view = View::new(Store::open(store)?);
    let file = Arc::new(RowFile::new(scratch));
    let run = Run::read(&view, selection, &file)?;
    if run.processes().next().is_none() && !selection.ranks.is_empty() {
        return Err(Failure::Ranks(run.all_ranks()));
    }
    let made = match output.is_each_rank {
        true => write_each_rank(&run, output, selection.time, path),
        false => write(&run, output, selection.time, path),
    };
    // Rows that cannot be read back are none.
    made.and(file.failure().map_or(Ok(()), |error| Err(error.into())))
}

/// Writes a folder with a file for each rank.
fn write_each_rank(run: &Run<'_>, output: Output, time: Time, path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path)?;
    let ending = output.format.ending();
    let output = Output {
        is_packed: ending.ends_with(".gz"),
        ..output
    };
    for (name, ids) in run.by_rank() {
        write(&run.part(&ids), output, time, &path.join(name + ending))?;
    }
    Ok(())
}

fn write(run: &Run<'_>, output: Output, time: Time, path: &Path) -> Result<(), Failure> {
    let streamed = |to: &mut dyn FnMut(&mut dyn Write) -> Result<(), Failure>| {
        let mut file = Background::new(File::create_new(path)?, output.is_packed)?;
        let made = to(&mut file);
        // What the thread that writes says is the reason, where both have failed.
        file.finish()?;
        made
    };
    match output.format {
        Format::Kineto => streamed(&mut |out| chrome::write(run, chrome::Form::Kineto, out)),
        Format::Chrome => streamed(&mut |out| chrome::write(run, chrome::Form::Chrome, out)),
        Format::Folded => streamed(&mut |out| folded::write(run, time, out)),
        Format::Speedscope => streamed(&mut |out| speedscope::write(run, time, out)),
        Format::Firefox => streamed(&mut |out| firefox::write(run, time, out)),
        Format::Pprof => {
            let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create_new(path)?);
            pprof::write(run, time, &mut file)?;
            Ok(file.flush()?)
        }
        Format::Rpd => rpd::write(run, path),
        Format::Rocpd => rocpd::write(run, path),
        Format::Rocprofv3Json => streamed(&mut |out| rocprofv3::write(run, out)),
        Format::Aorta => aorta::write(run, path),
        Format::Csv => csv::write(run, path),
        Format::Parquet => parquet::write(run, path),
    }
}
