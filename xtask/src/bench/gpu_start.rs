//! What tracing costs a program that begins to use a GPU, on simulated GPUs under real runtimes.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;

use super::gpu::example;
use super::lab::Lab;
use super::numbers::{median, minimum};
use super::table::{Cell, Figures, Table};

/// One run, as `tests/examples/gpu_start.rs` prints it.
#[derive(Debug, Deserialize)]
struct Line {
    stack: String,
    way: String,
    #[serde(flatten)]
    times: BTreeMap<String, f64>,
}

/// What is looked at: the key of a time, and what it is called.
const TIMES: [(&str, &str); 4] = [
    ("kernel_wall_ms", "wall until the first kernel is done"),
    ("kernel_cpu_ms", "the program's CPU until then"),
    ("whole_wall_ms", "wall until the end"),
    ("whole_cpu_ms", "CPU of all processes"),
];

/// The times of one way to run the program in milliseconds, by their keys.
#[derive(Debug)]
struct Way {
    name: String,
    times: BTreeMap<String, Vec<f64>>,
}

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let repetitions = if lab.quick { 5 } else { 20 };
    eprintln!("bench: start-up with GPUs");
    let lines: Vec<Line> = example(lab, "gpu_start", &[repetitions])?;
    let mut found: BTreeMap<String, Vec<Way>> = BTreeMap::new();
    for Line { stack, way, times } in lines {
        let ways = found.entry(stack).or_default();
        let at = ways.iter().position(|known| known.name == way);
        let at = at.unwrap_or_else(|| {
            ways.push(Way {
                name: way,
                times: BTreeMap::new(),
            });
            ways.len() - 1
        });
        for (key, value) in times {
            ways[at].times.entry(key).or_default().push(value);
        }
    }
    Ok(found
        .into_iter()
        .map(|(stack, ways)| table(&stack, &ways, repetitions, figures))
        .collect())
}

fn table(stack: &str, ways: &[Way], repetitions: u32, figures: &mut Figures) -> Table {
    let mut table = Table::new(
        &format!("Start-up of a HIP program, runtimes {stack}"),
        &[
            "what",
            "way",
            "ms (min)",
            "ms (median)",
            "added (min)",
            "added (median)",
            "x bare (median)",
        ],
    );
    for (key, what) in TIMES {
        let of = |way: &Way| {
            let times = way.times.get(key).map_or(&[][..], Vec::as_slice);
            (minimum(times), median(times))
        };
        let bare = ways.first().map_or((None, None), of);
        for way in ways {
            let own = of(way);
            let added = |own: Option<f64>, bare: Option<f64>| Some(own? - bare?);
            let (least, middle) = (added(own.0, bare.0), added(own.1, bare.1));
            table.row(vec![
                what.into(),
                way.name.as_str().into(),
                Cell::number(own.0, 1),
                Cell::number(own.1, 1),
                Cell::number(least, 1),
                Cell::number(middle, 1),
                Cell::number(own.1.zip(bare.1).map(|(own, bare)| own / bare), 2),
            ]);
            for (suffix, added) in [("", least), ("_median", middle)] {
                if let Some(added) = added {
                    let name = &way.name;
                    figures.insert(format!("gpu-start/{stack}/{name}/{key}{suffix}"), added);
                }
            }
        }
    }
    table.note(format!(
        "{repetitions} repetitions; the wall times begin with the start of the profiler, and the last end with its end"
    ));
    table
}
