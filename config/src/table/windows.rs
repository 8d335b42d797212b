//! When something is recorded.

use super::{Category, Kind, Setting};
use crate::choices::WindowClock;
use crate::windows::SECONDS_MAX;

const fn seconds(name: &'static str, summary: &'static str) -> Setting {
    let kind = Kind::Seconds { max: SECONDS_MAX };
    Setting::new(Category::Windows, name, kind, "0", summary)
}

const fn inherited(name: &'static str, inherits: &'static str, summary: &'static str) -> Setting {
    Setting::new(
        Category::Windows,
        name,
        Kind::SecondsOr { inherits },
        "-1",
        summary,
    )
}

const fn periods(name: &'static str, summary: &'static str) -> Setting {
    Setting::new(Category::Windows, name, Kind::Periods, "", summary)
}

const PERIODS: &str = "Each group is WAIT:RECORD[:TIMES]: nothing is kept for WAIT seconds, then everything for RECORD seconds, \
     TIMES times over (once if left out, 0 for ever). Groups follow one another from the end of the delay. RECORD 0 means until the end.";

pub(super) const SETTINGS: &[Setting] = &[
    seconds(
        "SAMPLING_DELAY",
        "Keep no call stacks before this time after the start of the run",
    )
    .option(None, "sampling-wait", "TIME"),
    seconds(
        "SAMPLING_DURATION",
        "Keep call stacks for this long only; 0 means until the end",
    )
    .details("Counted from the end of SAMPLING_DELAY.")
    .option(None, "sampling-duration", "TIME"),
    periods(
        "SAMPLING_PERIODS",
        "Keep call stacks in these windows of time only",
    )
    .details(PERIODS)
    .option(None, "sampling-periods", "PERIODS"),
    inherited(
        "SAMPLING_CPUTIME_DELAY",
        "SAMPLING_DELAY",
        "The delay of samples of CPU time alone",
    )
    .option(None, "cputime-wait", "TIME")
    .advanced(),
    inherited(
        "SAMPLING_REALTIME_DELAY",
        "SAMPLING_DELAY",
        "The delay of samples of blocked threads alone",
    )
    .option(None, "realtime-wait", "TIME")
    .advanced(),
    seconds(
        "TRACE_DELAY",
        "Keep no calls, GPU activity and markers before this time after the start of the run",
    )
    .option(None, "trace-wait", "TIME"),
    seconds(
        "TRACE_DURATION",
        "Keep calls, GPU activity and markers for this long only; 0 means until the end",
    )
    .details("Counted from the end of TRACE_DELAY.")
    .option(None, "trace-duration", "TIME"),
    periods(
        "TRACE_PERIODS",
        "Keep calls, GPU activity and markers in these windows of time only",
    )
    .details(PERIODS)
    .option(None, "trace-periods", "PERIODS"),
    Setting::new(
        Category::Windows,
        "TRACE_PERIOD_CLOCK_ID",
        Kind::Choice(WindowClock::CHOICES),
        WindowClock::Realtime.as_str(),
        "The clock of the windows",
    )
    .also_takes(
        "CLOCK_REALTIME, CLOCK_PROCESS_CPUTIME_ID, the original's other clocks (monotonic, monotonic_raw, realtime_coarse, monotonic_coarse, \
         boottime, with or without CLOCK_), which count as realtime, and the clocks' numbers 0, 1, 2 and 4 to 7, of which 2 is cputime",
    )
    .option(None, "trace-clock-id", "CLOCK")
    .advanced(),
    inherited(
        "PROCESS_SAMPLING_DELAY",
        "SAMPLING_DELAY",
        "Keep no counters of host and GPU before this time after the start of the run",
    )
    .option(None, "process-wait", "TIME"),
    inherited(
        "PROCESS_SAMPLING_DURATION",
        "SAMPLING_DURATION",
        "Keep counters of host and GPU for this long only; 0 means until the end",
    )
    .option(None, "process-duration", "TIME"),
];
