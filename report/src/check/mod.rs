//! `rsys-report check`: whether a folder of traces is what the job should have left.
//!
//! Every rank has a trace, each trace was finished, nothing was lost, and the clocks can be brought together.

mod job;
mod look;
mod merged;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use crate::files::{PERFETTO, short_name, traces};
use crate::words::counted;
use rsys_traces::perfetto::clocks::WallClock;
use rsys_traces::perfetto::losses::Losses;

pub use job::Job;
use look::{Found, look_at_all};
pub use merged::MergedReport;

/// A wall clock that moves by more than this against BOOTTIME within a trace was set.
const STEP_NS: u64 = 10_000_000;

/// How a trace ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The profiler finished it.
    Finished,
    /// The profiler was killed; `rsys-report recover` finished it.
    Recovered,
    /// The profiler was killed.
    Cut,
    /// Nothing but descriptions are in it: the profiler was killed in its first moments.
    Empty,
    /// It is not from rsys: unknown.
    Foreign,
    /// It cannot be read.
    Unreadable(String),
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Recovered => "recovered",
            Self::Cut => "cut",
            Self::Empty => "empty",
            Self::Foreign => "foreign",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

/// What is to be known of one trace.
#[derive(Debug, Clone)]
pub struct TraceReport {
    /// The file.
    pub path: PathBuf,
    /// How it ends.
    pub state: State,
    /// What it is, if it is a file of another profiler.
    pub kind: Option<&'static str>,
    /// The rank.
    pub rank: Option<u64>,
    /// How many ranks there are, by its launcher.
    pub rank_count: Option<u64>,
    /// The host.
    pub host: String,
    /// The process.
    pub pid: Option<u64>,
    /// The command.
    pub command: String,
    /// How the program ended.
    pub end: String,
    /// Samples in the trace.
    pub samples: u64,
    /// What was lost.
    pub losses: Losses,
    /// The share of the CPU time that the samples stand for, in percent.
    pub coverage_percent: Option<f64>,
    /// Bytes behind the last whole packet.
    pub torn_bytes: u64,
    wall_clock: WallClock,
}

/// What is to be known of a folder.
#[derive(Debug)]
pub struct Report {
    /// The traces, by rank and name.
    pub traces: Vec<TraceReport>,
    /// Merged traces among them. Beside others they are only counted: what is in them stands there too.
    pub merged: Vec<MergedReport>,
    /// What the job says of itself.
    pub job: Option<Job>,
    /// Ranks that should be there.
    pub expected_ranks: BTreeSet<u64>,
    /// Ranks that should have a trace and have none.
    pub missing_ranks: Vec<u64>,
    /// What is wrong.
    pub problems: Vec<String>,
    /// What is worth knowing.
    pub remarks: Vec<String>,
}

/// Looks at the traces that `paths` name. Up to `loss_percent_max` percent of lost records are no problem.
///
/// # Errors
/// When there are no traces, or a folder cannot be read. What is wrong with a trace is in the report.
pub fn check(paths: &[PathBuf], loss_percent_max: f64) -> Result<Report> {
    let files = traces(paths, PERFETTO, None)?;
    let (mut reports, mut merged) = (Vec::new(), Vec::new());
    for found in look_at_all(&files) {
        match found {
            Found::Trace(report) => reports.push(*report),
            Found::Merged(report) => merged.push(report),
        }
    }
    reports.sort_by_key(|report| (report.rank.unwrap_or(u64::MAX), report.path.clone()));
    let mut remarks = Vec::new();
    let job = match Job::find(paths) {
        Ok(job) => job,
        Err(error) => {
            remarks.push(format!("{error:#}"));
            None
        }
    };
    let expected_ranks = expected_ranks(&reports, job.as_ref());
    let mut there: BTreeSet<u64> = reports.iter().filter_map(|report| report.rank).collect();
    if reports.is_empty() {
        there.extend(merged.iter().flat_map(|one| &one.ranks));
    }
    let mut missing_ranks: Vec<u64> = expected_ranks.difference(&there).copied().collect();
    if let Some(job) = &job {
        remarks.extend(reasons(&mut missing_ranks, job));
    }
    let mut report = Report {
        missing_ranks,
        merged,
        traces: reports,
        job,
        expected_ranks,
        problems: Vec::new(),
        remarks,
    };
    report.judge(loss_percent_max);
    Ok(report)
}

/// Says why ranks have no trace, as far as that is recorded, and takes those away with which nothing is wrong.
fn reasons(missing: &mut Vec<u64>, job: &Job) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    missing.retain(|rank| {
        let Some((reason, expected)) = job.without_trace.get(rank) else {
            return true;
        };
        by_reason.entry(reason).or_default().push(*rank);
        !expected
    });
    by_reason
        .iter()
        .map(|(reason, ranks)| {
            let plural = if ranks.len() == 1 { "" } else { "s" };
            format!("rank{plural} {} left no trace: {reason}", ranges(ranks))
        })
        .collect()
}

fn expected_ranks(reports: &[TraceReport], job: Option<&Job>) -> BTreeSet<u64> {
    if let Some(ranks) = job.and_then(|job| job.profiled_ranks.clone()) {
        return ranks;
    }
    let of_job = job.and_then(|job| job.rank_count);
    let told = reports.iter().filter_map(|report| report.rank_count).max();
    let count = of_job.or(told).unwrap_or(0);
    // A count that no machine has comes from a damaged file.
    (0..count.min(1 << 24)).collect()
}

impl Report {
    fn judge(&mut self, loss_percent_max: f64) {
        let problems = &mut self.problems;
        if !self.missing_ranks.is_empty() {
            problems.push(format!(
                "no trace of {} of {} ranks: {}",
                self.missing_ranks.len(),
                self.expected_ranks.len(),
                ranges(&self.missing_ranks)
            ));
        }
        for trace in &self.traces {
            let name = short_name(&trace.path);
            if let Some(kind) = trace.kind {
                self.remarks.push(format!(
                    "{name}: {kind}: only traces of rsys-sample say whether they are whole; `rsys-report summary` answers questions on it, and its notes say what cannot be read"
                ));
            }
            match &trace.state {
                State::Cut => problems.push(format!(
                    "{name}: cut off{}; `rsys-report recover` finishes it and keeps its {}",
                    match trace.torn_bytes {
                        0 => String::new(),
                        bytes => format!(" within a packet ({})", counted(bytes, "byte")),
                    },
                    counted(trace.samples, "sample")
                )),
                State::Empty => problems.push(format!(
                    "{name}: nothing is in it: its profiler was killed in its first moments"
                )),
                State::Unreadable(why) => problems.push(format!("{name}: unreadable: {why}")),
                State::Finished | State::Recovered | State::Foreign => {}
            }
            let line = loss(&name, &trace.losses);
            if trace.losses.percent() > loss_percent_max {
                problems.extend(line);
            } else {
                self.remarks.extend(line);
            }
        }
        for merged in &self.merged {
            self.remarks.push(merged.note(self.traces.is_empty()));
            self.problems.extend(merged.problem());
            // Beside others it says what they say.
            if self.traces.is_empty() {
                let line = loss(&short_name(&merged.path), &merged.losses);
                if merged.losses.percent() > loss_percent_max {
                    self.problems.extend(line);
                } else {
                    self.remarks.extend(line);
                }
            }
        }
        self.judge_clocks();
        if let Some(job) = &self.job {
            self.remarks.extend(job.remarks.iter().cloned());
        }
    }

    fn judge_clocks(&mut self) {
        let hosts: BTreeSet<&str> = self
            .traces
            .iter()
            .map(|trace| trace.host.as_str())
            .collect();
        for trace in &self.traces {
            if matches!(trace.state, State::Unreadable(_)) {
                continue;
            }
            let name = short_name(&trace.path);
            let points = &trace.wall_clock.points;
            if points.is_empty() && hosts.len() > 1 {
                self.problems.push(format!(
                    "{name}: no snapshot of the wall clock, so its times cannot be related to those of other hosts"
                ));
            }
            let moved = points
                .windows(2)
                .map(|pair| pair[1].1.abs_diff(pair[0].1))
                .max();
            if let Some(moved) = moved.filter(|&moved| moved > STEP_NS) {
                self.remarks.push(format!(
                    "{name}: the wall clock of {} was moved by {:.1} ms while it was recorded",
                    trace.host,
                    moved as f64 / 1e6
                ));
            }
        }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for trace in &self.traces {
            if let Some(kind) = trace.kind {
                lines.push(format!("{}, {kind}", trace.path.display()));
                continue;
            }
            let mut words = vec![
                trace.path.display().to_string(),
                trace.state.name().to_owned(),
            ];
            words.extend(trace.rank.map(|rank| format!("rank {rank}")));
            words.extend((!trace.host.is_empty()).then(|| format!("host {}", trace.host)));
            words.extend(trace.pid.map(|pid| format!("pid {pid}")));
            words.push(counted(trace.samples, "sample"));
            words.push(format!("{} lost", trace.losses.total()));
            words.extend(
                trace
                    .coverage_percent
                    .map(|percent| format!("{percent:.1} % covered")),
            );
            words.extend(self.clock_words(trace));
            words.extend((!trace.end.is_empty()).then(|| trace.end.clone()));
            lines.push(words.join(", "));
        }
        let hosts: BTreeSet<&str> = self
            .traces
            .iter()
            .map(|trace| trace.host.as_str())
            .collect();
        let mut sum = if self.traces.is_empty() {
            counted(self.merged.len() as u64, "merged trace")
        } else {
            let traces = counted(self.traces.len() as u64, "trace");
            format!("{traces}, {}", counted(hosts.len() as u64, "host"))
        };
        if !self.expected_ranks.is_empty() {
            let mut ranks: BTreeSet<u64> =
                self.traces.iter().filter_map(|trace| trace.rank).collect();
            if self.traces.is_empty() {
                ranks.extend(self.merged.iter().flat_map(|one| &one.ranks));
            }
            let there = self.expected_ranks.intersection(&ranks).count();
            sum.push_str(&format!(", {there} of {} ranks", self.expected_ranks.len()));
        }
        lines.extend(self.remarks.iter().map(|remark| format!("note: {remark}")));
        lines.extend(
            self.problems
                .iter()
                .map(|problem| format!("problem: {problem}")),
        );
        let is_foreign = |one: &TraceReport| one.kind.is_some();
        let has_ours = !self.traces.iter().all(is_foreign) || self.traces.is_empty();
        lines.push(match self.problems.len() {
            0 if !has_ours => {
                let files = counted(self.traces.len() as u64, "file");
                format!("nothing to check: {files} of other profilers")
            }
            0 => format!("ok: {sum}"),
            count => format!("not ok: {sum}, {}", counted(count as u64, "problem")),
        });
        lines.join("\n") + "\n"
    }

    /// How well the clock of a trace is known: of a single one, how much its wall clock drifted.
    fn clock_words(&self, trace: &TraceReport) -> Option<String> {
        let points = &trace.wall_clock.points;
        let (first, last) = (points.first()?, points.last()?);
        let moved_ns = last.1 - first.1;
        Some(format!(
            "{}, wall clock moved {:.3} ms",
            counted(points.len() as u64, "clock snapshot"),
            moved_ns as f64 / 1e6
        ))
    }

    /// The report for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let traces: Vec<Value> = self
            .traces
            .iter()
            .map(|trace| {
                let points = &trace.wall_clock.points;
                let moved = points
                    .first()
                    .zip(points.last())
                    .map(|(first, last)| last.1 - first.1);
                json!({
                    "path": trace.path.to_string_lossy(),
                    "state": trace.state.name(),
                    "kind": trace.kind,
                    "error": match &trace.state {
                        State::Unreadable(why) => Some(why),
                        _ => None,
                    },
                    "rank": trace.rank,
                    "host": trace.host,
                    "pid": trace.pid,
                    "command": trace.command,
                    "end": trace.end,
                    "samples": trace.samples,
                    "lost": trace.losses.by_cause,
                    "coverage_percent": trace.coverage_percent,
                    "torn_bytes": trace.torn_bytes,
                    "clock_snapshots": points.len(),
                    "wall_clock_moved_ns": moved,
                })
            })
            .collect();
        json!({
            "ok": self.is_ok(),
            "traces": traces,
            "merged": self.merged.iter().map(MergedReport::json).collect::<Vec<_>>(),
            "ranks_expected": self.expected_ranks.len(),
            "ranks_missing": self.missing_ranks,
            "problems": self.problems,
            "notes": self.remarks,
        })
    }
}

/// What was lost of a trace, if anything was.
fn loss(name: &str, losses: &Losses) -> Option<String> {
    let causes = losses.by_cause.iter();
    let causes: Vec<String> = causes
        .map(|(cause, count)| format!("{count} {cause}"))
        .collect();
    let percent = losses.percent();
    (losses.total() > 0).then(|| format!("{name}: {percent:.2} % lost ({})", causes.join(", ")))
}

/// Numbers in order as `0-3,7`.
fn ranges(numbers: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let runs: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        })
        .collect();
    runs.join(",")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn runs_of_ranks_are_short() {
        for (numbers, text) in [
            (&[][..], ""),
            (&[4], "4"),
            (&[0, 1, 2, 7, 9, 10], "0-2,7,9-10"),
        ] {
            assert_eq!(ranges(numbers), text);
        }
    }
}
