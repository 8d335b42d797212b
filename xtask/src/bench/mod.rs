//! `cargo xtask bench`: every figure that we claim, beside its peers, in one run.
//!
//! Machines are shared and noisy, so a figure on its own says little. All tools take turns within each repetition; what is compared
//! is the smallest or the middle of the repetitions, and the outcome is a ratio. A peer that is missing or refuses is named with its
//! reason, and the run goes on. `docs/benchmarks.md` explains the figures.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

mod answers;
mod crowd;
mod engines;
mod exports;
mod finish;
mod goals;
mod gpu;
mod gpu_start;
mod graphs;
mod install;
mod lab;
mod launches;
mod markers;
mod memory;
mod merge;
mod monitors;
mod numbers;
mod ordinary;
mod overhead;
mod process;
mod rate;
mod report;
mod size;
mod startup;
mod table;
mod tools;

use lab::Lab;
use table::{Figures, Table};
use tools::{FOR_NATIVE, FOR_NEW_PYTHON, FOR_PYTHON, FOR_RATE, Tool};

/// What `cargo xtask bench` is asked for.
#[derive(Debug, Args)]
pub struct BenchOptions {
    /// Few repetitions, short programs: twenty minutes rather than an hour, and less to rely on.
    #[arg(long)]
    quick: bool,
    /// Only these measures: overhead, size, finish, memory, startup, short, make, rate, walks, python, names, merge,
    /// report, export, writer, viewer, monitors, markers, gpu, graphs, gpu-start.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// The folder with `rsys-sample` and the agent (or RSYS_BENCH_PRODUCT); without it, a release build is made.
    #[arg(long, value_name = "DIR")]
    product: Option<PathBuf>,
    /// Do not install peers that are missing.
    #[arg(long)]
    no_install: bool,
}

type Measure = fn(&Lab, &mut Figures) -> Result<Vec<Table>>;

/// Each measure, and the tools that it runs programs with: those of others need not be there.
const MEASURES: [(&str, Measure, &[&[Tool]]); 21] = [
    (
        "overhead",
        overhead::measure,
        &[&FOR_NATIVE, &FOR_PYTHON, &FOR_NEW_PYTHON],
    ),
    ("size", size::measure, &[&FOR_NATIVE, &FOR_PYTHON]),
    ("finish", finish::measure, &[&FOR_NATIVE, &FOR_PYTHON]),
    ("memory", memory::measure, &[&FOR_NATIVE, &FOR_PYTHON]),
    ("startup", startup::measure, &[&FOR_NATIVE]),
    ("short", crowd::short, &[&crowd::TOOLS]),
    ("make", crowd::make, &[&crowd::TOOLS]),
    ("rate", rate::measure, &[&FOR_RATE]),
    ("walks", engines::walks, &[]),
    ("python", engines::python_frames, &[]),
    ("names", engines::names, &[]),
    ("merge", merge::measure, &[&[Tool::Rsys]]),
    ("report", answers::measure, &[]),
    ("export", exports::measure, &[]),
    ("writer", launches::writer, &[]),
    ("viewer", launches::viewer, &[]),
    ("monitors", monitors::measure, &[&[Tool::Rsys]]),
    ("markers", markers::measure, &[&[Tool::Bare, Tool::Rsys]]),
    ("gpu", gpu::measure, &[]),
    ("graphs", graphs::measure, &[]),
    ("gpu-start", gpu_start::measure, &[]),
];

/// What goes into the JSON file.
#[derive(Debug, Serialize)]
struct Record {
    started_s: u64,
    machine: String,
    quick: bool,
    not_measured: Vec<(String, String)>,
    tables: Vec<Table>,
    figures: Figures,
}

/// Runs the measures, prints their tables, and writes `target/bench/<time>.json`.
///
/// # Errors
/// When the product, the compiler or a folder to write is missing. What merely fails in one measure is printed.
pub fn run(options: &BenchOptions) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies in no workspace")?;
    for name in &options.only {
        if !MEASURES.iter().any(|(known, ..)| known == name) {
            let known: Vec<&str> = MEASURES.iter().map(|(known, ..)| *known).collect();
            bail!(
                "no measure is called {name}; there are {}",
                known.join(", ")
            );
        }
    }
    let given = options.product.clone();
    let product = match given.or_else(|| std::env::var_os("RSYS_BENCH_PRODUCT").map(PathBuf::from))
    {
        Some(product) => product,
        None => build(root)?,
    };
    let started_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let is_chosen = |name| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let chosen = || MEASURES.iter().filter(|(name, ..)| is_chosen(name));
    let tools = chosen().flat_map(|(.., tools)| tools.iter().copied().flatten());
    let tools: BTreeSet<Tool> = tools.copied().collect();
    let lab = Lab::open(root, &product, options.quick, &tools, !options.no_install)?;
    let mut record = Record {
        started_s,
        machine: machine(),
        quick: options.quick,
        not_measured: lab
            .missing
            .iter()
            .map(|(tool, reason)| (tool.name().to_owned(), reason.clone()))
            .collect(),
        tables: Vec::new(),
        figures: Figures::new(),
    };
    println!("{}", record.machine);
    for (tool, reason) in &record.not_measured {
        println!("{tool}: not measured: {reason}");
    }
    for (name, measure, _) in chosen() {
        match measure(&lab, &mut record.figures) {
            Ok(tables) => {
                for table in tables {
                    println!("{}", table.print());
                    record.tables.push(table);
                }
            }
            Err(error) => {
                println!("\n{name}: not measured: {error:#}");
                record
                    .not_measured
                    .push(((*name).to_owned(), format!("{error:#}")));
            }
        }
    }
    let summary = goals::judge(&record.figures);
    println!("{}", summary.print());
    record.tables.push(summary);
    let path = write(root, &record)?;
    println!("written to {}", path.display());
    Ok(())
}

fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args([
            "build",
            "--release",
            "-p",
            "rsys-sampler",
            "-p",
            "rsys-agent",
            "-p",
            "rsys-report",
        ])
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the release build failed");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(target).join("release"))
}

fn machine() -> String {
    let line = |path: &str, key: &str| {
        fs::read_to_string(path).ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split(':').next_back()?.trim().to_owned())
        })
    };
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{processors} x {}, Linux {}, load {}",
        line("/proc/cpuinfo", "model name").unwrap_or_default(),
        line("/proc/sys/kernel/osrelease", "").unwrap_or_default(),
        line("/proc/loadavg", "").unwrap_or_default(),
    )
}

fn write(root: &Path, record: &Record) -> Result<PathBuf> {
    let folder = root.join("target/bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{}.json", record.started_s));
    let json = serde_json::to_string_pretty(record).context("the results have no JSON form")?;
    fs::write(&path, json).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
