//! The real RCCL on simulated GPUs, in one process and in several. Eight GPUs take minutes: with `--ignored` only.

use std::collections::HashMap;

use rsys_tests::simgpu::{Machine, Stack, library_program};
use rsys_tests::{Outcome, Run, Scratch, TestResult, script, skip_if_missing};

fn groups(outcome: &Outcome) -> anyhow::Result<usize> {
    let line = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("groups="));
    let text = line.ok_or_else(|| anyhow::anyhow!("no groups in\n{}", outcome.stdout))?;
    Ok(text.trim().parse()?)
}

/// Each process does every operation with this many GPUs of its own; together they have all of the machine's.
fn collectives(
    stack: Stack,
    gpus: usize,
    processes: usize,
    setting: &str,
    transport: &str,
) -> TestResult {
    skip_if_missing!(stack.missing_rccl());
    let program = library_program(stack, "rccl_check", &["rccl", "amdhip64"])?.path();
    let machine = Machine::new(stack)?.gpus(gpus);
    let folder = Scratch::new("rccl")?;
    let line = if processes == 1 {
        format!("export NCCL_DEBUG=INFO {setting}; {}", program.display())
    } else {
        format!(
            "export NCCL_DEBUG=INFO {setting}; for rank in $(seq 1 {last}); do {program} {gpus} $rank {id} & all=\"$all $!\"; done; \
             {program} {gpus} 0 {id} || exit 1; for one in $all; do wait $one || exit 1; done",
            last = processes - 1,
            program = program.display(),
            id = folder.path().join("id").display(),
        )
    };
    let outcome = Run::bare().command(machine.run(script(&line))).run()?;
    assert!(
        outcome.expect_success().stdout.contains(transport),
        "{}",
        outcome.stdout
    );
    // One kernel for each group and rank.
    let kernel = match stack {
        Stack::Rocm7 => "ncclDevKernel",
        _ => "ncclKernel",
    };
    let mut kernels: HashMap<u32, usize> = HashMap::new();
    for dispatch in machine.truth()?.kernels_named(kernel) {
        *kernels.entry(dispatch.pid).or_default() += 1;
    }
    let expected = vec![groups(&outcome)? * (gpus / processes); processes];
    assert_eq!(kernels.into_values().collect::<Vec<_>>(), expected);
    Ok(())
}

const STACK: Stack = Stack::Debian13;

#[test]
fn one_process() -> TestResult {
    collectives(STACK, 2, 1, "NCCL_P2P_DISABLE=0", "via P2P/direct")?;
    collectives(STACK, 4, 1, "NCCL_P2P_DISABLE=0", "via P2P/direct")
}

#[test]
fn a_process_for_each_gpu() -> TestResult {
    collectives(STACK, 2, 2, "NCCL_P2P_DISABLE=0", "via P2P/IPC")?;
    collectives(STACK, 2, 2, "NCCL_P2P_DISABLE=1", "via SHM")?;
    collectives(STACK, 4, 4, "NCCL_P2P_DISABLE=0", "via P2P/IPC")
}

#[test]
#[ignore = "takes minutes"]
fn eight_gpus() -> TestResult {
    collectives(STACK, 8, 1, "NCCL_P2P_DISABLE=0", "via P2P/direct")?;
    collectives(STACK, 8, 8, "NCCL_P2P_DISABLE=0", "via P2P/IPC")
}

/// RCCL 7 shares memory between processes by dma-bufs.
#[test]
#[ignore = "needs `cargo xtask runtimes rocm7-rccl`, which is large"]
fn rccl_7() -> TestResult {
    collectives(Stack::Rocm7, 2, 1, "NCCL_P2P_DISABLE=0", "via P2P/")?;
    collectives(Stack::Rocm7, 2, 2, "NCCL_P2P_DISABLE=0", "via P2P/IPC")?;
    collectives(Stack::Rocm7, 4, 4, "NCCL_P2P_DISABLE=0", "via P2P/IPC")
}
