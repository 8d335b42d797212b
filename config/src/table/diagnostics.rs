//! What the profiler says about itself.

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
        "How much rsys-sample says: -1 only errors, 0 results, 1 settings and choices, 2 processes, 3 everything",
    )
    .details("Values above 3 count as 3.")
    .option(Some('v'), "verbose", "N"),
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
        "MONOCHROME",
        Kind::Bool,
        "false",
        "No colours, not even on a terminal",
    )
    .option(None, "monochrome", ""),
];
