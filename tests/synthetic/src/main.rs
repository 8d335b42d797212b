//! `rsys-synthetic DIR`: writes the traces of a job that never ran.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Parser;
use rsys_synthetic::{Cause, Fault, HostClock, Job};

/// Writes the traces of a job that never ran, and what is true of it (truth.json).
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder
    folder: PathBuf,
    #[arg(long, default_value_t = 8)]
    ranks: u64,
    #[arg(long, default_value_t = 8)]
    ranks_per_host: u64,
    #[arg(long, default_value_t = 50)]
    iterations: u64,
    /// Collectives of an iteration
    #[arg(long, default_value_t = 4)]
    buckets: u64,
    /// Ranks in the smaller communicators; 1: there are none
    #[arg(long, default_value_t = 1)]
    group: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// RANK:CAUSE:MILLISECONDS[:EVERY], for instance 3:slow_loader:5
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// Microseconds by which the wall clock of each host is wrong
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
    wall_error: Vec<i64>,
    #[arg(long, value_delimiter = ',')]
    missing: Vec<u64>,
}

fn fault(text: &str) -> Result<Fault> {
    let mut parts = text.split(':');
    let mut next = || parts.next().context("RANK:CAUSE:MILLISECONDS[:EVERY]");
    let (rank, cause, amount) = (next()?, next()?, next()?);
    let every = next().unwrap_or("1");
    let name = |one: &Cause| {
        let name = serde_json::to_value(one).ok();
        name.and_then(|name| name.as_str().map(str::to_owned))
    };
    let named = |one: &Cause| name(one).is_some_and(|name| name == cause);
    let Some(cause) = Cause::ALL.into_iter().find(named) else {
        let names: Vec<String> = Cause::ALL.iter().filter_map(name).collect();
        bail!("{cause}: none of {}", names.join(", "));
    };
    Ok(Fault {
        rank: rank.parse()?,
        cause,
        amount_ns: (amount.parse::<f64>()? * 1e6) as u64,
        every: every.parse()?,
    })
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let faults: Result<Vec<Fault>> = arguments.fault.iter().map(|text| fault(text)).collect();
    let clocks = arguments.wall_error.iter().map(|error_us| HostClock {
        wall_error_ns: error_us * 1000,
        drift_ppb: 0,
    });
    let job = Job {
        ranks: arguments.ranks,
        ranks_per_host: arguments.ranks_per_host.max(1),
        iterations: arguments.iterations,
        buckets: arguments.buckets.max(1),
        group: arguments.group.max(1),
        seed: arguments.seed,
        faults: faults?,
        clocks: clocks.collect(),
        missing: arguments.missing,
        ..Job::default()
    };
    rsys_synthetic::write(&job, &arguments.folder)
}
