//! The line that `rsys-sample` prints for each traced process. Its form is known here only.

use std::path::PathBuf;

/// The line that `rsys-sample` prints for each traced process.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The trace.
    pub path: PathBuf,
    /// Samples in the trace.
    pub samples: u64,
    /// The sum of their weights, in periods.
    pub weighted: u64,
    /// Threads that were seen.
    pub threads: u64,
    /// Records that did not get through.
    pub dropped: u64,
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// What it says of waits, if blocked threads were looked at.
    pub waits: Option<WaitSummary>,
    /// What else the line says: that the process is still running, or why the trace is not complete.
    pub remarks: String,
}

/// What the line says of waits.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitSummary {
    /// Waits that were seen.
    pub waits: u64,
    /// Samples of waiting threads in the trace.
    pub samples: u64,
    /// The wall time that they stand for.
    pub seconds: f64,
    /// Waits with whole stacks.
    pub complete: u64,
    /// Looks during which the thread woke up.
    pub raced: u64,
    /// Threads that could not be looked at.
    pub unreadable: u64,
}

impl WaitSummary {
    /// Takes `waits: <N> in <S> samples of <T> s, <C> complete[, <n> scanned][, <n> raced][, <n> threads unreadable]` off the front.
    fn take(remarks: &str) -> (Option<Self>, &str) {
        let read = || {
            let rest = remarks.strip_prefix("waits: ")?;
            let (waits, rest) = rest.split_once(" in ")?;
            let (samples, rest) = rest.split_once(" of ")?;
            let samples = without_noun(samples, "sample")?;
            let (seconds, rest) = rest.split_once(" s, ")?;
            let (complete, mut rest) = rest.split_once(" complete")?;
            let mut optional = |what: &str| {
                let (count, after) = rest.strip_prefix(", ")?.split_once(what)?;
                let count = count.parse().ok()?;
                rest = after;
                Some(count)
            };
            let _scanned: Option<u64> = optional(" scanned");
            let raced = optional(" raced").unwrap_or(0);
            let unreadable = optional(" threads unreadable")
                .or_else(|| optional(" thread unreadable"))
                .unwrap_or(0);
            let read = Self {
                waits: waits.parse().ok()?,
                samples: samples.parse().ok()?,
                seconds: seconds.parse().ok()?,
                complete: complete.parse().ok()?,
                raced,
                unreadable,
            };
            Some((Some(read), rest))
        };
        read().unwrap_or((None, remarks))
    }
}

impl Summary {
    /// Reads `rsys: <path>: <N> samples (<W> weighted), <T> threads, <D> dropped, pid <pid> (<name>)`; remarks may
    /// follow after a comma.
    ///
    /// This is the only place that knows the shape of that line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim_end().strip_prefix("rsys: ")?;
        let (rest, process) = line.rsplit_once(", pid ")?;
        let (pid, process) = process.split_once(" (")?;
        let (name, remarks) = process.rsplit_once(')')?;
        let (rest, dropped) = rest.strip_suffix(" dropped")?.rsplit_once(", ")?;
        let (rest, threads) = without_noun(rest, "thread")?.rsplit_once(", ")?;
        let (rest, weighted) = rest.strip_suffix(" weighted)")?.rsplit_once(" (")?;
        let (path, samples) = without_noun(rest, "sample")?.rsplit_once(": ")?;
        let (waits, remarks) = WaitSummary::take(remarks.trim_start_matches(", "));
        Some(Self {
            path: PathBuf::from(path),
            samples: samples.parse().ok()?,
            weighted: weighted.parse().ok()?,
            threads: threads.parse().ok()?,
            dropped: dropped.parse().ok()?,
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            waits,
            remarks: remarks.trim_start_matches(", ").to_owned(),
        })
    }
}

/// What stands in front of a noun, which has an `s` unless its number is 1.
fn without_noun<'a>(text: &'a str, noun: &str) -> Option<&'a str> {
    let (rest, last) = text.rsplit_once(' ')?;
    let number = rest.rsplit(' ').next()?;
    let plural = if number == "1" { "" } else { "s" };
    (last.strip_prefix(noun) == Some(plural)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn reads_the_summary_line() {
        let line = "rsys: out: x/2026/perfetto-trace-7.proto: 120 samples (480 weighted), 3 threads, 0 dropped, pid 7 (b), c), still running";
        let summary = Summary::parse(line).unwrap();
        assert_eq!(
            summary.path,
            Path::new("out: x/2026/perfetto-trace-7.proto")
        );
        assert_eq!(
            (
                summary.samples,
                summary.weighted,
                summary.threads,
                summary.dropped
            ),
            (120, 480, 3, 0)
        );
        assert_eq!((summary.pid, summary.name.as_str()), (7, "b), c"));
        assert_eq!(summary.remarks, "still running");
        assert_eq!(summary.waits, None);
    }

    #[test]
    fn reads_what_it_says_of_waits() {
        let line = "rsys: /t.proto: 0 samples (0 weighted), 3 threads, 0 dropped, pid 7 (app)";
        let waits = |more: &str| Summary::parse(&format!("{line}, waits: {more}")).unwrap();
        let plain = waits("54 in 168 samples of 7.526 s, 53 complete");
        let expected = WaitSummary {
            waits: 54,
            samples: 168,
            seconds: 7.526,
            complete: 53,
            raced: 0,
            unreadable: 0,
        };
        assert_eq!((plain.waits.unwrap(), &*plain.remarks), (expected, ""));
        let all = waits(
            "1 in 1 sample of 0.010 s, 1 complete, 4 scanned, 2 raced, 3 threads unreadable, still running",
        );
        let found = all.waits.unwrap();
        assert_eq!((found.raced, found.unreadable), (2, 3));
        assert_eq!(all.remarks, "still running");
    }

    #[test]
    fn other_lines_are_not_summaries() {
        for line in [
            "",
            "rsys: cannot open perf events",
            "rsys: x: 1 samples",
            "x: 1 sample (1 weighted), 1 thread, 0 dropped, pid 1 (a)",
            "rsys: x: 1 samples (1 weighted), 1 thread, 0 dropped, pid 1 (a)",
        ] {
            assert_eq!(Summary::parse(line), None, "{line}");
        }
    }
}
