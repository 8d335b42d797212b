//! Merged traces that stand beside those that they were made of.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::files::short_name;
use crate::trace_info::TraceInfo;
use crate::words::counted;
use rsys_traces::perfetto::facts::Facts;
use rsys_traces::perfetto::losses::Losses;

/// What is to be known of a merged trace.
#[derive(Debug, Clone)]
pub struct MergedReport {
    /// The file.
    pub path: PathBuf,
    /// How many traces it was made of.
    pub traces: u64,
    /// The ranks of its processes.
    pub ranks: BTreeSet<u64>,
    /// Samples in it.
    pub samples: u64,
    /// Bytes behind the last whole packet.
    pub torn_bytes: u64,
    /// What its processes lost.
    pub losses: Losses,
}

impl MergedReport {
    /// From a whole look at the trace, what it says of the merge, and the samples that were counted in it.
    pub(super) fn new(info: &TraceInfo, facts: &Facts, samples: u64) -> Self {
        Self {
            path: info.path.clone(),
            traces: facts.count("traces").unwrap_or(0),
            ranks: info.labelled_ranks().collect(),
            samples,
            torn_bytes: info.truncation.map_or(0, |truncation| truncation.bytes),
            losses: info.losses.clone(),
        }
    }

    /// What is in it. Where there are no other traces, it is judged by that.
    pub(super) fn note(&self, is_all_there_is: bool) -> String {
        let skipped = if is_all_there_is {
            ""
        } else {
            "; it is not judged, the others are"
        };
        format!(
            "{}: merged from {}, {} and {} are in it{skipped}",
            short_name(&self.path),
            counted(self.traces, "trace"),
            counted(self.ranks.len() as u64, "rank"),
            counted(self.samples, "sample"),
        )
    }

    /// What is wrong with it.
    pub(super) fn problem(&self) -> Option<String> {
        (self.torn_bytes > 0).then(|| {
            format!(
                "{}: cut off within a packet ({}); merge again",
                short_name(&self.path),
                counted(self.torn_bytes, "byte")
            )
        })
    }

    /// The report for programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "path": self.path.to_string_lossy(),
            "traces": self.traces,
            "ranks": self.ranks,
            "samples": self.samples,
            "torn_bytes": self.torn_bytes,
            "lost": self.losses.by_cause,
        })
    }
}
