//! What tracing costs the thread that launches kernels, and all that runs, on simulated GPUs under real runtimes; and how soon after the
//! last kernel the trace is finished.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::lab::Lab;
use super::numbers::{median, minimum, ratio};
use super::table::{Cell, Figures, Table};

/// One run, as `tests/examples/gpu_rate.rs` prints it.
#[derive(Debug, Deserialize)]
struct Line {
    stack: String,
    way: String,
    cpu_ns: f64,
    wall_ns: f64,
    all_cpu_ns: f64,
    end_s: f64,
}

/// The times of one way to run the program, in nanoseconds for each launch; of its end, in seconds.
#[derive(Debug, Default)]
struct Way {
    name: String,
    cpu: Vec<f64>,
    wall: Vec<f64>,
    all_cpu: Vec<f64>,
    end: Vec<f64>,
}

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (launches, repetitions) = if lab.quick { (10_000, 3) } else { (50_000, 7) };
    eprintln!("bench: launches");
    let lines: Vec<Line> = example(lab, "gpu_rate", &[launches, repetitions])?;
    let mut found: BTreeMap<String, Vec<Way>> = BTreeMap::new();
    for line in lines {
        let ways = found.entry(line.stack).or_default();
        let at = match ways.iter().position(|way| way.name == line.way) {
            Some(at) => at,
            None => {
                ways.push(Way {
                    name: line.way,
                    ..Way::default()
                });
                ways.len() - 1
            }
        };
        ways[at].cpu.push(line.cpu_ns);
        ways[at].wall.push(line.wall_ns);
        ways[at].all_cpu.push(line.all_cpu_ns);
        ways[at].end.push(line.end_s);
    }
    Ok(found
        .into_iter()
        .map(|(stack, ways)| table(&stack, &ways, launches, repetitions, figures))
        .collect())
}

/// Runs an example of `rsys-tests` with the product that is measured. What it prints: one line of JSON for each run.
pub fn example<T: DeserializeOwned>(lab: &Lab, name: &str, arguments: &[u32]) -> Result<Vec<T>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--release",
            "--quiet",
            "-p",
            "rsys-tests",
            "--example",
        ])
        .args([name, "--"])
        .args(arguments.iter().map(u32::to_string))
        .env("RSYS_SAMPLE", &lab.places.rsys_sample)
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

fn table(
    stack: &str,
    ways: &[Way],
    launches: u32,
    repetitions: u32,
    figures: &mut Figures,
) -> Table {
    let mut table = Table::new(
        &format!("Launches of kernels, runtimes {stack}: time of the thread that launches"),
        &[
            "way",
            "CPU ns (min)",
            "CPU ns (median)",
            "added ns",
            "wall ns (median)",
            "launches/s: ratio",
            "all CPU ns added",
            "s from the last kernel to the end",
        ],
    );
    let bare = ways.first().and_then(|way| minimum(&way.cpu));
    let bare_wall = ways.first().and_then(|way| median(&way.wall));
    let bare_all = ways.first().and_then(|way| minimum(&way.all_cpu));
    for Way {
        name,
        cpu,
        wall,
        all_cpu,
        end,
    } in ways
    {
        let added = minimum(cpu).zip(bare).map(|(own, bare)| own - bare);
        let all_added = minimum(all_cpu).zip(bare_all).map(|(own, bare)| own - bare);
        table.row(vec![
            name.as_str().into(),
            Cell::number(minimum(cpu), 0),
            Cell::number(median(cpu), 0),
            Cell::number(added, 0),
            Cell::number(median(wall), 0),
            Cell::number(
                bare_wall
                    .zip(median(wall))
                    .and_then(|(bare, own)| ratio(bare, own)),
                2,
            ),
            Cell::number(all_added, 0),
            Cell::number(median(end), 3),
        ]);
        if let Some(added) = all_added {
            figures.insert(format!("gpu/{stack}/{name}/all_added_ns"), added);
        }
        if let Some(end_s) = median(end) {
            figures.insert(format!("gpu/{stack}/{name}/end_s"), end_s);
        }
        if let Some(added) = added {
            figures.insert(format!("gpu/{stack}/{name}/added_ns"), added);
        }
    }
    table.note(format!(
        "{repetitions} runs of {launches} launches; \"added\" is above bare, by the minima of CPU time"
    ));
    table.note(
        "all CPU: of the program, its simulated GPU and the profiler, until the trace is finished",
    );
    table
}
