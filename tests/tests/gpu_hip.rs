//! Programs that use GPUs through HIP: what the trace says against what the simulated GPUs did.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{
    Barrier, Dispatch, Machine, Stack, Truth, code_object, hip_program, library_program,
};
use rsys_tests::{
    Cell, Invocation, Outcome, Run, TestResult, Trace, is_root, missing_tool, skip_if_missing,
};

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

/// The same test on every stack whose HIP has a tracer.
macro_rules! on_every_stack {
    ($($test:ident;)*) => {
        mod wheel54 { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Wheel54) })* }
        mod debian13 { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Debian13) })* }
        mod unstable { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Unstable) })* }
        mod rocm7 { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Rocm7) })* }
    };
}

on_every_stack! {
    every_operation_is_told_once_and_rightly;
    nothing_is_lost_in_a_storm;
    a_pause_leaves_calls_and_operations_out;
    what_nobody_waited_for_is_told_at_the_end;
    a_kernel_that_hangs_holds_nobody;
    a_fork_goes_on_without_gpus;
    a_child_may_be_the_first_to_use_gpus;
    children_of_a_parent_that_counted_gpus_are_recorded;
    a_child_of_a_parent_that_used_gpus_is_said_to_miss_calls;
    a_runtime_that_is_loaded_late_is_found;
    streams_that_are_destroyed_at_once_are_told;
    the_last_launch_of_a_graph_is_told;
}

/// Compilers are in these two.
fn missing(stack: Stack) -> Option<String> {
    [stack, Stack::Debian12, Stack::Debian13]
        .into_iter()
        .find_map(Stack::missing)
}

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

/// A call in the trace.
#[derive(Debug)]
struct Call {
    name: String,
    start_ns: i64,
    /// Work-groups in the first dimension.
    groups: Option<u32>,
    stream: Option<i64>,
}

/// An operation in the trace.
#[derive(Debug)]
struct Op {
    name: String,
    category: String,
    start_ns: i64,
    end_ns: i64,
    device: usize,
    correlation: i64,
    bytes: Option<i64>,
    direction: String,
    stream: Option<i64>,
    clamped: bool,
}

/// What the trace of a process says.
struct Told {
    calls: HashMap<i64, Call>,
    ops: Vec<Op>,
}

fn integer(cell: &Cell) -> Option<i64> {
    cell.as_int()
}

impl Told {
    fn read(trace: &Trace) -> anyhow::Result<Self> {
        let arg = |name: &str| format!("extract_arg(s.arg_set_id, 'debug.{name}') as {name}");
        let columns = [
            "correlation",
            "grid",
            "stream",
            "device",
            "bytes",
            "direction",
            "clamped",
        ]
        .map(arg)
        .join(", ");
        let rows = trace.query(&format!(
            "select s.ts, s.dur, s.name, s.category, {columns} from slice s
             where s.category in ('kernel', 'copy', 'fill', 'gpu', 'hip') order by s.ts"
        ))?;
        let mut told = Told {
            calls: HashMap::new(),
            ops: Vec::new(),
        };
        for row in rows.iter() {
            let (start_ns, name) = (row.int("ts")?, row.text("name")?.to_owned());
            let correlation = integer(row.cell("correlation")?).unwrap_or(0);
            let stream = integer(row.cell("stream")?);
            let category = row.text("category")?.to_owned();
            if category == "hip" {
                let groups = row.text("grid")?.split('×').next().unwrap_or_default();
                let call = Call {
                    name,
                    start_ns,
                    groups: groups.parse().ok(),
                    stream,
                };
                let before = told.calls.insert(correlation, call);
                ensure!(
                    before.is_none(),
                    "two calls with the correlation {correlation}"
                );
                continue;
            }
            told.ops.push(Op {
                name,
                category,
                start_ns,
                end_ns: start_ns + row.int("dur")?,
                device: usize::try_from(row.int("device")?)?,
                correlation,
                bytes: integer(row.cell("bytes")?),
                direction: row.text("direction")?.to_owned(),
                stream,
                clamped: *row.cell("clamped")? != Cell::Null,
            });
        }
        Ok(told)
    }

    fn call(&self, op: &Op) -> anyhow::Result<&Call> {
        self.calls
            .get(&op.correlation)
            .with_context(|| format!("nobody called for {op:?}"))
    }

    /// Operations of a category and name.
    fn named<'a>(&'a self, category: &'a str, name: &'a str) -> impl Iterator<Item = &'a Op> {
        self.ops
            .iter()
            .filter(move |op| op.category == category && op.name.starts_with(name))
    }
}

fn is_near(told_ns: i64, true_ns: u64) -> bool {
    told_ns.abs_diff(i64::try_from(true_ns).unwrap_or(i64::MAX)) <= EXACT_NS.unsigned_abs()
}

/// Every kernel that was launched alone is there once: by the grid that no other has, where and when it ran.
fn check_single_kernels(told: &Told, truth: &Truth) -> anyhow::Result<usize> {
    const SINGLES: [&str; 3] = ["spin", "touch", "short_kernel"];
    let is_single =
        |dispatch: &&Dispatch| SINGLES.iter().any(|name| dispatch.kernel.contains(name));
    let mut open: BTreeMap<u32, &Dispatch> = BTreeMap::new();
    for dispatch in truth.dispatches().filter(is_single) {
        let before = open.insert(dispatch.grid[0] / 64, dispatch);
        ensure!(
            before.is_none(),
            "two kernels with the grid of {dispatch:?}"
        );
    }
    let count = open.len();
    for op in SINGLES.iter().flat_map(|name| told.named("kernel", name)) {
        let call = told.call(op)?;
        let groups = call.groups.with_context(|| format!("no grid: {call:?}"))?;
        let dispatch = open
            .remove(&groups)
            .with_context(|| format!("{op:?} by {call:?} did not happen, or was told twice"))?;
        let same_name = dispatch
            .kernel
            .contains(op.name.split('(').next().unwrap_or("?"));
        ensure!(
            same_name && op.device == dispatch.gpu && op.stream == call.stream && !op.clamped,
            "{op:?} by {call:?} was {dispatch:?}"
        );
        ensure!(
            is_near(op.start_ns, dispatch.start_ns) && is_near(op.end_ns, dispatch.end_ns),
            "{op:?} ran at another time: {dispatch:?}"
        );
        ensure!(
            call.name.contains("LaunchKernel") && call.start_ns <= op.start_ns,
            "{op:?} is not by {call:?}"
        );
    }
    ensure!(
        open.is_empty(),
        "{} of {count} kernels are not told: {open:?}",
        open.len()
    );
    Ok(count)
}

/// Every kernel of a graph is there, under the launch of the graph.
fn check_graph(told: &Told, truth: &Truth, nodes: usize, times: usize) -> TestResult {
    let mut ran: Vec<&Dispatch> = truth.kernels_named("node").collect();
    ran.sort_by_key(|dispatch| dispatch.start_ns);
    let ops: Vec<&Op> = told.named("kernel", "node").collect();
    ensure!(
        ran.len() == nodes * times && ops.len() == ran.len(),
        "{} of {} kernels of graphs are told",
        ops.len(),
        ran.len()
    );
    let mut others = ran.iter();
    for op in ops.iter().filter(|op| !op.clamped) {
        let those = others.by_ref();
        ensure!(
            those.any(|dispatch| {
                is_near(op.start_ns, dispatch.start_ns) && is_near(op.end_ns, dispatch.end_ns)
            }),
            "{op:?} ran at another time"
        );
    }
    let mut by_launch: BTreeMap<i64, usize> = BTreeMap::new();
    for op in ops {
        ensure!(told.call(op)?.name == "hipGraphLaunch", "{op:?}");
        *by_launch.entry(op.correlation).or_default() += 1;
    }
    ensure!(
        by_launch.len() == times && by_launch.values().all(|count| *count == nodes),
        "kernels by launch: {by_launch:?}"
    );
    Ok(())
}

/// Every copy and fill that the program asked for is there once, with its size and direction; what a copy engine did is told at its time.
fn check_moves(told: &Told, truth: &Truth, gpus: usize) -> TestResult {
    for device in 0..gpus {
        let mut expected: Vec<(i64, &str)> = Vec::new();
        for i in 0..20 {
            let bytes = 40_000 + 4096 * i;
            expected.push((bytes, "host to device"));
            expected.push((bytes + 4, "device to device"));
            expected.push((bytes + 8, "device to host"));
            expected.push((bytes + 12, ""));
        }
        for i in 0..5 {
            let bytes = 200_000 + 4096 * i;
            expected.push((bytes, "host to device"));
            expected.push((bytes + 4, "device to host"));
        }
        expected.sort_unstable();
        let mine = || {
            told.ops.iter().filter(|op| {
                op.device == device && ["copy", "fill"].contains(&op.category.as_str())
            })
        };
        let mut found: Vec<(i64, &str)> = mine()
            .map(|op| (op.bytes.unwrap_or(0), op.direction.as_str()))
            .collect();
        found.sort_unstable();
        ensure!(found == expected, "GPU {device} moved {found:?}");
        for op in mine() {
            let call = told.call(op)?;
            let is_its = if op.category == "fill" {
                "hipMemset"
            } else {
                "hipMemcpy"
            };
            ensure!(
                call.name.starts_with(is_its) && call.start_ns <= op.start_ns && !op.clamped,
                "{op:?} is not by {call:?}"
            );
            let by_engine = truth
                .copies()
                .filter(|copy| copy.gpu == device && i64::try_from(copy.bytes).ok() == op.bytes);
            // Where kernels are to end first, HIP has them end with a barrier packet, and tells that the copy begins with it.
            for copy in by_engine {
                let by_barrier = |barrier: &Barrier| {
                    barrier.gpu == device
                        && barrier.end_ns <= copy.start_ns
                        && is_near(op.start_ns, barrier.start_ns)
                };
                ensure!(
                    (is_near(op.start_ns, copy.start_ns) || truth.barriers().any(by_barrier))
                        && is_near(op.end_ns, copy.end_ns),
                    "{op:?} went on at another time: {copy:?}"
                );
            }
        }
    }
    Ok(())
}

/// What the process counted agrees with itself, and with the trace.
fn check_counts(trace: &Trace, told: &Told) -> anyhow::Result<i64> {
    let metadata = trace.metadata()?;
    let count = |name: &str| metadata.int(name).unwrap_or(0);
    let lost = count("gpu_dropped_at_end");
    ensure!(
        count("gpu_seen") == count("gpu_recorded") + lost,
        "seen {}, recorded {}, lost {lost}",
        count("gpu_seen"),
        count("gpu_recorded"),
    );
    ensure!(count("gpu_recorded") == i64::try_from(told.ops.len())?);
    Ok(lost)
}

fn every_operation_is_told_once_and_rightly(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
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
        missing(stack)
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
    skip_if_missing!(missing(stack));
    let words = ["work", &NODES.to_string(), &TIMES.to_string()];
    let program = program(stack, &words)?;
    let one = || -> TestResult {
        let machine = machine(stack, 1)?;
        let outcome = profiled(&machine, program.clone()).run()?;
        outcome.expect_success();
        let trace = outcome.trace_of("hip_ops")?;
        let graphs = "select count(*) as kernels from slice
            where category = 'kernel' and name glob 'node*' group by extract_arg(arg_set_id, 'debug.correlation')";
        let told = trace.query(graphs)?;
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
    skip_if_missing!(missing(stack));
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
    skip_if_missing!(missing(stack));
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

/// HIP 6 and 7 read the number of a stream's queue when they tell of what it did: a stream that is destroyed as soon as that is over takes it along.
fn streams_that_are_destroyed_at_once_are_told(stack: Stack) -> TestResult {
    const TIMES: usize = 100;
    skip_if_missing!(missing(stack));
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
    skip_if_missing!(missing(stack));
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
    skip_if_missing!(missing(stack));
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
    skip_if_missing!(missing(stack));
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
    skip_if_missing!(missing(stack));
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

fn a_fork_goes_on_without_gpus(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    let machine = machine(stack, 1)?;
    let outcome = profiled(&machine, program(stack, &["fork"])?).run()?;
    outcome.expect_success();
    let trace = biggest(&outcome)?;
    let told = Told::read(&trace)?;
    ensure!(told.named("kernel", "touch").count() == 101);
    ensure!(check_counts(&trace, &told)? == 0);
    Ok(())
}

fn a_child_may_be_the_first_to_use_gpus(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    let machine = machine(stack, 1)?;
    let outcome = profiled(&machine, program(stack, &["child"])?).run()?;
    outcome.expect_success();
    let trace = biggest(&outcome)?;
    let told = Told::read(&trace)?;
    ensure!(told.named("kernel", "touch").count() == 50);
    // From HIP itself, under the calls.
    for op in told.named("kernel", "touch") {
        ensure!(told.call(op)?.name == "hipLaunchKernel");
    }
    ensure!(check_counts(&trace, &told)? == 0);
    Ok(())
}

/// The HSA runtime was set up and shut down in the parent, HIP was not called: it works in the children.
fn children_of_a_parent_that_counted_gpus_are_recorded(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    for (mode, count, options) in [
        ("counted", 2, &["-I", "rocm", "--launch-stacks"][..]),
        ("counted", 2, &["-I", "hsa"]),
        ("again", 1, &["-I", "rocm", "hsa"]),
    ] {
        let machine = machine(stack, 1)?;
        let outcome = Run::new()
            .options(options)
            .command(machine.run(program(stack, &[mode])?))
            .run()?;
        outcome.expect_success();
        let what = format!("{mode} {options:?}");
        let mut traces = 0;
        for trace in outcome.traces()? {
            let told = Told::read(&trace)?;
            let kernels: Vec<_> = told.named("kernel", "touch").collect();
            if kernels.is_empty() {
                continue;
            }
            traces += 1;
            ensure!(kernels.len() == 50, "{what}: {}", outcome.story());
            ensure!(check_counts(&trace, &told)? == 0);
            for op in kernels {
                ensure!(told.call(op)?.name == "hipLaunchKernel", "{what}: {op:?}");
            }
            let metadata = trace.metadata()?;
            let source = metadata.text("gpu source")?;
            ensure!(source.starts_with("HIP"), "{what}: {source}");
            // Texts and stacks of the parent are none of the child's.
            let unnamed = trace.number("select count(*) from slice where name in ('?', '')")?;
            ensure!(unnamed == 0, "{what}: {unnamed} slices have no name");
            trace.assert_clean();
        }
        ensure!(
            traces == count,
            "{what}: {traces} traces\n{}",
            outcome.story()
        );
        ensure!(!outcome.stderr.contains("fork"), "{}", outcome.story());
    }
    Ok(())
}

/// HIP does not survive a fork. Whoever calls it all the same is told that this is not recorded.
fn a_child_of_a_parent_that_used_gpus_is_said_to_miss_calls(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    let machine = machine(stack, 1)?;
    let outcome = profiled(&machine, program(stack, &["asks"])?).run()?;
    outcome.expect_success();
    let said = outcome.stderr.matches("forked after HIP was used").count();
    ensure!(said == 1, "{}", outcome.story());
    // A child that does not call HIP misses nothing.
    let outcome = profiled(&machine, program(stack, &["fork"])?).run()?;
    outcome.expect_success();
    ensure!(!outcome.stderr.contains("forked"), "{}", outcome.story());
    Ok(())
}

fn a_runtime_that_is_loaded_late_is_found(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    let library = match stack {
        Stack::Unstable => "libamdhip64.so.6",
        Stack::Rocm7 => "libamdhip64.so.7",
        _ => "libamdhip64.so.5",
    };
    let machine = machine(stack, 1)?;
    let program = library_program(Stack::Debian12, "hip_late", &[])?
        .arg(library)
        .arg(code_object("gfx90a")?);
    let outcome = profiled(&machine, program).run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_late")?;
    let told = Told::read(&trace)?;
    ensure!(check_single_kernels(&told, &machine.truth()?)? == 100);
    ensure!(check_counts(&trace, &told)? == 0);
    Ok(())
}

/// The place for HIP's tracer is somebody's: the program's own tool works, and the kernels come from the HSA runtime.
#[test]
fn another_tracer_keeps_its_place() -> TestResult {
    let stack = Stack::Debian13;
    skip_if_missing!(missing(stack));
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
