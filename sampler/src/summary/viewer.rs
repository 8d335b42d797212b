//! Traces that are too much for a viewer in a browser.

use crate::emit::outcome::ProcessSummary;

/// What Perfetto's engine takes for a sample with its slices, and for a call or an operation of a GPU (v52, measured; docs/benchmarks.md).
const SAMPLE_BYTES: u64 = 900;
const EVENT_BYTES: u64 = 400;

/// Half of what the engine can have in a browser.
const MUCH_BYTES: u64 = 2_000_000_000;

impl ProcessSummary {
    /// About how much memory a viewer takes for the largest file of the trace. All are taken to be of one size.
    fn viewer_bytes(&self) -> u64 {
        let (tally, events) = (&self.tally, &self.tally.events);
        let samples = tally.samples + tally.waits.samples;
        let all = events.calls + events.marks + events.ranges + events.kernels + events.moves;
        let bytes = samples * SAMPLE_BYTES + all * EVENT_BYTES;
        bytes / (self.parts.len() as u64 + 1)
    }

    /// Says so when a viewer will be slow or fail, and what helps.
    pub(super) fn heavy(&self) -> Option<String> {
        let (path, bytes) = (self.path.as_ref()?, self.viewer_bytes());
        let gigabytes = bytes as f64 / 1e9;
        (bytes > MUCH_BYTES).then(|| {
            format!(
                "note: a viewer takes about {gigabytes:.0} GB for {}, and a browser gives it 4; rsys-report cut makes small traces of it, --split 500MB several files from the start, and --flows arrows keeps half of it out where it is kernels",
                path.display()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::process;

    #[test]
    fn only_what_is_too_much_is_told() {
        let mut one = process();
        assert_eq!(one.heavy(), None);
        one.tally.samples = 5_000_000;
        let said = one.heavy().expect("a note");
        assert!(said.contains("about 4 GB for /out/t-7.proto"), "{said}");
        one.parts = vec!["/out/t-7.part2.proto".into(), "/out/t-7.part3.proto".into()];
        assert_eq!(one.heavy(), None);
        one.tally.events.kernels = 12_000_000;
        assert!(one.heavy().is_some());
    }
}
