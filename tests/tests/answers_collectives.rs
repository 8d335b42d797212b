//! `rsys-report collectives` on jobs of four ranks with the real RCCL over simulated GPUs, one of which is late for a known reason.

use std::sync::{Mutex, PoisonError};

use anyhow::ensure;
use rsys_tests::simgpu::{Machine, Stack, code_object};
use rsys_tests::{Run, Scratch, TestResult, answer, script, skip_if_missing, workspace_dir};
use serde_json::Value;

const RANKS: usize = 4;
const STEPS: usize = 20;

const MACHINE: &str = "
[[kernel]]
name = \"short_kernel\"
microseconds = 500

[[kernel]]
name = \"long_kernel\"
microseconds = 100000
";

/// Jobs run one after the other: processors that they take from each other make any rank late.
static ALONE: Mutex<()> = Mutex::new(());

/// The answer about a job in which rank 1 is late for a reason.
fn collectives(reason: &str) -> anyhow::Result<Value> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stack = Stack::Debian13;
    let machine = Machine::new(stack)?.gpus(RANKS).config(MACHINE)?;
    let folder = Scratch::new("rccl-late")?;
    let line = format!(
        "for rank in $(seq 0 {last}); do RANK=$rank WORLD_SIZE={RANKS} /usr/bin/python3 {script} libamdhip64.so.5 librccl.so.1 {code} $rank {RANKS} {id} {STEPS} {reason} & \
         all=\"$all $!\"; done; for one in $all; do wait $one || exit 1; done",
        last = RANKS - 1,
        script = workspace_dir()
            .join("tests/workloads/gpu/rccl_late.py")
            .display(),
        code = code_object("gfx90a")?.display(),
        id = folder.path().join("id").display(),
    );
    let outcome = Run::new()
        .options(["-I", "rocm", "rccl", "--realtime", "-f", "1000"])
        .command(machine.run(script(&line)))
        .run()?;
    outcome.expect_success();
    answer("collectives", &outcome.files())
}

/// The only straggler is rank 1, for this cause, in this place.
fn is_named(reason: &str, cause: &str, place: &str) -> TestResult {
    skip_if_missing!(Stack::Debian13.missing());
    let answer = collectives(reason)?;
    let matched = answer["communicators"][0]["matched"].as_u64();
    ensure!(matched == Some(STEPS as u64), "{answer:#}");
    let stragglers = &answer["stragglers"];
    ensure!(
        stragglers.as_array().is_some_and(|rows| rows.len() == 1),
        "{answer:#}"
    );
    let found = &stragglers[0];
    let is_place = found["place"]
        .as_str()
        .is_some_and(|text| text.contains(place));
    ensure!(
        found["rank"] == 1 && found["cause"] == cause && is_place,
        "{found:#}"
    );
    Ok(())
}

#[test]
fn a_sleep_in_a_python_function_is_named() -> TestResult {
    is_named("sleeps", "host_wait", "sleeps (rccl_late.py:")
}

#[test]
fn python_code_is_named() -> TestResult {
    is_named("computes", "host_code", "computes (rccl_late.py:")
}

#[test]
fn longer_kernels_are_named() -> TestResult {
    is_named("kernels", "longer_kernels", "long_kernel")
}
