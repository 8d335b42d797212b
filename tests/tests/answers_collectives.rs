//! `rsys-report collectives` and `overlap` on jobs of four ranks with the real RCCL over simulated GPUs: one is late for a known reason, or each second step
//! hides its collective.

use std::sync::{Mutex, PoisonError};

use anyhow::ensure;
use rsys_tests::simgpu::{Dispatch, Machine, Stack, code_object};
use rsys_tests::{
    Outcome, Run, Scratch, TestResult, answer, script, skip_if_missing, workspace_dir,
};

const RANKS: usize = 4;
const STEPS: usize = 20;

const MACHINE: &str = "
[[kernel]]
name = \"short_kernel\"
microseconds = 500

[[kernel]]
name = \"long_kernel\"
microseconds = 100000

[[kernel]]
name = \"ncclKernel\"
microseconds = 300
";

/// Jobs run one after the other: processors that they take from each other make any rank late.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a job of a Python program, to whose arguments others are added; the machine knows what its GPUs did.
fn run(program: &str, arguments: &str) -> anyhow::Result<(Outcome, Machine)> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stack = Stack::Debian13;
    let machine = Machine::new(stack)?.gpus(RANKS).config(MACHINE)?;
    let folder = Scratch::new("rccl-late")?;
    let line = format!(
        "for rank in $(seq 0 {last}); do RANK=$rank WORLD_SIZE={RANKS} /usr/bin/python3 {script} libamdhip64.so.5 librccl.so.1 {code} $rank {RANKS} {id} {STEPS} {arguments} & \
         all=\"$all $!\"; done; for one in $all; do wait $one || exit 1; done",
        last = RANKS - 1,
        script = workspace_dir()
            .join("tests/workloads/gpu")
            .join(program)
            .display(),
        code = code_object("gfx90a")?.display(),
        id = folder.path().join("id").display(),
    );
    let outcome = Run::new()
        .options(["-I", "rocm", "rccl", "--realtime", "-f", "1000"])
        .command(machine.run(script(&line)))
        .run()?;
    outcome.expect_success();
    Ok((outcome, machine))
}

/// The only straggler is rank 1, for this cause, in this place.
fn is_named(reason: &str, cause: &str, place: &str) -> TestResult {
    skip_if_missing!(Stack::Debian13.missing());
    let (outcome, _) = run("rccl_late.py", reason)?;
    let answer = answer("collectives", &outcome.files())?;
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

/// How long two kernels ran at the same time.
fn common_ns(one: &Dispatch, other: &Dispatch) -> u64 {
    let end_ns = one.end_ns.min(other.end_ns);
    end_ns.saturating_sub(one.start_ns.max(other.start_ns))
}

#[test]
fn iterations_overlap_as_the_gpus_did() -> TestResult {
    /// Times of the trace are those of the GPU's clock, which is compared with BOOTTIME now and then.
    const TOLERANCE_NS: u64 = 5_000;
    skip_if_missing!(Stack::Debian13.missing());
    let (outcome, machine) = run("rccl_overlap.py", "")?;
    let truth = machine.truth()?;
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
