//! What the recording is expected to cost.

use rsys_config::Resolved;

use super::asked::Asked;
use super::finding::{Finding, Level};

/// CPU time that a sample costs the program, in microseconds: deep stacks to shallow ones (docs/benchmarks.md).
const SAMPLE_US: [f64; 2] = [17.0, 26.0];

/// More than that is worth a warning, in percent.
const MUCH: f64 = 10.0;

/// The figures that were measured, for the rate that the settings ask for.
pub fn findings(resolved: &Resolved, asked: &Asked) -> Vec<Finding> {
    const NAME: &str = "overhead";
    let rate = resolved.sampling_freq_hz;
    let [least, most] = SAMPLE_US.map(|us| us * rate / 1e4);
    let text = format!("{least:.1} to {most:.1} % of CPU time at {rate} samples a second");
    let source = "as measured: docs/benchmarks.md";
    let mut found = vec![if most > MUCH {
        Finding::at(Level::Warning, NAME, text)
            .means(source)
            .mend("rsys-sample -f 300")
    } else {
        Finding::ok(NAME, text).means(source)
    }];
    if !asked.gpu.is_empty() {
        found.push(Finding::ok(NAME, "0.3 to 0.6 µs for each launch of a kernel").means(source));
    }
    if !asked.mpi.is_empty() {
        found.push(Finding::ok(NAME, "0.1 µs for each call of MPI").means(source));
    }
    found
}
