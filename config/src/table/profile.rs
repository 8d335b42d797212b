//! Summaries beside the trace.

use super::{Category, Kind, Setting};

const fn switch(name: &'static str, default: &'static str, summary: &'static str) -> Setting {
    Setting::new(Category::Profile, name, Kind::Bool, default, summary)
}

pub(super) const SETTINGS: &[Setting] = &[
    switch(
        "PROFILE",
        "false",
        "Also write a summary of the samples for each process: by function, and as a tree of calls",
    )
    .aliases(&["USE_TIMEMORY"])
    .details(
        "Samples, CPU time of a function itself and with all that it calls, for the process and for each of its threads. The files lie \
         beside the trace and are named like it: profile-<rank or process id>.txt and .json.",
    )
    .option(Some('P'), "profile", ""),
    switch(
        "FLAT_PROFILE",
        "false",
        "Leave the tree of calls out of the summary",
    ),
    switch("TEXT_OUTPUT", "true", "Write the summary as text"),
    switch("JSON_OUTPUT", "true", "Write the summary as JSON"),
    switch(
        "COUT_OUTPUT",
        "false",
        "Print the functions with most time at the end, on standard error",
    ),
    Setting::new(
        Category::Profile,
        "MAX_DEPTH",
        Kind::Int {
            min: 1,
            max: 65_535,
            unit: "calls",
        },
        "65535",
        "Deepest level of the tree of calls",
    )
    .advanced(),
];
