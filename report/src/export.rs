//! `rsys-report export`: traces in the formats of other tools.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rsys_export::{Format, Only, Output, Selection, Time};

use crate::cut::parse_time;
use crate::inputs::{CacheOptions, Jobs};
use crate::query::tables;

/// Options of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    /// Folders with traces, or traces
    #[arg(required = true, value_name = "DIR|TRACE")]
    inputs: Vec<PathBuf>,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// The file that is written, packed if its name ends with .gz; for aorta, csv and parquet, and with --each-rank, a folder
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A file for each rank, in the folder that --output names
    #[arg(long)]
    each_rank: bool,
    /// Replace the file if it is already there
    #[arg(short, long)]
    force: bool,
    /// These ranks only: 0,3,8-15
    #[arg(long, value_name = "RANK,...", value_delimiter = ',', value_parser = rank_range)]
    ranks: Vec<(u64, u64)>,
    /// What lies in this time at least in part, since the first record of the run: 20s..30s, 500ms.., ..2min
    #[arg(long, value_name = "FROM..TO", value_parser = window)]
    window: Option<Window>,
    /// These records only
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT,...")]
    only: Vec<What>,
    /// Which time call stacks are written with (folded, speedscope, firefox; shown first by pprof)
    #[arg(long, value_enum, value_name = "TIME", default_value_t = Of::Cpu)]
    of: Of,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    cache: CacheOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// JSON as PyTorch's profiler writes it: TraceLens, HTA
    Kineto,
    /// The same with waits and counters: chrome://tracing, Perfetto
    Chrome,
    /// A database of rocmProfileData: its scripts, ROCm Optiq, SQL
    Rpd,
    /// A database of rocprofiler-sdk, with samples and call stacks: rocpd, ROCm Optiq, SQL
    Rocpd,
    /// A line for each call stack: flame graphs
    Folded,
    /// JSON for speedscope
    Speedscope,
    /// A gzipped profile for pprof
    Pprof,
    /// JSON for the Firefox Profiler: samples, and markers for kernels, calls, ranges and waits
    Firefox,
    /// JSON as rocprofv3 writes it: TraceLens
    Rocprofv3Json,
    /// A folder as AORTA's trainer writes it, with the overlap of computation and communication
    Aorta,
    /// Each table of `rsys-report query` as a CSV file in a folder
    Csv,
    /// The same as Parquet files: DuckDB, Polars, pandas, Spark
    Parquet,
}

impl To {
    fn format(self) -> Format {
        match self {
            Self::Kineto => Format::Kineto,
            Self::Chrome => Format::Chrome,
            Self::Rpd => Format::Rpd,
            Self::Rocpd => Format::Rocpd,
            Self::Folded => Format::Folded,
            Self::Speedscope => Format::Speedscope,
            Self::Pprof => Format::Pprof,
            Self::Firefox => Format::Firefox,
            Self::Rocprofv3Json => Format::Rocprofv3Json,
            Self::Aorta => Format::Aorta,
            Self::Csv => Format::Csv,
            Self::Parquet => Format::Parquet,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Operations of GPUs, and calls of HIP and HSA
    Gpu,
    /// Calls of RCCL, MPI, OpenSHMEM and UCX
    Rccl,
    /// Ranges, marks, operators and recorded functions
    Ranges,
    /// Samples and waits of threads
    Samples,
    /// Counters and sensors
    Sensors,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Of {
    /// CPU time
    Cpu,
    /// Waits, by --realtime
    Wait,
    /// Kernels, below the stacks that launched them
    Gpu,
}

/// Nanoseconds since the first record.
type Window = Range<u64>;

fn window(word: &str) -> Result<Window> {
    let Some((from, to)) = word.split_once("..") else {
        bail!("{word:?} is not a time range, such as 20s..30s");
    };
    let time = |word: &str, default: u64| match word.trim() {
        "" => Ok(default),
        word => parse_time(word),
    };
    let window = time(from, 0)?..time(to, u64::MAX)?;
    if window.is_empty() {
        bail!("{word:?} ends before it begins");
    }
    Ok(window)
}

/// The first and the last of some ranks.
fn rank_range(word: &str) -> Result<(u64, u64)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => bail!("{word:?} is not a rank, such as 3, or a range of ranks, such as 8-15"),
    }
}

fn only(chosen: &[What]) -> Only {
    let has = |what| chosen.is_empty() || chosen.contains(&what);
    Only {
        gpu: has(What::Gpu),
        rccl: has(What::Rccl),
        ranges: has(What::Ranges),
        samples: has(What::Samples),
        sensors: has(What::Sensors),
    }
}

/// Writes the file.
///
/// # Errors
/// When there is no trace, or the file cannot be written.
pub(crate) fn export(options: ExportOptions) -> Result<i32> {
    let output = &options.output;
    let told = || output.display().to_string();
    let format = options.to.format();
    let selection = Selection {
        ranks: options.ranks,
        window: options.window,
        only: only(&options.only),
        time: match options.of {
            Of::Cpu => Time::Cpu,
            Of::Wait => Time::Wait,
            Of::Gpu => Time::Gpu,
        },
    };
    let is_folder = options.each_rank || format.is_folder();
    if output.exists() {
        if !options.force {
            bail!(
                "{} is already there; name another output, or replace it with --force",
                told()
            );
        }
        // A slip of the hand costs a file at most.
        if output.is_dir() != is_folder || is_folder && !is_ours(output, format) {
            bail!(
                "{} is there and was not written by export: remove it first",
                told()
            );
        }
    }
    let beside = output.parent();
    let store = tables(&options.inputs, options.cache, options.jobs, beside)?;
    let draft = Draft::beside(output)?;
    let form = Output {
        format,
        is_each_rank: options.each_rank,
        is_packed: output.extension().is_some_and(|ending| ending == "gz"),
    };
    let failed = || format!("cannot write {}", told());
    let scratch = crate::cache::unnamed(beside).with_context(failed)?;
    rsys_export::export(store, scratch, &selection, form, &draft.0).with_context(failed)?;
    // A folder cannot take another's place: the old one makes room, and goes when the new one is there.
    let mut old = draft.0.clone().into_os_string();
    old.push(".old");
    let makes_room = is_folder && output.is_dir();
    if makes_room {
        std::fs::rename(output, &old).with_context(failed)?;
    }
    let renamed = std::fs::rename(&draft.0, output);
    if makes_room {
        match &renamed {
            Ok(()) => std::fs::remove_dir_all(&old).with_context(failed)?,
            // Its name is free, and it had it a moment ago.
            Err(_) => std::fs::rename(&old, output).with_context(failed)?,
        }
    }
    renamed.with_context(failed)?;
    Ok(0)
}

/// Whether a folder holds nothing but what an export to this format writes.
fn is_ours(folder: &Path, format: Format) -> bool {
    let Ok(mut entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.path().is_dir() {
                true => format.is_folder() && is_ours(&entry.path(), format),
                false => format.endings().iter().any(|ending| name.ends_with(ending)),
            }
        })
    })
}

/// The output while it is not complete, beside its place. What is left of it goes away.
struct Draft(PathBuf);

impl Draft {
    fn beside(output: &Path) -> Result<Self> {
        let name = output
            .file_name()
            .with_context(|| format!("{} names no file", output.display()))?;
        if let Some(folder) = output.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot write {}", output.display()))?;
        }
        let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        Ok(Self(output.with_file_name(name)))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Of these two at most one is there.
        std::fs::remove_file(&self.0).ok();
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_two_ends() {
        for (word, expected) in [
            ("20s..30s", Some(20_000_000_000..30_000_000_000)),
            ("500ms..", Some(500_000_000..u64::MAX)),
            ("..2min", Some(0..120_000_000_000)),
            ("..", Some(0..u64::MAX)),
            ("3s..3s", None),
            ("3s", None),
            ("a..b", None),
        ] {
            assert_eq!(window(word).ok(), expected, "{word}");
        }
    }

    #[test]
    fn ranks_are_numbers_and_ranges() {
        for (word, expected) in [
            ("3", Some((3, 3))),
            ("8-15", Some((8, 15))),
            ("5-2", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(rank_range(word).ok(), expected, "{word}");
        }
    }
}
