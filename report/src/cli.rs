//! The command line and what is printed.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::merge::{self, Merged, Packing};

/// Merges traces, checks them, and finishes those that a killed profiler left.
#[derive(Debug, Parser)]
#[command(name = "rsys-report", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make one trace of many, on one time axis
    Merge(MergeOptions),
}

#[derive(Debug, Args)]
struct MergeOptions {
    /// Traces, or folders with traces (*.proto, *.pftrace, *.perfetto-trace)
    #[arg(required = true, value_name = "TRACE|DIR")]
    inputs: Vec<PathBuf>,
    /// The merged trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the output if it is already there
    #[arg(short, long)]
    force: bool,
    /// Whether to compress the packets
    #[arg(long, value_enum, default_value_t = Compress::Auto, value_name = "WHEN")]
    compress: Compress,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Compress {
    /// If one of the inputs is compressed
    Auto,
    /// Always
    Yes,
    /// Never
    No,
}

/// The command line, for help and manuals.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Does what the arguments say, and tells the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to be told when the terminal is gone.
            error.print().ok();
            return error.exit_code();
        }
    };
    let outcome = match cli.verb {
        Verb::Merge(options) => merge_traces(options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("rsys-report: error: {error:#}");
        1
    })
}

fn merge_traces(options: MergeOptions) -> Result<i32> {
    let request = merge::Request {
        inputs: options.inputs,
        output: options.output,
        force: options.force,
        packing: match options.compress {
            Compress::Auto => Packing::AsInputs,
            Compress::Yes => Packing::Compressed,
            Compress::No => Packing::Plain,
        },
    };
    let merged = merge::merge(&request)?;
    for remark in &merged.remarks {
        eprintln!("rsys-report: {remark}");
    }
    print(&merged, &request);
    Ok(0)
}

fn print(merged: &Merged, request: &merge::Request) {
    let mega = |bytes: u64| bytes as f64 / 1e6;
    if merged.hosts.len() > 1 {
        for host in &merged.hosts {
            println!("clock of {}: {host}", host.name);
        }
    }
    println!(
        "{}: {} traces, {} ranks, {} hosts, {} packets; {:.1} MB read ({:.1} MB of packets), {:.1} MB written in {:.2} s ({:.0} MB/s)",
        request.output.display(),
        merged.traces,
        merged.ranks,
        merged.hosts.len(),
        merged.packets,
        mega(merged.read_bytes),
        mega(merged.plain_bytes),
        mega(merged.written_bytes),
        merged.seconds,
        mega(merged.plain_bytes) / merged.seconds.max(1e-9),
    );
}
