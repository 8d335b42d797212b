//! `cargo xtask repeat`: the same tests many times, with exact counts. For what fails seldom.

use std::process::ExitCode;

use anyhow::Result;

use crate::test::{self, Which};

/// What is repeated.
#[derive(Debug, clap::Args)]
pub struct RepeatOptions {
    /// How often
    times: u32,
    /// Tests whose names contain one of these words
    #[arg(required = true)]
    words: Vec<String>,
    /// Those too that are only run by hand
    #[arg(long)]
    long: bool,
}

/// Builds once, runs the tests so often, and closes with a line for each that failed and the sum.
pub fn run(options: &RepeatOptions) -> Result<ExitCode> {
    let which = Which::Named(&options.words);
    let counts = test::run_these(which, options.long, false, options.times)?;
    println!("{counts}");
    Ok(counts.exit_code())
}
