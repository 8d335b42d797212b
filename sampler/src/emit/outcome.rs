//! What became of a process and its trace.

use std::path::PathBuf;

use super::account::{AgentCounts, Coverage, End, Stops, Tally};
use super::digest::ProcessDigest;
use super::profile::Written;

/// What became of one process.
#[derive(Debug, Clone)]
pub struct ProcessSummary {
    /// Its trace, if it has one.
    pub path: Option<PathBuf>,
    /// The files in which that goes on, in their order.
    pub parts: Vec<PathBuf>,
    /// The small file of the whole run, where there are several.
    pub overview: Option<PathBuf>,
    /// The trace that it shares with other short processes.
    pub shared: Option<PathBuf>,
    /// The summary beside it.
    pub profile: Written,
    /// Why there is no trace, or not all of it.
    pub trouble: Option<String>,
    /// Whether it has no trace of its own because it had too few samples.
    pub short: bool,
    /// Its rank.
    pub rank: Option<u32>,
    /// Its id.
    pub pid: u32,
    /// Its program.
    pub name: String,
    /// The clock that its samples follow.
    pub clock: String,
    /// What its agent had to say.
    pub notes: Vec<String>,
    /// Versions of its Python interpreters.
    pub interpreters: Vec<String>,
    /// What was recorded.
    pub tally: Tally,
    /// Where broken stacks stopped.
    pub stops: Stops,
    /// How much of its CPU time was recorded.
    pub coverage: Coverage,
    /// What the agent counted.
    pub counts: AgentCounts,
    /// What the closing table says of it.
    pub digest: ProcessDigest,
    /// How it ended.
    pub end: End,
}

impl ProcessSummary {
    /// Whether anything is left to read.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.path.is_some() || self.shared.is_some() || !self.profile.is_empty()
    }
}
