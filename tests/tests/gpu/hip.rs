//! Programs that use GPUs through HIP: what the trace says against what the simulated GPUs did.

mod processes;
mod told;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{
    Barrier, Dispatch, Machine, Stack, Truth, code_object, hip_program, library_program,
};
use rsys_tests::{
    Cell, Invocation, LINKED, Outcome, Run, TestResult, Trace, is_root, missing_tool,
    skip_if_missing,
};

use processes::{
    a_child_may_be_the_first_to_use_gpus, a_child_of_a_parent_that_used_gpus_is_said_to_miss_calls,
    a_fork_goes_on_without_gpus, a_runtime_that_is_loaded_late_is_found,
    children_of_a_parent_that_counted_gpus_are_recorded,
};
use told::{Told, check_counts, check_graph, check_moves, check_single_kernels};

/// The GPU's clock is far from the host's, and runs faster.
const MACHINE: &str = "
[clock]
drift_ppm = 90.0
offset_s = 7654321.0
[[kernel]]
name = 'spin'
microseconds = 300
[[kernel]]
name = 'touch'
microseconds = 20
[[kernel]]
name = 'node'
microseconds = 2
[[kernel]]
name = 'endless'
fault = 'hang'
";

/// How far a time in the trace may be from the truth.
const EXACT_NS: i64 = 1000;

rsys_tests::on_every_stack_with_a_tracer! {
    every_operation_is_told_once_and_rightly;
    nothing_is_lost_in_a_storm;
    a_pause_leaves_calls_and_operations_out;
    what_nobody_waited_for_is_told_at_the_end;
    a_kernel_that_hangs_holds_nobody;
    a_handler_may_end_the_program_within_malloc;
    a_fork_goes_on_without_gpus;
    a_child_may_be_the_first_to_use_gpus;
    children_of_a_parent_that_counted_gpus_are_recorded;
    a_child_of_a_parent_that_used_gpus_is_said_to_miss_calls;
    a_runtime_that_is_loaded_late_is_found;
    streams_that_are_destroyed_at_once_are_told;
    the_last_launch_of_a_graph_is_told;
    gpus_without_work_are_left_alone;
}

/// Compilers are in these two.
fn machine(stack: Stack, gpus: usize) -> anyhow::Result<Machine> {
    Machine::new(stack)?.gpus(gpus).config(MACHINE)
}

fn program(stack: Stack, words: &[&str]) -> anyhow::Result<Invocation> {
    Ok(hip_program(stack, "hip_ops")?.args(words))
}

fn profiled(machine: &Machine, program: Invocation) -> Run {
    Run::new()
        .options(["-I", "rocm"])
        .command(machine.run(program))
}

fn every_operation_is_told_once_and_rightly(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    check_work(stack, &[])
}

fn check_work(stack: Stack, under: &[&str]) -> TestResult {
    const NODES: usize = 500;
    const TIMES: usize = 20;
    let machine = machine(stack, 2)?;
    let words = ["work", &NODES.to_string(), &TIMES.to_string()];
    let outcome = profiled(&machine, program(stack, &words)?)
        .under(under)
        .run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_ops")?;
    trace.assert_valid_prefix();
    let (told, truth) = (Told::read(&trace)?, machine.truth()?);
    let singles = check_single_kernels(&told, &truth)?;
    ensure!(singles == 2 * 101 && outcome.stdout.contains("launches=202"));
    check_graph(&told, &truth, NODES, TIMES)?;
    check_moves(&told, &truth, 2)?;
    ensure!(check_counts(&trace, &told)? == 0);
    let metadata = trace.metadata()?;
    ensure!(metadata.text("gpu source")?.starts_with("HIP"));
    let calibration = metadata.text("hip calibration")?;
    ensure!(
        calibration.ends_with("as expected of this version"),
        "{calibration}"
    );
    ensure!(metadata.text("hip device 1")?.starts_with("GPU 1, "));
    Ok(())
}

/// A time namespace sets the clocks apart that HIP mixes.
#[test]
fn times_are_right_where_the_clocks_differ() -> TestResult {
    let stack = Stack::Wheel54;
    let not_root = (!is_root()).then(|| "only root can have a time namespace".to_owned());
    skip_if_missing!(
        stack
            .missing_to_build()
            .or(not_root)
            .or_else(|| missing_tool("unshare"))
    );
    check_work(
        stack,
        &[
            "unshare",
            "-T",
            "--boottime",
            "100000",
            "--monotonic",
            "50000",
            "--fork",
        ],
    )
}

/// HIP 6.4 loses all operations of a batch whose signals are in use again when it looks at them (`hip_graphs.cpp` shows it without us), which
/// happens when its thread is late: here, because several such programs want the processors.
fn no_launch_of_a_graph_is_lost_when_the_machine_is_busy(stack: Stack) -> TestResult {
    const NODES: usize = 500;
    const TIMES: usize = 100;
    const PROGRAMS: usize = 4;
    skip_if_missing!(stack.missing_to_build());
    let words = ["work", &NODES.to_string(), &TIMES.to_string()];
    let program = program(stack, &words)?;
    let one = || -> TestResult {
        let machine = machine(stack, 1)?;
        let outcome = profiled(&machine, program.clone()).run()?;
        outcome.expect_success();
        let trace = outcome.trace_of("hip_ops")?;
        let told = trace.query(&format!(
            "select count(*) as kernels from slice join {LINKED} using (id)
             where category = 'kernel' and name glob 'node*' group by number"
        ))?;
        let launches = told.iter().count();
        ensure!(launches == TIMES, "{launches} launches of graphs are told");
        for launch in told.iter() {
            ensure!(launch.int("kernels")? == i64::try_from(NODES)?);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..PROGRAMS).map(|_| scope.spawn(one)).collect();
        runs.into_iter()
            .try_for_each(|run| run.join().map_err(|_| anyhow::anyhow!("a run panicked"))?)
    })
}

#[test]
fn no_launch_of_a_graph_of_hip_6_is_lost() -> TestResult {
    no_launch_of_a_graph_is_lost_when_the_machine_is_busy(Stack::Unstable)
}

#[test]
fn no_launch_of_a_graph_of_hip_7_is_lost() -> TestResult {
    no_launch_of_a_graph_is_lost_when_the_machine_is_busy(Stack::Rocm7)
}

/// A program that ends as soon as its last graph has run, several of them at once: HIP tells of that launch at the very end.
fn the_last_launch_of_a_graph_is_told(stack: Stack) -> TestResult {
    const NODES: usize = 32;
    const TIMES: usize = 20;
    /// Launches that the program makes before it measures.
    const FIRST: usize = 5;
    const PROGRAMS: usize = 4;
    skip_if_missing!(stack.missing_to_build());
    let program =
        hip_program(stack, "hip_graph_rate")?.args([NODES.to_string(), TIMES.to_string()]);
    let one = || -> TestResult {
        let machine = machine(stack, 1)?;
        let outcome = profiled(&machine, program.clone()).run()?;
        let trace = outcome.expect_success().trace_of("hip_graph_rate")?;
        let told = trace
            .number("select count(*) from slice where category = 'kernel' and name glob 'node*'")?;
        ensure!(
            told == i64::try_from(NODES * (TIMES + FIRST))?,
            "{told} kernels\n{}",
            outcome.story()
        );
        Ok(())
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..PROGRAMS).map(|_| scope.spawn(one)).collect();
        runs.into_iter()
            .try_for_each(|run| run.join().map_err(|_| anyhow::anyhow!("a run panicked"))?)
    })
}

/// HIP 7 reads the names of a graph's kernels when it tells of them: a graph that is destroyed as soon as it has run takes them along.
fn graphs_that_are_destroyed_at_once_are_told(stack: Stack) -> TestResult {
    const NODES: usize = 100;
    const TIMES: usize = 150;
    skip_if_missing!(stack.missing_to_build());
    let machine = machine(stack, 1)?;
    let words = ["graphs", &NODES.to_string(), &TIMES.to_string()];
    let outcome = profiled(&machine, program(stack, &words)?).run()?;
    let trace = outcome.expect_success().trace_of("hip_ops")?;
    let told = trace
        .number("select count(*) from slice where category = 'kernel' and name = 'node(int*)'")?;
    ensure!(
        told == i64::try_from(NODES * TIMES)?,
        "{told} kernels\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn graphs_that_are_destroyed_at_once_are_told_on_unstable() -> TestResult {
    graphs_that_are_destroyed_at_once_are_told(Stack::Unstable)
}

#[test]
fn graphs_that_are_destroyed_at_once_are_told_on_rocm7() -> TestResult {
    graphs_that_are_destroyed_at_once_are_told(Stack::Rocm7)
}

/// Nor must a launch get the names of the kernels that the nodes have after it.
fn nodes_that_change_keep_their_names(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    for how in [&[][..], &["behind"]] {
        let machine = machine(stack, 1)?;
        let program = hip_program(stack, "hip_graph_nodes")?.args(["50", "60"]);
        let outcome = profiled(&machine, program.args(how)).run()?;
        let trace = outcome.expect_success().trace_of("hip_graph_nodes")?;
        let truth = machine.truth()?;
        for name in ["brief", "of_a_name"] {
            let ran = truth.kernels_named(name).count();
            let told = trace.number(&format!(
                "select count(*) from slice where category = 'kernel' and name glob '{name}*'"
            ))?;
            ensure!(
                ran == 1500 && told == i64::try_from(ran)?,
                "{how:?}: {told} kernels {name} of {ran}\n{}",
                outcome.story()
            );
        }
    }
    Ok(())
}

#[test]
fn nodes_that_change_keep_their_names_on_unstable() -> TestResult {
    nodes_that_change_keep_their_names(Stack::Unstable)
}

#[test]
fn nodes_that_change_keep_their_names_on_rocm7() -> TestResult {
    nodes_that_change_keep_their_names(Stack::Rocm7)
}

/// HIP 6 and 7 read the number of a stream's queue when they tell of what it did: a stream that is destroyed as soon as that is over takes it along.
fn streams_that_are_destroyed_at_once_are_told(stack: Stack) -> TestResult {
    const TIMES: usize = 100;
    skip_if_missing!(stack.missing_to_build());
    let ways: &[&str] = match stack {
        Stack::Unstable | Stack::Rocm7 => &["idle", "running", "own"],
        _ => &["idle"],
    };
    for what in ways {
        let machine = machine(stack, 1)?;
        let words = ["streams", what, &TIMES.to_string()];
        let outcome = profiled(&machine, program(stack, &words)?).run()?;
        let trace = outcome.expect_success().trace_of("hip_ops")?;
        let told = trace.number("select count(*) from slice where category = 'kernel'")?;
        // Two threads, graphs of ten kernels.
        ensure!(
            told == i64::try_from(2 * 10 * TIMES)?,
            "{what}: {told} kernels\n{}",
            outcome.story()
        );
    }
    Ok(())
}

/// What the program does while it has paused the profiler is not recorded, neither calls nor operations.
fn a_pause_leaves_calls_and_operations_out(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    for source in ["hip", "hsa"] {
        let machine = machine(stack, 1)?;
        let outcome = Run::new()
            .options(["-I", "rocm", "--gpu-source", source])
            .command(machine.run(program(stack, &["pause"])?))
            .run()?;
        outcome.expect_success();
        let trace = outcome.trace_of("hip_ops")?;
        let count = |what: &str| trace.number(&format!("select count(*) from slice where {what}"));
        let ran = machine.truth()?.kernels_named("touch").count();
        ensure!(ran == 50, "{ran} kernels ran");
        let kernels = count("category = 'kernel' and name glob 'touch*'")?;
        let launches = count("category = 'hip' and name glob '*LaunchKernel*'")?;
        let moves = count("category in ('copy', 'fill')")?;
        // Before and after the pause: 10 kernels each. The copy is within.
        ensure!(
            (kernels, launches, moves) == (20, 20, 0),
            "by {source}: {kernels} kernels, {launches} launches, {moves} copies\n{}",
            outcome.story()
        );
    }
    Ok(())
}

fn nothing_is_lost_in_a_storm(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = machine(stack, 4)?;
    let outcome = profiled(&machine, program(stack, &["storm", "1000"])?).run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_ops")?;
    let told = Told::read(&trace)?;
    ensure!(check_single_kernels(&told, &machine.truth()?)? == 8000);
    ensure!(check_counts(&trace, &told)? == 0);
    Ok(())
}

fn what_nobody_waited_for_is_told_at_the_end(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let ways: &[&str] = match stack {
        Stack::Wheel54 => &["return", "exec", "terminate"],
        Stack::Debian13 => &["return", "_exit"],
        _ => &["_exit", "terminate"],
    };
    for &how in ways {
        let machine = machine(stack, 1)?;
        let outcome = profiled(&machine, program(stack, &["end", how])?).run()?;
        // On a busy machine it may be killed before a single kernel has run.
        let trace = match how {
            "terminate" => outcome.trace_of("hip_ops")?,
            _ => biggest(&outcome)?,
        };
        let told = Told::read(&trace)?;
        let lost = check_counts(&trace, &told)?;
        let kernels = told.named("kernel", "touch").count();
        ensure!(
            kernels + usize::try_from(lost)? == 201,
            "{how}: {kernels} kernels are told, {lost} were lost\n{}",
            outcome.story()
        );
        // Whoever is killed cannot say what he knew; all others do.
        ensure!(lost == 0 || how == "terminate", "{how}: {lost} were lost");
    }
    Ok(())
}

/// The end waits for GPUs that have work, and for no others: HIP 5 would set them up first, with a compiler that has ended by then.
fn gpus_without_work_are_left_alone(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    for (what, category, count, gpus) in [
        ("looks", "kernel", 10, &[0][..]),
        ("second", "kernel", 10, &[1]),
        ("stream", "fill", 10, &[1]),
        ("reused", "fill", 11, &[0, 1]),
    ] {
        let machine = machine(stack, 2)?;
        let program = hip_program(stack, "hip_devices")?.arg(what);
        let outcome = profiled(&machine, program).run()?;
        let trace = outcome.expect_success().trace_of("hip_devices")?;
        ensure!(
            outcome.stdout.contains("done=1"),
            "{what}: {}",
            outcome.story()
        );
        let told = trace.number(&format!(
            "select count(*) from slice where category = '{category}'"
        ))?;
        ensure!(
            told == count,
            "{what}: {told} operations\n{}",
            outcome.story()
        );
        let truth = machine.truth()?;
        let at_work: BTreeSet<usize> = truth
            .dispatches()
            .map(|dispatch| dispatch.gpu)
            .chain(truth.barriers().map(|barrier| barrier.gpu))
            .collect();
        ensure!(at_work.iter().eq(gpus), "{what}: GPUs {at_work:?}");
    }
    Ok(())
}

/// The trace with the GPU's operations: an exec leaves another one behind.
fn biggest(outcome: &Outcome) -> anyhow::Result<Trace> {
    for trace in outcome.traces()? {
        if trace.number("select count(*) from slice where category = 'kernel'")? > 0 {
            return Ok(trace);
        }
    }
    anyhow::bail!("no trace has kernels\n{}", outcome.story())
}

fn a_kernel_that_hangs_holds_nobody(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    // HIP 6 itself waits for ever at the end, with or without us.
    if matches!(stack, Stack::Unstable | Stack::Rocm7) {
        return Ok(());
    }
    let machine = machine(stack, 1)?;
    let outcome = profiled(&machine, program(stack, &["hang"])?).run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_ops")?;
    let told = Told::read(&trace)?;
    let lost = check_counts(&trace, &told)?;
    ensure!(lost >= 1, "a kernel without end was told of");
    ensure!(
        trace
            .metadata()?
            .text("gpu end")?
            .contains("did not become idle"),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// No thread can be made there.
fn a_handler_may_end_the_program_within_malloc(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    for source in ["auto", "hsa"] {
        let machine = machine(stack, 1)?;
        let program = hip_program(stack, "hip_exits_locked")?;
        let outcome = Run::new()
            .options(["-I", "rocm", "--gpu-source", source])
            .command(machine.run(program))
            .run()?;
        outcome.expect_code(7);
        ensure!(outcome.stdout == "ends\n", "{}", outcome.story());
        outcome.trace_of("hip_exits_locked")?.assert_clean();
    }
    Ok(())
}

/// The place for HIP's tracer is somebody's: the program's own tool works, and the kernels come from the HSA runtime.
#[test]
fn another_tracer_keeps_its_place() -> TestResult {
    let stack = Stack::Debian13;
    skip_if_missing!(stack.missing_to_build());
    let machine = machine(stack, 1)?;
    let outcome = profiled(&machine, program(stack, &["tracer"])?).run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_ops")?;
    let why = trace.metadata()?.text("hip")?;
    ensure!(why.contains("another tool"), "{why}\n{}", outcome.story());
    let told = Told::read(&trace)?;
    let kernels = told.named("kernel", "touch").count();
    ensure!(kernels == 100, "{kernels} kernels");
    Ok(())
}
