//! What the closing table costs the sampler: the same runs with it and without, in turns.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::lab::Lab;
use super::numbers::median;
use super::process;
use super::table::{Cell, Figures, Table};
use crate::gpu_program::{self, Hip};
use crate::steps::build_packages;

/// With it, and without.
const WAYS: [&str; 2] = ["full", "off"];

/// What a program is profiled with, and the program.
struct Case {
    name: &'static str,
    options: &'static [&'static str],
    command: Vec<OsString>,
}

/// What the sampler took in a run.
#[derive(Debug, Clone, Copy)]
struct Taken {
    cpu_s: f64,
    peak_mb: f64,
}

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (seconds, repetitions) = if lab.quick { (2.0, 5) } else { (5.0, 15) };
    let units = lab.calibrate(seconds, 2e6, |units| Ok(lab.chain(30, 4, units)))?;
    let chain = lab.chain(30, 4, units).command;
    let mut cases = vec![Case {
        name: "samples",
        options: &["-f", "5000"],
        command: chain.into_iter().map(OsString::from).collect(),
    }];
    let mut table = Table::new(
        "Closing table: what it costs the sampler",
        &[
            "records",
            "CPU s with (median)",
            "without",
            "% more (median of pairs)",
            "% more (quartiles)",
            "MB with",
            "without",
        ],
    );
    match Hip::find() {
        Some(hip) => {
            build_packages("the simulated GPUs", &[gpu_program::PACKAGE])?;
            let program = hip.build("tests/workloads/gpu/hip_flood.cpp", &lab.scratch)?;
            let mut command = hip.simulated(1, None, &program);
            let count = if lab.quick { "20000" } else { "100000" };
            command.extend(["2", "2", count, "500"].map(OsString::from));
            cases.push(Case {
                name: "kernels",
                options: &["-I", "rocm", "-f", "100"],
                command,
            });
        }
        None => table.note("kernels: not measured: no HIP runtime (cargo xtask runtimes debian12)"),
    }
    for case in &cases {
        row(lab, case, repetitions, &mut table, figures)?;
    }
    table.note(format!("{repetitions} pairs of runs; CPU time of the sampler as its traces tell it, memory as VmHWM"));
    Ok(vec![table])
}

fn row(
    lab: &Lab,
    case: &Case,
    repetitions: usize,
    table: &mut Table,
    figures: &mut Figures,
) -> Result<()> {
    eprintln!("bench: closing: {}", case.name);
    let mut taken: [Vec<Taken>; 2] = [Vec::new(), Vec::new()];
    for repetition in 0..repetitions {
        for turn in 0..2 {
            let which = (repetition + turn) % 2;
            taken[which].push(run(lab, case, WAYS[which])?);
        }
    }
    let of = |which: usize, value: fn(&Taken) -> f64| {
        taken[which].iter().map(value).collect::<Vec<f64>>()
    };
    let pairs = taken[0].iter().zip(&taken[1]);
    let mut more: Vec<f64> = pairs
        .map(|(with, without)| 100.0 * (with.cpu_s / without.cpu_s - 1.0))
        .collect();
    more.sort_by(f64::total_cmp);
    let quarter = more.len() / 4;
    let quartiles = format!(
        "{:.2} to {:.2}",
        more[quarter],
        more[more.len() - 1 - quarter]
    );
    table.row(vec![
        case.name.into(),
        Cell::number(median(&of(0, |one| one.cpu_s)), 3),
        Cell::number(median(&of(1, |one| one.cpu_s)), 3),
        Cell::number(median(&more), 2),
        quartiles.as_str().into(),
        Cell::number(median(&of(0, |one| one.peak_mb)), 1),
        Cell::number(median(&of(1, |one| one.peak_mb)), 1),
    ]);
    if let Some(percent) = median(&more) {
        figures.insert(format!("closing/{}/cpu_percent", case.name), percent);
    }
    Ok(())
}

fn run(lab: &Lab, case: &Case, way: &str) -> Result<Taken> {
    lab.empty_output()?;
    let output = lab.scratch.join("output");
    let mut command = Command::new(&lab.places.rsys_sample);
    command
        .args(["-c", "none", "--process-sampling=false", "--summary", way])
        .arg("--symbol-cache")
        .arg(&lab.places.symbol_cache)
        .args(case.options)
        .arg("-o")
        .arg(&output)
        .arg("--")
        .args(&case.command);
    let finished = process::run(&mut command, lab.terms(true))?;
    ensure!(
        finished.status.success(),
        "{}: {}",
        finished.status,
        finished.last_words()
    );
    let mut report = Command::new(lab.places.rsys_sample.with_file_name("rsys-report"));
    report.args(["functions", "--json"]).arg(&output);
    let answer = process::run(&mut report, lab.terms(false))?;
    let answer: serde_json::Value =
        serde_json::from_str(&answer.stdout).with_context(|| answer.last_words())?;
    let cpu_ns = answer["profiling_cost"][0]["sampler_cpu_ns"].as_f64();
    let peak_kb = finished.peak_rss_kb.context("no memory seen")?;
    Ok(Taken {
        cpu_s: cpu_ns.context("no cost in the answer")? / 1e9,
        peak_mb: peak_kb as f64 / 1024.0,
    })
}
