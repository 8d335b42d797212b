//! The original's names and numbers of the clocks of time windows.

use crate::choices::WindowClock;

/// The clock that a name or number of the original stands for; `None` when it is no clock.
#[must_use]
pub(crate) fn window_clock(name: &str) -> Option<WindowClock> {
    let name = name.trim().to_ascii_lowercase();
    let bare = name.strip_prefix("clock_").unwrap_or(&name);
    match bare.strip_suffix(".0").unwrap_or(bare) {
        "0" | "1" | "4" | "5" | "6" | "7" | "realtime" | "monotonic" | "monotonic_raw"
        | "realtime_coarse" | "monotonic_coarse" | "boottime" => Some(WindowClock::Realtime),
        "2" | "cputime" | "process_cputime_id" => Some(WindowClock::CpuTime),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_have_names_and_numbers() {
        for (name, clock) in [
            ("CLOCK_MONOTONIC_RAW", Some(WindowClock::Realtime)),
            ("realtime", Some(WindowClock::Realtime)),
            ("2.0", Some(WindowClock::CpuTime)),
            (" clock_process_cputime_id ", Some(WindowClock::CpuTime)),
            ("3", None),
            ("sundial", None),
        ] {
            assert_eq!(window_clock(name), clock, "{name}");
        }
    }
}
