//! `rsys-report collectives` and `overlap` on jobs of four ranks with the real RCCL over simulated GPUs: one is late for a known reason, or each second step
//! hides its collective.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{Dispatch, RanksOnGpus};
use rsys_tests::{Outcome, Run, TestResult, answer, answer_with, script, skip_if_missing};
use serde_json::Value;

const RANKS: usize = RanksOnGpus::RANKS;
const STEPS: usize = RanksOnGpus::STEPS;

/// Jobs run one after the other: processors that they take from each other make any rank late.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a job of a Python program, to whose arguments others are added, on a machine of which something is special. Returns the traces, and the job, which
/// knows what the GPUs did. The sampler is in the machine, where it sees the sensors.
fn run(program: &str, arguments: &str, special: &str) -> anyhow::Result<(Outcome, RanksOnGpus)> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let job = RanksOnGpus::new(program, arguments, special)?;
    let line = script(&job.of_all()?);
    let outcome = Run::new()
        .under(job.machine().around().words)
        .options([
            "-I",
            "rocm",
            "rccl",
            "rocm-smi",
            "--gpu-metrics",
            "busy,clock",
        ])
        .options(["--realtime", "-f", "1000"])
        // The clock is low for some tens of milliseconds at a time.
        .options(["--process-freq", "100"])
        .command(RanksOnGpus::STACK.with_runtimes(line))
        .run()?;
    outcome.expect_success();
    Ok((outcome, job))
}

/// Rank 1 made the others wait in most steps, for this cause, in this place.
fn is_named(reason: &str, special: &str, cause: &str, place: &str) -> anyhow::Result<String> {
    let (outcome, _) = run("rccl_late.py", reason, special)?;
    let answer = answer("collectives", &outcome.files())?;
    let matched = answer["communicators"][0]["matched"].as_u64();
    ensure!(matched == Some(STEPS as u64), "{answer:#}");
    // Ranks share two processors, so others may be late as well, for once.
    let stragglers = answer["stragglers"].as_array().context("stragglers")?;
    let found = stragglers.iter().find(|found| found["rank"] == 1);
    let found = found.with_context(|| format!("{answer:#}"))?;
    // Code that others keep from a processor for longer than it runs.
    let is_kept_waiting = cause == "host_code" && found["cause"] == "host_runnable";
    let is_often = found["arrivals"].as_u64() >= Some(STEPS as u64 / 2);
    let is_place = found["place"]
        .as_str()
        .is_some_and(|text| text.contains(place));
    // A machine without a processor for the sensors has read the clock of a GPU at rest last.
    let is_clock_old = cause == "longer_kernels" && found["cause"] == "slow_clock";
    // It may not have read it often enough while the GPU computed, either.
    let is_unread = cause == "slow_clock"
        && found["cause"] == "longer_kernels"
        && RanksOnGpus::readings_of_low_clock(&outcome.files())? < STEPS as i64 / 2;
    let is_cause = found["cause"] == cause || is_kept_waiting || is_clock_old || is_unread;
    ensure!(is_cause && is_place && is_often, "{found:#}");
    let kinds: &[&str] = match cause {
        "longer_kernels" => &["kernel"],
        "host_wait" => &["host_wait"],
        "host_code" => &["host_code", "host_runnable"],
        _ => &[],
    };
    if !kinds.is_empty() {
        is_on_the_critical_path(&outcome, kinds, place)?;
    }
    Ok(found["words"].as_str().unwrap_or_default().to_owned())
}

/// Iterations wait for what rank 1 does in this place, but for a few in which the machine held up another rank.
fn is_on_the_critical_path(outcome: &Outcome, kinds: &[&str], place: &str) -> TestResult {
    const LATE_NS: u64 = 50_000_000;
    let options = ["--marker", "ncclAllReduce", "--critical-path"];
    let iterations = "3,4,5,6,7,8,9,10,11,12";
    let options = [&options[..], &["--iteration", iterations]].concat();
    let answer = answer_with("overlap", &options, &outcome.files())?;
    let ns = |row: &Value| row["duration_ns"].as_u64().unwrap_or(0);
    let steps = answer["critical_path"].as_array().context("steps")?;
    let paths = answer["critical_paths"].as_array().context("paths")?;
    ensure!(paths.len() == 10, "{answer:#}");
    let mut through_it = 0;
    for path in paths {
        let of_path = || {
            let iteration = &path["iteration"];
            steps
                .iter()
                .filter(move |step| step["iteration"] == *iteration)
        };
        let sum_ns: u64 = of_path().map(ns).sum();
        ensure!(sum_ns == ns(path), "{answer:#}");
        let there = of_path().filter(|step| {
            let name = step["name"].as_str().unwrap_or_default();
            let is_kind = kinds.iter().any(|kind| step["kind"] == *kind);
            step["rank"] == 1 && is_kind && name.contains(place)
        });
        through_it += usize::from(there.map(ns).sum::<u64>() > LATE_NS);
    }
    ensure!(through_it >= 7, "{through_it} of 10: {answer:#}");
    Ok(())
}

#[test]
fn a_sleep_in_a_python_function_is_named() -> TestResult {
    skip_if_missing!(RanksOnGpus::STACK.missing());
    is_named("sleeps", "", "host_wait", "sleeps (rccl_late.py:")?;
    Ok(())
}

#[test]
fn python_code_is_named() -> TestResult {
    skip_if_missing!(RanksOnGpus::STACK.missing());
    is_named("computes", "", "host_code", "computes (rccl_late.py:")?;
    Ok(())
}

#[test]
fn longer_kernels_are_named() -> TestResult {
    skip_if_missing!(RanksOnGpus::STACK.missing());
    is_named("kernels", "", "longer_kernels", "long_kernel")?;
    Ok(())
}

#[test]
fn a_slow_copy_is_named_with_its_line_and_bandwidth() -> TestResult {
    skip_if_missing!(RanksOnGpus::STACK.missing());
    let words = is_named(
        "copies",
        RanksOnGpus::SLOW_LINK,
        "copies",
        "load_batch (rccl_late.py:",
    )?;
    let told = "most of all host to device at 0.020 GB/s (";
    ensure!(words.contains(told), "{words}");
    Ok(())
}

/// The sensors are in the trace of the shell that started the ranks.
#[test]
fn a_lower_clock_is_named_with_the_sensor() -> TestResult {
    skip_if_missing!(RanksOnGpus::STACK.missing());
    let words = is_named("clock", RanksOnGpus::LOW_CLOCK, "slow_clock", "long_kernel")?;
    // Its clock is at 850 MHz while it computes; readings between count as well.
    let Some((_, told)) = words.split_once("while its GPU Clock was ") else {
        // Hardly anything was read.
        ensure!(words.contains("were no more than on the others"), "{words}");
        return Ok(());
    };
    let mhz: f64 = told.split(' ').next().unwrap_or_default().parse()?;
    ensure!(mhz < 1000.0, "{words}");
    Ok(())
}

/// How long two kernels ran at the same time.
fn common_ns(one: &Dispatch, other: &Dispatch) -> u64 {
    let end_ns = one.end_ns.min(other.end_ns);
    end_ns.saturating_sub(one.start_ns.max(other.start_ns))
}

#[test]
fn iterations_overlap_as_the_gpus_did() -> TestResult {
    /// Times of the trace are those of the GPU's clock, which is compared with BOOTTIME now and then.
    const TOLERANCE_NS: u64 = 5_000;
    skip_if_missing!(RanksOnGpus::STACK.missing());
    let (outcome, job) = run("rccl_overlap.py", "", "")?;
    let truth = job.machine().truth()?;
    let answer = answer("overlap", &outcome.files())?;
    let iterations = answer["iterations"].as_array().cloned();
    let iterations = iterations.unwrap_or_default();
    let ranks = answer["overlap_ranks"].as_array().cloned();
    let ranks = ranks.unwrap_or_default();
    ensure!(ranks.len() == RANKS, "{answer:#}");
    let mut hidden_ns = 0;
    for rank in &ranks {
        ensure!(
            rank["marker"] == "step" && rank["iterations"] == STEPS,
            "{rank:#}"
        );
        let pid = rank["process"].as_u64().unwrap_or(0);
        let of_process = |name| {
            let named = truth.kernels_named(name);
            let mut own: Vec<&Dispatch> = named.filter(|one| u64::from(one.pid) == pid).collect();
            own.sort_by_key(|one| one.start_ns);
            own
        };
        let (kernels, collectives) = (of_process("short_kernel"), of_process("ncclKernel"));
        ensure!(
            kernels.len() == STEPS && collectives.len() == STEPS,
            "{truth:?}"
        );
        for (step, (kernel, collective)) in kernels.iter().zip(&collectives).enumerate() {
            let row = iterations
                .iter()
                .find(|row| row["process"] == pid && row["iteration"] == step);
            let Some(row) = row else {
                anyhow::bail!("no step {step} in {answer:#}");
            };
            let common_ns = common_ns(kernel, collective);
            let comm_ns = collective.end_ns - collective.start_ns;
            for (key, ns) in [
                ("computation_ns", kernel.end_ns - kernel.start_ns),
                ("total_comm_ns", comm_ns),
                ("exposed_comm_ns", comm_ns - common_ns),
                ("compute_allreduce_ns", common_ns),
            ] {
                let is_near = row[key]
                    .as_u64()
                    .is_some_and(|told| told.abs_diff(ns) <= TOLERANCE_NS);
                ensure!(is_near, "{key} of step {step} is {ns}: {row:#}");
            }
            // What waits for its kernel hides nothing.
            ensure!(step % 2 == 0 || row["comm_hidden_share"] == 0.0, "{row:#}");
            hidden_ns += common_ns;
        }
    }
    ensure!(hidden_ns > 0, "nothing was hidden: {answer:#}");
    Ok(())
}
