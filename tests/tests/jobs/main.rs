//! Parallel jobs: a real Slurm of two nodes, OpenMPI, MPICH, and many ranks at once.

mod ends;
mod launchers;
mod many;
mod steps;
mod stragglers;
mod stuck;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use rsys_tests::{Trace, key, sampler};

/// A sampler that writes to `output`, up to its command.
fn profiled(output: &Path) -> Result<Vec<String>> {
    let sampler = sampler()?.display().to_string();
    let output = output.display().to_string();
    Ok([&sampler, "-f", "1000", "-o", &output, "--"]
        .map(str::to_owned)
        .to_vec())
}

/// All files below a folder that are not the tasks' own records, by their names in it.
fn files(folder: &Path) -> Vec<String> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() && !path.ends_with(".tasks") {
                collect(&path, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(folder, &mut found);
    let mut names: Vec<String> = found
        .iter()
        .filter_map(|path| Some(path.strip_prefix(folder).ok()?.display().to_string()))
        .collect();
    names.sort();
    names
}

/// The names that a step of so many ranks leaves.
fn of_step(step: &str, ranks: usize) -> Vec<String> {
    let traces = (0..ranks).map(|rank| format!("{step}/perfetto-trace-{rank}.proto"));
    let mut names: Vec<String> = traces.chain([format!("{step}/job.json")]).collect();
    names.sort();
    names
}

/// The rank in a trace is that of its name.
fn assert_rank(step: &Path, rank: i64) -> Result<()> {
    let trace = Trace::load(&step.join(format!("perfetto-trace-{rank}.proto")), None)?;
    trace.assert_valid_prefix();
    assert_eq!(trace.metadata()?.int(key::RANK)?, rank);
    Ok(())
}

/// A command with the words of another behind its own.
fn with(mut command: Command, words: &[String]) -> Command {
    command.args(words);
    command
}
