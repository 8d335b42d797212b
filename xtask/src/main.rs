//! `cargo xtask`: the tasks of this repository.
//!
//! Each subcommand is a module of its own. They say what they do, line by line, and stop at the first step that fails.

mod bench;
mod check;
mod ci;
mod demo;
mod documents;
mod floors;
mod gpu_program;
mod install;
mod judges;
mod package;
mod pictures;
mod repeat;
mod runtimes;
mod site;
mod steps;
mod system;
mod test;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The tasks of the rsys repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build, and profile example programs; on simulated GPUs too if there is a HIP runtime
    Demo,
    /// Install what the tests need (where that is allowed), and run the quick set
    Test(test::TestOptions),
    /// All that a change has to pass: formatting, lints, checks, the quick set of tests, the others
    Ci,
    /// Run a program, and leave none of its processes: for `test`
    #[command(hide = true)]
    Supervise(test::supervise::SuperviseOptions),
    /// Check what no test sees: dependencies, pages, documentation, minimum-rust, fuzz-targets, miri
    Check {
        /// Only the check of this name
        name: Option<String>,
    },
    /// Run tests many times and count, for what fails seldom
    Repeat(repeat::RepeatOptions),
    /// Fetch the ROCm runtimes that the tests with simulated GPUs use, about 1 GB of downloads
    Runtimes {
        /// Only these: debian11, debian12, wheel54, debian13 or unstable
        name: Option<String>,
    },
    /// Check that folders use one another in one direction only, as floors.toml says
    Floors,
    /// Find phrases in messages and documents that have a better word
    Words,
    /// Measure every figure that we claim, beside its peers
    Bench(bench::BenchOptions),
    /// Make a site of README and all pages, with search: by mdBook, which is compiled the first time (some minutes)
    Site,
    /// Make the pictures of README anew, in docs/images: needs a browser and a HIP runtime
    Pictures,
    /// Install rsys below a folder
    Install {
        /// The folder: gets bin/, lib/ and share/rsys/
        #[arg(long, default_value = "/usr/local")]
        prefix: PathBuf,
        /// Also links of the original's names: rocprof-sys-sample, rocprof-sys-avail, omnitrace-sample, omnitrace-avail
        #[arg(long)]
        old_names: bool,
        /// Fetch a copy of the Perfetto UI too, for machines without a network
        #[arg(long)]
        ui: bool,
    },
    /// Make packages, and try each: install it in a clean place, profile, report, remove it; nothing may be left
    Package(package::PackageOptions),
    /// Remove what `install` put below a folder
    Uninstall {
        /// The folder that was given to `install`
        #[arg(long, default_value = "/usr/local")]
        prefix: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Demo => demo::run().map(|()| ExitCode::SUCCESS),
        Task::Test(options) => test::run(&options),
        Task::Ci => ci::run(),
        Task::Supervise(options) => test::supervise::run(&options),
        Task::Check { name } => check::run(name.as_deref()),
        Task::Repeat(options) => repeat::run(&options),
        Task::Runtimes { name } => runtimes::fetch(name.as_deref()).map(|all| {
            if all {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }),
        Task::Floors => floors::run(),
        Task::Words => words::run(),
        Task::Bench(options) => bench::run(&options).map(|()| ExitCode::SUCCESS),
        Task::Site => site::make().map(|()| ExitCode::SUCCESS),
        Task::Pictures => pictures::make().map(|()| ExitCode::SUCCESS),
        Task::Install {
            prefix,
            old_names,
            ui,
        } => install::run(&prefix, old_names, ui).map(|()| ExitCode::SUCCESS),
        Task::Package(options) => package::run(&options).map(|()| ExitCode::SUCCESS),
        Task::Uninstall { prefix } => install::uninstall(&prefix).map(|()| ExitCode::SUCCESS),
    }
}
