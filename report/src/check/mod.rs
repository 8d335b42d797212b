//! `rsys-report check`: whether a folder of traces is what the job should have left.
//!
//! Every rank has a trace, each trace was finished, nothing was lost, and the clocks can be brought together.

mod job;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use rsys_proto::fields::packet;
use rsys_proto::message::Fields;
use serde_json::{Value, json};

use crate::clocks::WallClock;
use crate::files::{short_name, traces};
use crate::metadata::Datum;
use crate::survey::{Depth, Survey};

pub use job::Job;

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
    /// It is not from rsys, so nobody knows.
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
    /// The rank.
    pub rank: Option<u64>,
    /// How many ranks there are, as its launcher told it.
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
    /// Records that were lost, by cause.
    pub lost: BTreeMap<String, u64>,
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
    let files = traces(paths, None)?;
    let mut reports: Vec<TraceReport> = files.iter().map(|path| look_at(path)).collect();
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
    let there: BTreeSet<u64> = reports.iter().filter_map(|report| report.rank).collect();
    let mut missing_ranks: Vec<u64> = expected_ranks.difference(&there).copied().collect();
    if let Some(job) = &job {
        remarks.extend(reasons(&mut missing_ranks, job));
    }
    let mut report = Report {
        missing_ranks,
        traces: reports,
        job,
        expected_ranks,
        problems: Vec::new(),
        remarks,
    };
    report.judge(loss_percent_max);
    Ok(report)
}

fn look_at(path: &Path) -> TraceReport {
    let mut report = TraceReport {
        path: path.to_path_buf(),
        state: State::Foreign,
        rank: None,
        rank_count: None,
        host: String::new(),
        pid: None,
        command: String::new(),
        end: String::new(),
        samples: 0,
        lost: BTreeMap::new(),
        coverage_percent: None,
        torn_bytes: 0,
        wall_clock: WallClock::default(),
    };
    let mut has_content = false;
    let survey = match Survey::read(path, Depth::Whole, |encoded| {
        has_content |= !only_describes(encoded);
    }) {
        Ok(survey) => survey,
        Err(error) => {
            report.state = State::Unreadable(format!("{:#}", error.root_cause()));
            return report;
        }
    };
    report.rank = survey.rank();
    report.rank_count = survey.count("rank_count");
    survey.host().clone_into(&mut report.host);
    report.pid = survey
        .count("pid")
        .or(survey.pids.first().map(|&pid| u64::from(pid)));
    survey.text("command_line").clone_into(&mut report.command);
    report.torn_bytes = survey.truncation.map_or(0, |truncation| truncation.bytes);
    report.state = match (&survey.start, &survey.end, &survey.recovered) {
        _ if report.torn_bytes > 0 => State::Cut,
        (None, ..) if !has_content => State::Empty,
        (None, ..) => State::Foreign,
        (_, Some(_), _) => State::Finished,
        (.., Some(_)) => State::Recovered,
        _ => State::Cut,
    };
    if let Some(end) = &survey.end {
        end.text("end").clone_into(&mut report.end);
        report.coverage_percent = end.number("coverage_percent");
        for (key, value) in &end.0 {
            let Datum::Count(count @ 1..) = value else {
                continue;
            };
            if let Some(cause) = key
                .strip_prefix("dropped_")
                .filter(|cause| *cause != "weight")
            {
                report.lost.insert(cause.replace('_', " "), *count);
            } else if key == "corrupt_records" {
                report.lost.insert("corrupt records".to_owned(), *count);
            }
        }
        let dropped = end.count("dropped").unwrap_or(0);
        if dropped > 0 && report.lost.is_empty() {
            report.lost.insert("dropped".to_owned(), dropped);
        }
    }
    let counted = survey.end.as_ref().or(survey.recovered.as_ref());
    report.samples = counted
        .and_then(|facts| facts.count("samples"))
        .unwrap_or(0);
    report.wall_clock = survey.wall_clock;
    report.wall_clock.settle();
    report
}

/// Whether a packet only says what is what, as those at the start of a trace do.
fn only_describes(encoded: &[u8]) -> bool {
    const DESCRIBE: [u32; 11] = [
        packet::CLOCK_SNAPSHOT,
        packet::TIMESTAMP,
        packet::TIMESTAMP_CLOCK_ID,
        packet::SEQUENCE_ID,
        packet::SEQUENCE_FLAGS,
        packet::DEFAULTS,
        packet::SYSTEM_INFO,
        packet::TRACE_UUID,
        packet::TRACK_DESCRIPTOR,
        packet::PROCESS_DESCRIPTOR,
        packet::THREAD_DESCRIPTOR,
    ];
    Fields::new(encoded)
        .flatten()
        .all(|field| DESCRIBE.contains(&field.number))
}

/// Says why ranks have no trace, as far as they have told, and takes those away with which nothing is wrong.
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
    let counted = job.and_then(|job| job.rank_count);
    let told = reports.iter().filter_map(|report| report.rank_count).max();
    let count = counted.or(told).unwrap_or(0);
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
            match &trace.state {
                State::Cut => problems.push(format!(
                    "{name}: cut off{}; `rsys-report recover` finishes it",
                    match trace.torn_bytes {
                        0 => String::new(),
                        bytes => format!(" within a packet ({bytes} bytes)"),
                    }
                )),
                State::Empty => problems.push(format!(
                    "{name}: nothing is in it: its profiler was killed in its first moments"
                )),
                State::Unreadable(why) => problems.push(format!("{name}: unreadable: {why}")),
                State::Finished | State::Recovered | State::Foreign => {}
            }
            let lost: u64 = trace.lost.values().sum();
            let percent = 100.0 * lost as f64 / (lost + trace.samples).max(1) as f64;
            if lost > 0 {
                let causes: Vec<String> = trace
                    .lost
                    .iter()
                    .map(|(cause, count)| format!("{count} {cause}"))
                    .collect();
                let line = format!("{name}: {percent:.2} % lost ({})", causes.join(", "));
                if percent > loss_percent_max {
                    problems.push(line);
                } else {
                    self.remarks.push(line);
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
            let mut words = vec![
                trace.path.display().to_string(),
                trace.state.name().to_owned(),
            ];
            words.extend(trace.rank.map(|rank| format!("rank {rank}")));
            words.extend((!trace.host.is_empty()).then(|| format!("host {}", trace.host)));
            words.extend(trace.pid.map(|pid| format!("pid {pid}")));
            words.push(format!("{} samples", trace.samples));
            words.push(format!("{} lost", trace.lost.values().sum::<u64>()));
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
        let mut sum = format!("{} traces, {} hosts", self.traces.len(), hosts.len());
        if !self.expected_ranks.is_empty() {
            let ranks: BTreeSet<u64> = self.traces.iter().filter_map(|trace| trace.rank).collect();
            let there = self.expected_ranks.intersection(&ranks).count();
            sum.push_str(&format!(", {there} of {} ranks", self.expected_ranks.len()));
        }
        lines.extend(self.remarks.iter().map(|remark| format!("note: {remark}")));
        lines.extend(
            self.problems
                .iter()
                .map(|problem| format!("problem: {problem}")),
        );
        lines.push(match self.problems.len() {
            0 => format!("ok: {sum}"),
            count => format!("not ok: {sum}, {count} problems"),
        });
        lines.join("\n") + "\n"
    }

    /// How well the clock of a trace is known: of a single one, how much its wall clock drifted.
    fn clock_words(&self, trace: &TraceReport) -> Option<String> {
        let points = &trace.wall_clock.points;
        let (first, last) = (points.first()?, points.last()?);
        let moved_ns = last.1 - first.1;
        Some(format!(
            "{} clock snapshots, wall clock moved {:.3} ms",
            points.len(),
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
                    "lost": trace.lost,
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
            "ranks_expected": self.expected_ranks.len(),
            "ranks_missing": self.missing_ranks,
            "problems": self.problems,
            "notes": self.remarks,
        })
    }
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
