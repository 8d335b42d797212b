//! What the profiler says about itself.

use crate::choices::Closing;

use super::{Category, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Diagnostics,
        "VERBOSE",
        Kind::Int {
            min: -1,
            max: 100,
            unit: "",
        },
        "0",
        "How much rsys-sample says: -1 errors alone, 0 results and warnings, 1 also settings and how good the samples of each process \
         are, 2 and 3 also what happens inside rsys-sample",
    )
    .details("-v is 1, -vv is 2. Values above 3 count as 3.")
    .option(Some('v'), "verbose", "N"),
    Setting::new(
        Category::Diagnostics,
        "SUMMARY",
        Kind::Choice(Closing::CHOICES),
        Closing::Full.as_str(),
        "What rsys-sample says when the run has ended",
    )
    .details("With -v the line for each trace stands above the table; -q leaves out both.")
    .option(None, "summary", "WHAT"),
    Setting::new(
        Category::Diagnostics,
        "DEBUG",
        Kind::Bool,
        "false",
        "Say everything: the same as VERBOSE = 3",
    )
    .option(None, "debug", ""),
    Setting::new(
        Category::Diagnostics,
        "DEBUG_SETTINGS",
        Kind::Bool,
        "false",
        "List the settings that are not at their default when the run starts, as -v does",
    )
    .advanced(),
    Setting::new(
        Category::Diagnostics,
        "MONOCHROME",
        Kind::Bool,
        "false",
        "No colours, not even on a terminal",
    )
    .option(None, "monochrome", ""),
];
