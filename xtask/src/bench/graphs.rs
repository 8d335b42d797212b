//! What tracing costs a program that launches graphs, as engines do that decode: the launch, each of its nodes, and the GPU's time.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;

use super::gpu::example;
use super::lab::Lab;
use super::numbers::{median, minimum, ratio};
use super::table::{Cell, Figures, Table};

/// One run, as `tests/examples/graph_rate.rs` prints it.
#[derive(Debug, Deserialize)]
struct Line {
    stack: String,
    way: String,
    nodes: u32,
    cpu_ns: f64,
    wall_ns: f64,
    median_ns: f64,
    busy: f64,
    gaps: f64,
    kernels: u64,
    told: u64,
}

/// The runs of one way with graphs of one size.
#[derive(Debug, Default)]
struct Runs {
    cpu_ns: Vec<f64>,
    wall_ns: Vec<f64>,
    median_ns: Vec<f64>,
    busy: Vec<f64>,
    gaps: Vec<f64>,
    kernels: u64,
    told: u64,
}

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (launches, repetitions) = if lab.quick { (100, 3) } else { (300, 7) };
    eprintln!("bench: launches of graphs");
    // In the order in which they were run.
    let mut ways: Vec<String> = Vec::new();
    let mut found: BTreeMap<(String, u32), BTreeMap<String, Runs>> = BTreeMap::new();
    for line in example::<Line>(lab, "graph_rate", &[launches, repetitions])? {
        if !ways.contains(&line.way) {
            ways.push(line.way.clone());
        }
        let runs = found
            .entry((line.stack, line.nodes))
            .or_default()
            .entry(line.way)
            .or_default();
        runs.cpu_ns.push(line.cpu_ns);
        runs.wall_ns.push(line.wall_ns);
        runs.median_ns.push(line.median_ns);
        runs.busy.push(line.busy);
        runs.gaps.push(line.gaps);
        runs.kernels += line.kernels;
        runs.told += line.told;
    }
    let mut table = Table::new(
        "Launches of graphs: the call of the thread that launches, and the GPU's time",
        &[
            "runtimes",
            "kernels",
            "way",
            "CPU us (min)",
            "above any tracer, us",
            "wall us (mean, min of runs)",
            "wall us (median)",
            "launch: x bare",
            "GPU busy % (median)",
            "busy: x bare",
            "gaps > 100 us",
            "kernels told",
        ],
    );
    for ((stack, nodes), by_way) in &found {
        let bare = by_way.get("bare");
        let any_tracer = by_way
            .get("any tracer")
            .and_then(|runs| minimum(&runs.cpu_ns));
        for way in &ways {
            let Some(runs) = by_way.get(way) else {
                continue;
            };
            let times = |of: fn(&Runs) -> &[f64], pick: fn(&[f64]) -> Option<f64>| {
                let own = pick(of(runs))?;
                ratio(own, pick(of(bare?))?)
            };
            let launch = times(|runs| &runs.wall_ns, minimum);
            let busy = times(|runs| &runs.busy, median);
            let is_told = ["standard", "with stacks"].contains(&way.as_str());
            let told = match is_told {
                true => format!("{} of {}", runs.told, runs.kernels),
                false => String::new(),
            };
            let above = minimum(&runs.cpu_ns)
                .zip(any_tracer.filter(|_| is_told))
                .map(|(own, any)| own - any);
            let us = |ns: Option<f64>| Cell::number(ns.map(|ns| ns / 1e3), 1);
            table.row(vec![
                stack.as_str().into(),
                nodes.to_string().into(),
                way.as_str().into(),
                us(minimum(&runs.cpu_ns)),
                us(above),
                us(minimum(&runs.wall_ns)),
                us(median(&runs.median_ns)),
                Cell::number(launch, 2),
                Cell::number(median(&runs.busy).map(|busy| busy * 100.0), 1),
                Cell::number(busy, 3),
                Cell::number(median(&runs.gaps), 0),
                told.into(),
            ]);
            for (name, value) in [("launch", launch), ("busy", busy), ("above_ns", above)] {
                if let Some(value) = value {
                    figures.insert(format!("graphs/{stack}/{nodes}/{way}/{name}"), value);
                }
            }
        }
    }
    table.note(format!(
        "{repetitions} runs of {launches} launches, two under way; kernels of 10 us; goals: launch below 1.3 x bare, busy above 0.97 x bare"
    ));
    table.note("any tracer: the program takes the place for HIP's tracer itself, and does nothing with what it is told; goal above that: 1 us a launch and 0.1 us a kernel");
    Ok(vec![table])
}
