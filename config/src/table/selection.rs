//! Which threads are looked at.

use super::{Category, Kind, Setting};

const fn numbers(name: &'static str, empty_means: &'static str, summary: &'static str) -> Setting {
    Setting::new(
        Category::Sampling,
        name,
        Kind::Numbers { empty_means },
        "",
        summary,
    )
}

pub(super) const SETTINGS: &[Setting] = &[
    numbers(
        "SAMPLING_TIDS",
        "all",
        "Keep the call stacks of these threads only",
    )
    .details(
        "Threads are counted in each process in the order in which they start, and 0 is its first. These are not the kernel's numbers.",
    )
    .option(Some('t'), "tids", "THREADS"),
    numbers(
        "SAMPLING_CPUTIME_TIDS",
        "the same as SAMPLING_TIDS",
        "The same for samples of CPU time alone",
    )
    .option(None, "cputime-tids", "THREADS")
    .advanced(),
    numbers(
        "SAMPLING_REALTIME_TIDS",
        "the same as SAMPLING_TIDS",
        "The same for samples of blocked threads alone",
    )
    .option(None, "realtime-tids", "THREADS")
    .advanced(),
];
