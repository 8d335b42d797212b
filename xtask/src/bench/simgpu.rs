//! How fast the simulated GPUs are that the other measures use: they must not be what those measure.

use anyhow::Result;
use serde::Deserialize;

use super::gpu::example;
use super::lab::Lab;
use super::table::{Cell, Figures, Table};

/// One stack, as `tests/examples/simgpu_rate.rs` prints it.
#[derive(Debug, Deserialize)]
struct Line {
    stack: String,
    dispatches_per_s: f64,
    producer_ns: f64,
    idle_percent: f64,
    start_ms: f64,
}

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (dispatches, starts) = if lab.quick {
        (200_000, 50)
    } else {
        (1_000_000, 200)
    };
    eprintln!("bench: the simulated GPU");
    let mut table = Table::new(
        "The simulated GPU: kernels of 2 us on one queue",
        &[
            "runtimes",
            "dispatches/s",
            "producer's CPU ns each",
            "% of a processor at rest",
            "ms added to /bin/true (min)",
        ],
    );
    for line in example::<Line>(lab, "simgpu_rate", &[dispatches, starts])? {
        table.row(vec![
            line.stack.as_str().into(),
            Cell::number(Some(line.dispatches_per_s), 0),
            Cell::number(Some(line.producer_ns), 0),
            Cell::number(Some(line.idle_percent), 2),
            Cell::number(Some(line.start_ms), 2),
        ]);
        for (name, value) in [
            ("dispatches_per_s", line.dispatches_per_s),
            ("idle_percent", line.idle_percent),
            ("start_ms", line.start_ms),
        ] {
            figures.insert(format!("simgpu/{}/{name}", line.stack), value);
        }
    }
    table.note(format!(
        "{dispatches} dispatches by HSA, then 2 s of rest; {starts} starts"
    ));
    Ok(vec![table])
}
