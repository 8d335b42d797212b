//! How a run ended and what it left behind.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result, bail};

use crate::packets::{PacketScan, scan_packets};
use crate::paths::Scratch;
use crate::samples::Samples;
use crate::summary::Summary;
use crate::trace::Trace;

/// What there is to see after a run.
#[derive(Debug)]
pub struct Outcome {
    /// How `rsys-sample` (or the bare program) ended.
    pub status: ExitStatus,
    /// What came out on standard output.
    pub stdout: String,
    /// What came out on standard error.
    pub stderr: String,
    /// One per line of the closing summary.
    pub summaries: Vec<Summary>,
    /// Where the traces are.
    pub output: PathBuf,
    /// The room that the run had to itself.
    pub scratch: Scratch,
}

impl Outcome {
    pub(crate) fn new(
        status: ExitStatus,
        stdout: String,
        stderr: String,
        output: PathBuf,
        scratch: Scratch,
    ) -> Self {
        let summaries = stderr.lines().filter_map(Summary::parse).collect();
        Self {
            status,
            stdout,
            stderr,
            summaries,
            output,
            scratch,
        }
    }

    /// Fails unless the exit code is 0.
    #[track_caller]
    pub fn expect_success(&self) -> &Self {
        self.expect_code(0)
    }

    /// Fails unless the exit code is this one.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert!(
            self.status.code() == Some(code),
            "expected exit code {code}\n{}",
            self.story()
        );
        self
    }

    /// Fails unless the end was this signal.
    #[track_caller]
    pub fn expect_signal(&self, number: i32) -> &Self {
        assert!(
            self.status.signal() == Some(number),
            "expected death by signal {number}\n{}",
            self.story()
        );
        self
    }

    /// Everything that helps to understand a failure.
    #[must_use]
    pub fn story(&self) -> String {
        let files: Vec<String> = self
            .files()
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        format!(
            "ended: {}\n--- stdout\n{}\n--- stderr\n{}\n--- traces\n{}",
            self.status,
            shorten(&self.stdout),
            shorten(&self.stderr),
            files.join("\n")
        )
    }

    /// All trace files below the output folder, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect_traces(&self.output, &mut files);
        files.retain(|path| !is_of_short_processes(path));
        files.sort();
        files
    }

    /// The trace that short processes share, if there were any.
    #[must_use]
    pub fn short_processes(&self) -> Option<PathBuf> {
        let mut files = Vec::new();
        collect_traces(&self.output, &mut files);
        files.into_iter().find(|path| is_of_short_processes(path))
    }

    /// The only trace, but for that of a shell that became the program: on a busy machine it may have samples enough for one.
    ///
    /// # Errors
    /// When there is none or more than one, or it does not load.
    pub fn trace(&self) -> Result<Trace> {
        let is_shell = |path: &PathBuf| {
            let mut summaries = self.summaries.iter();
            let own = summaries.find(|summary| summary.path == *path);
            own.is_some_and(|own| {
                matches!(own.name.as_str(), "bash" | "dash" | "sh") && self.has_another_trace(own)
            })
        };
        let mut files = self.files();
        files.retain(|path| !is_shell(path));
        match files.as_slice() {
            [file] => self.open(file),
            files => bail!(
                "expected one trace, found {}\n{}",
                files.len(),
                self.story()
            ),
        }
    }

    /// Whether the process of this trace has another one: it was one program, and became another.
    #[must_use]
    pub fn has_another_trace(&self, of: &Summary) -> bool {
        let mut others = self.summaries.iter();
        others.any(|other| other.pid == of.pid && other.path != of.path)
    }

    /// All traces, one per process. All are open at once: for many, take [`Outcome::all_clean`].
    ///
    /// # Errors
    /// When one does not load.
    pub fn traces(&self) -> Result<Vec<Trace>> {
        self.files().iter().map(|file| self.open(file)).collect()
    }

    /// The trace of the process with this name in the summary; of several, the one with the most samples.
    ///
    /// # Errors
    /// When there is none or it does not load.
    pub fn trace_of(&self, name: &str) -> Result<Trace> {
        let mine = self.summaries.iter().filter(|summary| summary.name == name);
        let most = mine.max_by_key(|summary| summary.samples);
        let summary =
            most.with_context(|| format!("no process `{name}` in the summary\n{}", self.story()))?;
        self.open(&summary.path)
    }

    /// Fails unless every trace is clean, and returns the samples of all of them. Of very many, an even choice is looked at.
    ///
    /// # Errors
    /// When one does not load.
    #[track_caller]
    pub fn all_clean(&self) -> Result<Samples> {
        const JUDGED_AT_MOST: usize = 12;
        let files = self.files();
        let mut samples = Samples::default();
        for file in files
            .iter()
            .step_by(files.len().div_ceil(JUDGED_AT_MOST).max(1))
        {
            let trace = self.open(file)?;
            trace.assert_clean();
            samples.append(trace.samples()?);
        }
        Ok(samples)
    }

    /// Counts over all files, without a trace processor; fails when a file is not an exact sequence of packets, or
    /// when the counts are not those of the summary.
    ///
    /// # Errors
    /// When a file cannot be read or is malformed.
    #[track_caller]
    pub fn assert_counts(&self) -> Result<PacketScan> {
        let mut total = PacketScan::default();
        for file in self.files() {
            let found = scan_packets(&file).with_context(|| self.story())?;
            let summary = self
                .summaries
                .iter()
                .find(|summary| same_file(&summary.path, &file));
            let summary = summary.with_context(|| {
                format!("{} is not in the summary\n{}", file.display(), self.story())
            })?;
            assert_eq!(
                found.torn_bytes,
                0,
                "{} ends in a torn packet",
                file.display()
            );
            assert_eq!(
                found.samples,
                summary.samples,
                "samples in {}",
                file.display()
            );
            assert_eq!(
                found.weight,
                summary.weighted,
                "weighted samples in {}",
                file.display()
            );
            assert_eq!(
                found.begins,
                found.ends,
                "open slices in {}",
                file.display()
            );
            let waits = summary.waits.as_ref();
            assert_eq!(
                found.wait_samples,
                waits.map_or(0, |waits| waits.samples),
                "samples of waits in {}",
                file.display()
            );
            total.wait_samples += found.wait_samples;
            total.wait_ns += found.wait_ns;
            total.gpu_samples += found.gpu_samples;
            total.gpu_ns += found.gpu_ns;
            total.call_samples += found.call_samples;
            total.packets += found.packets;
            total.samples += found.samples;
            total.weight += found.weight;
            total.begins += found.begins;
            total.kernel_begins += found.kernel_begins;
            total.ends += found.ends;
        }
        Ok(total)
    }

    /// The sum of the dropped records over all processes.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.summaries.iter().map(|summary| summary.dropped).sum()
    }

    /// The number after `name=` in the program's output.
    ///
    /// # Errors
    /// When it is not there.
    pub fn number(&self, name: &str) -> Result<f64> {
        let wanted = format!("{name}=");
        let word = self
            .stdout
            .split_whitespace()
            .find_map(|word| word.strip_prefix(&wanted));
        let word = word
            .with_context(|| format!("the program did not print `{wanted}`\n{}", self.story()))?;
        word.parse()
            .with_context(|| format!("`{wanted}{word}` is not a number"))
    }

    fn open(&self, file: &Path) -> Result<Trace> {
        let mine = self
            .summaries
            .iter()
            .find(|summary| same_file(&summary.path, file));
        Trace::load(file, mine.cloned()).with_context(|| self.story())
    }
}

fn collect_traces(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !path.is_symlink() {
            collect_traces(&path, found);
        } else if name.starts_with("perfetto-trace-") && name.ends_with(".proto") {
            found.push(path);
        }
    }
}

fn is_of_short_processes(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("perfetto-trace-short")
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.file_name() == other.file_name(),
    }
}

fn shorten(text: &str) -> String {
    const KEPT_CHARS: usize = 4000;
    let length = text.chars().count();
    if length <= KEPT_CHARS {
        return text.to_owned();
    }
    let tail: String = text.chars().skip(length - KEPT_CHARS).collect();
    format!("[… {} characters]{tail}", length - KEPT_CHARS)
}
