//! A large program, killed or left by a killed profiler: what it did up to 0.2 s before is in the trace.
//!
//! The program writes the time into a file all along. What is compared are two of its moments: the last that it wrote, and
//! the last that was sampled. On a machine with much else to do the profiler may have to wait for a processor, hence several
//! attempts: one within the bound shows that nothing of ours makes it wait.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rsys_tests::{
    Run, Running, Scratch, TestResult, Trace, missing_python_module, python, scan_packets, signal,
    skip_if_missing, wait_until,
};

const ATTEMPTS: u32 = 5;
const LOST_AT_MOST_S: f64 = 0.2;

fn samples_on_disk(run: &Running) -> u64 {
    let folders = fs::read_dir(run.output()).into_iter().flatten().flatten();
    let files =
        folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files
        .filter_map(|file| scan_packets(&file.path()).ok())
        .map(|found| found.samples)
        .sum()
}

/// Seconds between the program's last sign of life and its last sample.
fn lost_seconds(kills_profiler: bool) -> anyhow::Result<f64> {
    let scratch = Scratch::new("large")?;
    let stamp = scratch.path().join("stamp");
    let run = Run::new()
        .freq(300)
        .command(python("large.py").arg(&stamp))
        .start()?;
    let pid: u32 = run.wait_for("ready")?.parse()?;
    let before = samples_on_disk(&run);
    anyhow::ensure!(
        wait_until(Duration::from_secs(120), || samples_on_disk(&run)
            > before + 100),
        "nothing is written while the program runs"
    );
    let victim = if kills_profiler { run.pid() } else { pid };
    // The program's last word may be later than the death of the profiler, but not the other way round.
    let told = read_stamp(&stamp)?;
    assert!(signal(victim, libc::SIGKILL));
    let outcome = run.wait()?;
    let last = if kills_profiler {
        signal(pid, libc::SIGKILL);
        told
    } else {
        read_stamp(&stamp)?
    };
    let [file] = &outcome.files()[..] else {
        anyhow::bail!("not one trace\n{}", outcome.story());
    };
    let trace = Trace::load(file, None)?;
    trace.assert_valid_prefix();
    let newest = trace.number("select max(ts) from perf_sample")?;
    Ok((last - newest) as f64 / 1e9)
}

fn read_stamp(path: &std::path::Path) -> anyhow::Result<i64> {
    let bytes = fs::read(path)?;
    let word = bytes.first_chunk().context("no stamp")?;
    Ok(i64::from_le_bytes(*word))
}

#[test]
fn a_large_program_that_is_killed() -> TestResult {
    skip_if_missing!(missing_python_module("torch"));
    let mut lost = Vec::new();
    for _ in 0..ATTEMPTS {
        let seconds = lost_seconds(false)?;
        lost.push(seconds);
        if seconds <= LOST_AT_MOST_S {
            println!("lost: {lost:?}");
            return Ok(());
        }
    }
    panic!("seconds lost at the end, in {ATTEMPTS} attempts: {lost:?}")
}

/// What the profiler had not written yet goes with it: while it looks up names for the first time, that may be a second.
#[test]
fn a_large_program_whose_profiler_is_killed() -> TestResult {
    skip_if_missing!(missing_python_module("torch"));
    println!("lost: {:?}", lost_seconds(true)?);
    Ok(())
}
