//! Options that are there for old command lines only.

use crate::setting::Category;
use crate::shorthand::{self, Effect, Shorthand, Takes};

use Category::{Backends, Output, Processes, Profile, Sampling, Windows};
use Takes::{Bool, List, Maybe, MaybeList, One};

const fn row(
    short: Option<char>,
    long: &'static str,
    takes: Takes,
    category: Category,
    effect: Effect,
    summary: &'static str,
) -> Shorthand {
    shorthand::row(short, long, takes, category, effect, summary).old()
}

/// The options, in the order in which they are listed.
#[rustfmt::skip]
pub(crate) const ROWS: &[Shorthand] = &[
    row(Some('L'), "trace-legacy", Bool, Output, Effect::Same(&["TRACE_LEGACY"]), "The trace is a Perfetto trace"),
    row(None, "output-format", List("FORMAT"), Output, Effect::TraceFormats, "The trace is a Perfetto trace"),
    row(None, "trace-buffer-size", One("KB"), Output, Effect::Same(&["PERFETTO_BUFFER_SIZE_KB"]), "There is no buffer to size"),
    row(None, "trace-fill-policy", One("POLICY"), Output, Effect::Same(&["PERFETTO_FILL_POLICY"]), "There is no buffer to fill"),
    row(None, "profile-diff", List("PATH"), Profile, Effect::Same(&["INPUT_PATH"]), "Summaries are not compared with older ones"),
    row(None, "cputime", Bool, Sampling, Effect::Same(&["SAMPLING_CPUTIME"]),
        "Samples of CPU time are always taken; may be followed by frequency, delay and threads").aliases(&["sample-cputime"]),
    row(Some('S'), "sample", MaybeList("CLOCK"), Sampling, Effect::Clocks,
        "Call stacks are always sampled; may be followed by clocks: cputime, realtime, overflow"),
    row(None, "fork", Bool, Processes, Effect::Same(&["FORK"]), "The command is always a process of its own"),
    row(Some('l'), "launcher", One("REGEX"), Processes, Effect::Same(&["LAUNCHER"]), "Launchers such as srun are recognised"),
    row(None, "ai-nics", List("NICS"), Backends, Effect::Same(&["SAMPLING_AINICS"]), "Network cards whose counters are read"),
    row(None, "selected-regions", List("REGION"), Windows, Effect::Same(&["SELECTED_REGIONS"]), "Keep what happens in these regions only"),
    row(None, "rank-filter-id", List("RANKS"), Output, Effect::Same(&["RANKS"]), "Ranks that are profiled"),
    row(None, "rank-filter-output", Maybe("BOOL"), Output, Effect::Same(&["RANK_FILTER_OUTPUT"]), "Whether other ranks write files"),
    row(None, "rank-filter-logs", Maybe("BOOL"), Output, Effect::Same(&["RANK_FILTER_LOGS"]), "Whether other ranks print"),
    row(None, "hsa-interrupt", One("0|1"), Backends, Effect::Variable("HSA_ENABLE_INTERRUPT"),
        "Sets HSA_ENABLE_INTERRUPT for the command"),
];
