//! Very many kernels: each is in the trace once, and the sampler's memory does not grow with their number.
//!
//! The large ones take many minutes and are run by hand, with `--ignored --nocapture`: they print the most memory that sampler and program had.

use std::fs;
use std::time::Duration;

use anyhow::ensure;
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Run, TestResult, alive, script, skip_if_missing, wait_until};

/// The kernels take next to no time: how fast they come is up to the program.
const MACHINE: &str = "
[[kernel]]
name = 'touch'
microseconds = 2
";

/// The sampler's memory at most: rings, what waits to be written, names, and calls whose operations are still to come.
const SAMPLER_KB: u64 = 256 << 10;

#[derive(Debug, Clone, Copy)]
struct Flood {
    stack: Stack,
    source: &'static str,
    gpus: usize,
    streams: usize,
    threads: usize,
    /// Kernels of each thread on each stream.
    count: usize,
    /// Launches of a thread before it waits; 0 when it waits at its end only.
    batch: usize,
}

/// Compilers are in these two.
fn missing(stack: Stack) -> Option<String> {
    [stack, Stack::Debian12, Stack::Debian13]
        .into_iter()
        .find_map(Stack::missing)
}

/// The most memory that a process had so far, in kB.
fn peak_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn check(flood: Flood) -> TestResult {
    let Flood {
        stack,
        source,
        gpus,
        streams,
        threads,
        count,
        batch,
    } = flood;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.gpus(gpus).config(MACHINE)?;
    let words = [streams, threads, count, batch].map(|number| number.to_string());
    let running = Run::new()
        .options(["-I", "roctracer", "--gpu-source", source])
        .command(machine.run(hip_program(stack, "hip_flood")?.args(words)))
        .timeout(Duration::from_secs(7200))
        .start()?;
    let mut sampler_kb = 0;
    let pid = running.pid();
    wait_until(Duration::from_secs(7200), || {
        sampler_kb = peak_kb(pid).unwrap_or(0).max(sampler_kb);
        !alive(pid)
    });
    let outcome = running.wait()?;
    outcome.expect_success();
    let kernels = (gpus * streams * threads * count) as u64;
    let found = outcome.assert_counts()?;
    println!(
        "{kernels} kernels: sampler {} MB, program {} MB, {} samples, {} slices",
        sampler_kb >> 10,
        outcome.number("peak_kb")? / 1024.0,
        found.samples,
        found.begins,
    );
    ensure!(
        found.kernel_begins == kernels && found.gpu_samples == kernels && outcome.dropped() == 0,
        "{} of {kernels} kernels are in the trace, {} samples\n{}",
        found.kernel_begins,
        found.gpu_samples,
        outcome.story()
    );
    // Each takes two microseconds, to the nanosecond: times are rounded.
    ensure!(
        (1999 * kernels..=2001 * kernels).contains(&found.gpu_ns),
        "{} ns of {kernels} kernels are told\n{}",
        found.gpu_ns,
        outcome.story()
    );
    ensure!(
        sampler_kb < SAMPLER_KB,
        "the sampler took {sampler_kb} kB\n{}",
        outcome.story()
    );
    if kernels > 1_000_000 {
        // More than the trace processor holds.
        return Ok(());
    }
    let trace = outcome.trace_of("hip_flood")?;
    let without = trace.number(
        "select count(*) from slice where category = 'kernel' and extract_arg(arg_set_id, 'debug.stream') is null",
    )?;
    ensure!(without == 0, "{without} kernels have no call");
    let metadata = trace.metadata()?;
    let (seen, recorded) = (metadata.int("gpu_seen")?, metadata.int("gpu_recorded")?);
    ensure!(
        seen == recorded && u64::try_from(seen)? == kernels,
        "{seen} seen, {recorded} recorded"
    );
    Ok(())
}

/// Eight GPUs, and nobody waits before the end: HIP 5 tells of all kernels late.
#[test]
fn kernels_that_are_told_late_have_their_calls() -> TestResult {
    check(Flood {
        stack: Stack::Wheel54,
        source: "hip",
        gpus: 8,
        streams: 4,
        threads: 4,
        count: 500,
        batch: 0,
    })
}

/// HIP 7 tells in lumps, on threads of its own, from several GPUs at once.
#[test]
fn kernels_of_rocm7_have_their_calls() -> TestResult {
    check(Flood {
        stack: Stack::Rocm7,
        source: "hip",
        gpus: 4,
        streams: 4,
        threads: 4,
        count: 500,
        batch: 0,
    })
}

#[test]
#[ignore = "takes minutes; run by hand"]
fn ten_million_on_rocm7() -> TestResult {
    check(Flood {
        stack: Stack::Rocm7,
        source: "hip",
        gpus: 1,
        streams: 1,
        threads: 1,
        count: 10_000_000,
        batch: 1000,
    })
}

#[test]
#[ignore = "takes minutes; run by hand"]
fn ten_million_on_one_gpu_by_hip() -> TestResult {
    check(Flood {
        stack: Stack::Wheel54,
        source: "hip",
        gpus: 1,
        streams: 1,
        threads: 1,
        count: 10_000_000,
        batch: 1000,
    })
}

#[test]
#[ignore = "takes minutes; run by hand"]
fn ten_million_on_one_gpu_by_hsa() -> TestResult {
    check(Flood {
        stack: Stack::Unstable,
        source: "hsa",
        gpus: 1,
        streams: 1,
        threads: 1,
        count: 10_000_000,
        batch: 1000,
    })
}

#[test]
#[ignore = "takes minutes; run by hand"]
fn thirteen_million_on_eight_gpus() -> TestResult {
    check(Flood {
        stack: Stack::Wheel54,
        source: "hip",
        gpus: 8,
        streams: 4,
        threads: 4,
        count: 100_000,
        batch: 1000,
    })
}

/// The rings of each process hold more than the sampler takes at once: no process may wait for ever while another is served.
#[test]
#[ignore = "takes minutes; run by hand"]
fn two_processes_share_the_sampler() -> TestResult {
    const STACK: Stack = Stack::Wheel54;
    skip_if_missing!(missing(STACK));
    let machine = Machine::new(STACK)?.gpus(8).config(MACHINE)?;
    let flood = hip_program(STACK, "hip_flood")?.path();
    let line = format!(
        "for i in 1 2; do {0} 4 4 10000 1000 & done; wait",
        flood.display()
    );
    let outcome = Run::new()
        .options(["-I", "roctracer"])
        .command(machine.run(script(&line)))
        .timeout(Duration::from_secs(1800))
        .run()?;
    outcome.expect_success();
    let found = outcome.assert_counts()?;
    println!("{}", outcome.stderr);
    let kernels = 8 * 4 * 4 * 10_000;
    ensure!(
        found.kernel_begins == 2 * kernels
            && (2 * 1999 * kernels..=2 * 2001 * kernels).contains(&found.gpu_ns)
            && outcome.dropped() == 0,
        "{} kernels, {} ns\n{}",
        found.kernel_begins,
        found.gpu_ns,
        outcome.story()
    );
    Ok(())
}
