//! What AORTA's trainer writes: a file of JSON lines for each rank, a line for each step, and the summary that its `overlap_report.py` makes.
//!
//! Its streams are kinds of work: `compute`, `allreduce`, `reducescatter`, and `aux` for copies, fills and other collectives. A step is a range that the
//! program marked; without ranges the whole run is one step. Losses and learning rates are not in a trace: they are 0.
//!
//! | file | holds |
//! |---|---|
//! | `steps` | which ranges are steps, and what ran in them |
//! | `sweep` | how long what ran at the same time |

mod steps;
mod sweep;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::run::Run;
use crate::{BUFFER_BYTES, Failure};
use steps::steps;
use sweep::{STREAMS, Sweep};

/// The name of the run in the summary.
const LABEL: &str = "rsys";

/// Writes a new folder.
///
/// # Errors
/// When the store is damaged, or a file cannot be written.
pub(crate) fn write(run: &Run<'_>, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let world_size = run.rank_count().max(run.by_rank().len() as u64);
    let (mut total, mut count) = (Totals::default(), 0_u64);
    for (place, (_, ids)) in (0..).zip(run.by_rank()) {
        let rank = ids.first().and_then(|id| run.process(*id as u64)?.rank);
        let rank = rank.unwrap_or(place);
        let path = folder.join(format!("rank_{rank:02}_metrics.jsonl"));
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create_new(path)?);
        let (steps, work) = steps(run, &ids)?;
        let mut work = work.finder();
        for (number, mut step) in (0_u64..).zip(steps) {
            step.work = work.inside(&step);
            let sweep = Sweep::of(&step);
            total.add(&sweep);
            count += 1;
            let length_ms = milliseconds(step.end_ns - step.start_ns);
            let ranges = step.work.iter().map(|(stream, start_ns, end_ns)| {
                json!({
                    "stream": STREAMS[*stream],
                    "tag": STREAMS[*stream],
                    "start_ms": milliseconds(start_ns - step.start_ns),
                    "end_ms": milliseconds(end_ns - step.start_ns),
                    "duration_ms": milliseconds(end_ns - start_ns),
                    "metadata": {},
                })
            });
            let marker = json!({
                "stream": "compute",
                "tag": format!("{}_end", step.name),
                "time_ms": length_ms,
                "metadata": {},
            });
            let line = json!({
                "rank": rank,
                "world_size": world_size,
                "epoch": 0,
                "step": number,
                "global_step": number,
                "loss": 0.0,
                "grad_norm": null,
                "lr": 0.0,
                "profile": {
                    "index": number,
                    "total_ms": length_ms,
                    "ranges": ranges.collect::<Vec<_>>(),
                    "markers": [marker],
                    "overlap": sweep.json(&step),
                },
            });
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    let summary = json!({ "datasets": { LABEL: total.json(count) } });
    std::fs::write(folder.join("summary.json"), format!("{summary:#}\n"))?;
    Ok(())
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Sums over all steps of all ranks, nanoseconds.
#[derive(Debug, Default)]
struct Totals {
    compute: u64,
    allreduce: u64,
    reducescatter: u64,
    communication: u64,
}

impl Totals {
    fn add(&mut self, sweep: &Sweep) {
        self.compute += sweep.of_stream[0];
        self.allreduce += sweep.compute_allreduce;
        self.reducescatter += sweep.compute_reducescatter;
        self.communication += sweep.compute_communication;
    }

    fn json(&self, count: u64) -> Value {
        if count == 0 {
            return json!({ "count": 0 });
        }
        let mean = |ns: u64| milliseconds(ns) / count as f64;
        let ratio = match self.compute {
            0 => 0.0,
            compute => self.communication as f64 / compute as f64,
        };
        json!({
            "count": count,
            "mean_loss": 0.0,
            "mean_overlap_ms": mean(self.communication),
            "mean_compute_ms": mean(self.compute),
            "mean_allreduce_overlap_ms": mean(self.allreduce),
            "mean_reducescatter_overlap_ms": mean(self.reducescatter),
            "overlap_ratio": ratio,
        })
    }
}

impl Sweep {
    /// As AORTA writes it: what did not happen is left out, but idleness.
    fn json(&self, step: &steps::Step) -> Value {
        let (mut of_stream, mut utilization) = (Map::new(), Map::new());
        let length_ns = step.end_ns - step.start_ns;
        for (name, ns) in STREAMS.iter().zip(self.of_stream) {
            if ns > 0 {
                of_stream.insert((*name).to_owned(), milliseconds(ns).into());
            }
            let share = if length_ns == 0 {
                0.0
            } else {
                ns as f64 / length_ns as f64
            };
            utilization.insert((*name).to_owned(), share.into());
        }
        let mut overlap = Map::new();
        for (name, ns) in [
            ("compute_allreduce", self.compute_allreduce),
            ("compute_reducescatter", self.compute_reducescatter),
            ("compute_comm", self.compute_communication),
        ] {
            if ns > 0 {
                overlap.insert(name.to_owned(), milliseconds(ns).into());
            }
        }
        overlap.insert("idle".to_owned(), milliseconds(self.idle).into());
        let segments = self.segments.iter().map(|(start_ns, end_ns, streams)| {
            let mut streams: Vec<&str> = streams.iter().map(|stream| STREAMS[*stream]).collect();
            streams.sort_unstable();
            json!({
                "start_ms": milliseconds(start_ns - step.start_ns),
                "end_ms": milliseconds(end_ns - step.start_ns),
                "active_streams": streams,
            })
        });
        json!({
            "per_stream_ms": of_stream,
            "overlap_ms": overlap,
            "active_segments": segments.collect::<Vec<_>>(),
            "utilization": utilization,
        })
    }
}
