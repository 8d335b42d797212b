//! GPU operations by interception of HSA queues: what the trace says against what the simulated GPUs did.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{Machine, Stack, Truth, code_object, hip_program, hsa_program};
use rsys_tests::{Invocation, Outcome, Run, TestResult, Trace, run_plain, skip_if_missing};

#[path = "../../agent/src/gpu/hsa/version.rs"]
mod version;

use version::{Verdict, judge, release_of_path};

/// The GPU's clock is far from the host's, and runs faster.
const MACHINE: &str = "
[clock]
drift_ppm = 90.0
offset_s = 7654321.0
[[kernel]]
name = 'spin'
microseconds = 300
[[kernel]]
name = 'short_kernel'
microseconds = 20
[[kernel]]
name = 'long_kernel'
formula = '10000 + grid * 100'
";

/// How far a time in the trace may be from the truth.
const EXACT_NS: u64 = 1000;

/// The same test on the oldest and the newest stack.
macro_rules! on_two_stacks {
    ($($test:ident;)*) => {
        mod oldest { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Debian12) })* }
        mod newest { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Unstable) })* }
    };
}

on_two_stacks! {
    hip_programs_are_seen_through_their_queues;
    faults_are_told_and_change_nothing;
}

/// The same test on every stack.
macro_rules! on_every_stack {
    ($($test:ident;)*) => {
        mod debian12 { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Debian12) })* }
        mod wheel54 { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Wheel54) })* }
        mod debian13 { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Debian13) })* }
        mod unstable { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Unstable) })* }
    };
}

on_every_stack! {
    every_operation_is_told_once_and_the_program_gets_its_own;
    nothing_is_lost_in_a_flood;
}

/// Compilers are in these two.
fn missing(stack: Stack) -> Option<String> {
    [stack, Stack::Debian12, Stack::Debian13]
        .into_iter()
        .find_map(Stack::missing)
}

fn machine(stack: Stack, gpus: usize, more: &str) -> anyhow::Result<Machine> {
    Machine::new(stack)?
        .gpus(gpus)
        .config(&format!("{MACHINE}{more}"))
}

fn profiled(machine: &Machine, program: Invocation, options: &[&str]) -> Run {
    Run::new()
        .options(["-I", "rocm", "hsa"])
        .options(options)
        .command(machine.run(program))
}

fn flood(mode: &str, threads: u32, kernels: u32, signals: u32) -> anyhow::Result<Invocation> {
    Ok(hsa_program("hsa_flood")?
        .arg(code_object("gfx90a")?)
        .arg(mode)
        .args([threads, kernels, signals].map(|number| number.to_string())))
}

/// An operation in the trace.
#[derive(Debug)]
struct Op {
    name: String,
    start_ns: u64,
    end_ns: u64,
    device: usize,
    queue: i64,
    bytes: u64,
    /// Arrows that touch it. A simulated copy may begin a little before its call is over, or even begins: arrows go either way.
    arrows: i64,
    clamped: bool,
}

impl Op {
    fn is_at(&self, start_ns: u64, end_ns: u64) -> bool {
        self.start_ns.abs_diff(start_ns) <= EXACT_NS && self.end_ns.abs_diff(end_ns) <= EXACT_NS
    }
}

/// The operations of a category, by their start.
fn ops(trace: &Trace, category: &str) -> anyhow::Result<Vec<Op>> {
    let rows = trace.query(&format!(
        "select s.ts, s.dur, s.name,
             extract_arg(s.arg_set_id, 'debug.device') as device,
             ifnull(extract_arg(s.arg_set_id, 'debug.queue'), 0) as queue,
             ifnull(extract_arg(s.arg_set_id, 'debug.bytes'), 0) as bytes,
             extract_arg(s.arg_set_id, 'debug.clamped') is not null as clamped,
             (select count(*) from flow where s.id in (slice_in, slice_out)) as arrows
         from slice s where s.category = '{category}' order by s.ts"
    ))?;
    rows.iter()
        .map(|row| {
            let start_ns = u64::try_from(row.int("ts")?)?;
            Ok(Op {
                name: row.text("name")?.to_owned(),
                start_ns,
                end_ns: start_ns + u64::try_from(row.int("dur")?)?,
                device: usize::try_from(row.int("device")?)?,
                queue: row.int("queue")?,
                bytes: u64::try_from(row.int("bytes")?)?,
                arrows: row.int("arrows")?,
                clamped: row.int("clamped")? != 0,
            })
        })
        .collect()
}

/// What the trace says of the operations that were seen. Checks that none is unaccounted for.
fn accounts(trace: &Trace) -> anyhow::Result<BTreeMap<&'static str, i64>> {
    const CAUSES: [&str; 7] = [
        "at_end",
        "not_kernel",
        "batch",
        "no_queue",
        "pool",
        "time_failed",
        "time_invalid",
    ];
    let metadata = trace.metadata()?;
    let mut counts = BTreeMap::new();
    for name in ["seen", "recorded", "clamped"] {
        counts.insert(name, metadata.int(&format!("gpu_{name}"))?);
    }
    for name in CAUSES {
        counts.insert(name, metadata.int(&format!("gpu_dropped_{name}"))?);
    }
    let dropped: i64 = CAUSES.iter().map(|name| counts[name]).sum();
    ensure!(counts["seen"] == counts["recorded"] + dropped, "{counts:?}");
    let drawn = trace.number(
        "select count(*) from slice where category in ('kernel', 'copy', 'fill', 'scratch')",
    )?;
    ensure!(counts["recorded"] == drawn, "{drawn} drawn, {counts:?}");
    Ok(counts)
}

/// The kernels of the program and its runtime's upper half: what ROCr does by itself is nobody's submission.
fn is_submitted(kernel: &str) -> bool {
    !kernel.starts_with("rocr_")
}

/// What one queue executed: when each kernel began, when each ended, and how many there were of each name.
type Work = (Vec<u64>, Vec<u64>, BTreeMap<String, usize>);

fn work<'a>(kernels: impl Iterator<Item = (u64, u64, &'a str)>) -> Work {
    let (mut starts, mut ends, mut names) = Work::default();
    for (start_ns, end_ns, name) in kernels {
        starts.push(start_ns);
        ends.push(end_ns);
        *names.entry(name.to_owned()).or_default() += 1;
    }
    starts.sort_unstable();
    ends.sort_unstable();
    (starts, ends, names)
}

fn is_near(told: &[u64], truth: &[u64]) -> bool {
    let mut pairs = told.iter().zip(truth);
    told.len() == truth.len() && pairs.all(|(told, truth)| told.abs_diff(*truth) <= EXACT_NS)
}

/// `_Z4spinPi` and `spin(int*)` are `spin`.
fn plain(name: &str) -> &str {
    let mangled = name.strip_prefix("_Z").unwrap_or(name);
    let name = mangled.trim_start_matches(|digit: char| digit.is_ascii_digit() && mangled != name);
    let name = name.split('(').next().unwrap_or(name);
    if mangled == name {
        name
    } else {
        name.strip_suffix("Pi").unwrap_or(name)
    }
}

/// Every kernel that was executed is drawn once, at its time, on its GPU and queue, under its name; and nothing else is.
fn check_kernels(drawn: &[Op], truth: &Truth) -> TestResult {
    let mut told: BTreeMap<(usize, i64), Vec<_>> = BTreeMap::new();
    for op in drawn {
        let place = told.entry((op.device, op.queue)).or_default();
        place.push((op.start_ns, op.end_ns, plain(&op.name)));
    }
    let mut told: Vec<(usize, Work)> = told
        .into_iter()
        .map(|((device, _), kernels)| (device, work(kernels.into_iter())))
        .collect();
    let mut queues: BTreeMap<(usize, u32), Vec<_>> = BTreeMap::new();
    for one in truth.dispatches().filter(|one| is_submitted(&one.kernel)) {
        let place = queues.entry((one.gpu, one.queue)).or_default();
        place.push((one.start_ns, one.end_ns, plain(&one.kernel)));
    }
    for ((gpu, queue), kernels) in queues {
        let truth = work(kernels.into_iter());
        let found = told.iter().position(|(device, told)| {
            let times = is_near(&told.0, &truth.0) && is_near(&told.1, &truth.1);
            *device == gpu && times && told.2 == truth.2
        });
        let found = found.with_context(|| {
            let sizes: Vec<_> = told
                .iter()
                .map(|(device, told)| (device, &told.2))
                .collect();
            format!(
                "GPU {gpu}, queue {queue}: {:?} are not drawn; {sizes:?} are",
                truth.2
            )
        })?;
        told.remove(found);
    }
    ensure!(told.is_empty(), "too many: {told:?}");
    Ok(())
}

/// Every copy by a copy engine is within one drawn copy, with its bytes. Large ones are executed in parts.
fn check_copies(drawn: &[Op], truth: &Truth) -> TestResult {
    let mut parts: HashMap<usize, (u64, u64, u64)> = HashMap::new();
    for copy in truth.copies() {
        let found = drawn
            .iter()
            .position(|op| {
                op.start_ns <= copy.start_ns + EXACT_NS && copy.end_ns <= op.end_ns + EXACT_NS
            })
            .with_context(|| format!("not drawn: {copy:?}"))?;
        let (start, end, bytes) = parts.entry(found).or_insert((u64::MAX, 0, 0));
        *start = copy.start_ns.min(*start);
        *end = copy.end_ns.max(*end);
        *bytes += copy.bytes;
    }
    for (index, (start_ns, end_ns, bytes)) in parts {
        let op = &drawn[index];
        ensure!(op.is_at(start_ns, end_ns), "{start_ns} to {end_ns}: {op:?}");
        ensure!(op.bytes == bytes, "{bytes} bytes: {op:?}");
    }
    Ok(())
}

fn every_operation_is_told_once_and_the_program_gets_its_own(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    let machine = machine(stack, 2, "")?;
    let program = hsa_program("hsa_check")?
        .arg(code_object("gfx90a")?)
        .arg("150");
    // Fast samples beside it: a signal in a runtime's way must not be felt.
    let outcome = profiled(&machine, program, &[]).freq(1000).run()?;
    outcome.expect_success();
    let (trace, truth) = (outcome.trace_of("hsa_check")?, machine.truth()?);
    trace.assert_valid_prefix();
    check_kernels(&ops(&trace, "kernel")?, &truth)?;
    let copies = ops(&trace, "copy")?;
    check_copies(&copies, &truth)?;
    // The copies that the program asks for, by copy engines and by kernels; each has its call.
    let asked =
        trace.number("select count(*) from slice where name like 'hsa_amd_memory_async_copy%'")?;
    ensure!(asked == copies.len() as i64, "{asked} calls, {copies:?}");
    ensure!(copies.iter().all(|copy| copy.arrows >= 1), "{copies:?}");
    // What the program reads from its own signals.
    let mut told: HashMap<(u64, u64), usize> = HashMap::new();
    for line in outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("dispatch"))
    {
        let words: Vec<u64> = line
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [_, start_tick, end_tick, start_ns, end_ns] = words[..] else {
            anyhow::bail!("{line}");
        };
        ensure!(end_ns > start_ns, "{line}");
        *told.entry((start_tick, end_tick)).or_default() += 1;
    }
    for kernel in truth.kernels_named("_kernel") {
        let ticks = (kernel.start_tick, kernel.end_tick);
        ensure!(
            told.contains_key(&ticks),
            "the program never saw {kernel:?}"
        );
    }
    let counts = accounts(&trace)?;
    ensure!(counts["recorded"] == counts["seen"], "{counts:?}");
    ensure!(trace.metadata()?.text("gpu source")?.contains("HSA queues"));
    Ok(())
}

fn nothing_is_lost_in_a_flood(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    let old = matches!(stack, Stack::Debian12 | Stack::Wheel54);
    for (mode, signals) in [("none", 0), ("reuse", 16), ("shared", 1)] {
        let machine = machine(stack, 2, "")?;
        let outcome = profiled(&machine, flood(mode, 4, 400, signals)?, &[]).run()?;
        ensure!(
            outcome.expect_success().stdout.contains("done=1600"),
            "{}",
            outcome.story()
        );
        let trace = outcome.trace_of("hsa_flood")?;
        let counts = accounts(&trace)?;
        ensure!(counts["seen"] == 1600, "{mode}: {counts:?}");
        if mode == "shared" && old {
            // No signal can tell the times of each.
            ensure!(counts["pool"] >= 4 * 399, "{counts:?}");
            continue;
        }
        let expected = if mode == "shared" { 1600 - 4 } else { 1600 };
        ensure!(counts["recorded"] >= expected, "{mode}: {counts:?}");
        if counts["recorded"] == 1600 {
            check_kernels(&ops(&trace, "kernel")?, &machine.truth()?)
                .with_context(|| mode.to_owned())?;
        }
    }
    Ok(())
}

fn hip_programs_are_seen_through_their_queues(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    let machine = machine(stack, 1, "")?;
    // The oldest HIP has no tracer: its queues are the source without being asked for.
    let auto = stack == Stack::Debian12;
    let options: &[&str] = if auto { &[] } else { &["--gpu-source", "hsa"] };
    let name = if auto { "hip_check" } else { "hip_fault" };
    let program = hip_program(stack, name)?;
    let outcome = profiled(&machine, program, options).run()?;
    outcome.expect_success();
    let (trace, truth) = (outcome.trace_of(name)?, machine.truth()?);
    let kernels = ops(&trace, "kernel")?;
    check_kernels(&kernels, &truth)?;
    for copy in ops(&trace, "copy")? {
        // Large ones are executed in parts, and several at a time.
        let near = |told: u64, truth: u64| told.abs_diff(truth) <= EXACT_NS;
        let begins = truth.copies().any(|one| near(copy.start_ns, one.start_ns));
        let ends = truth.copies().any(|one| near(copy.end_ns, one.end_ns));
        ensure!(begins && ends, "{copy:?}");
    }
    let counts = accounts(&trace)?;
    ensure!(counts["recorded"] == counts["seen"], "{counts:?}");
    ensure!(trace.metadata()?.text("gpu source")?.contains("HSA queues"));
    if auto {
        // Calls and operations that belong together have the same correlation.
        let launched = |what: &str| {
            trace.number(&format!(
                "with call as (select id, name, extract_arg(arg_set_id, 'debug.correlation') as number from slice where category = 'hip'),
                      op as (select name, extract_arg(arg_set_id, 'debug.correlation') as number from slice where category = 'kernel')
                 select ifnull(max(ops), 0) from (select count(*) as ops from op join call using (number) where {what} group by call.id)"
            ))
        };
        ensure!(launched("call.name = 'hipGraphLaunch' and op.name like 'node%'")? == 500);
        ensure!(launched("call.name = 'hipLaunchKernel' and op.name like 'spin%'")? == 1);
        ensure!(launched("call.name != 'hipLaunchKernel' and op.name like 'spin%'")? == 0);
        let user = kernels.iter().filter(|op| !op.name.starts_with("__amd"));
        for kernel in user {
            ensure!(kernel.arrows >= 1, "no arrow: {kernel:?}");
        }
        // Between the events there are three kernels, whatever we do.
        ensure!(outcome.number("elapsed_us")? >= 900.0);
    }
    Ok(())
}

/// What became of a program, and what it said; without the lines that hold addresses.
fn ending(outcome: &Outcome) -> (String, String) {
    (outcome.status.to_string(), outcome.stdout.clone())
}

fn faults_are_told_and_change_nothing(stack: Stack) -> TestResult {
    skip_if_missing!(missing(stack));
    let old = matches!(stack, Stack::Debian12 | Stack::Wheel54);
    let fault = |name: &str| format!("[[kernel]]\nname = 'one'\nfault = '{name}'\n");
    let program = || hip_program(stack, "hip_fault");
    for (name, count) in [
        ("zero-times", "time_invalid"),
        ("backward-times", "clamped"),
        ("late-times", "recorded"),
        ("queue-error", ""),
        ("memory-fault", ""),
    ] {
        if name == "memory-fault" && old {
            // ROCr 5 never asks the driver: the program hangs, with or without us.
            continue;
        }
        let machine = machine(stack, 1, &fault(name))?;
        let bare = run_plain(machine.run(program()?))?;
        let outcome = profiled(&machine, program()?, &["--gpu-source", "hsa"]).run()?;
        ensure!(
            ending(&outcome) == ending(&bare),
            "{name}\n{}\nwithout us:\n{}",
            outcome.story(),
            bare.story()
        );
        let trace = outcome.trace_of("hip_fault")?;
        let (counts, kernels) = (accounts(&trace)?, ops(&trace, "kernel")?);
        // What was complete before the fault is there.
        let before = kernels.iter().filter(|op| op.name.starts_with("spin"));
        ensure!(
            before.count() == 20,
            "{name}: {counts:?}\n{}",
            outcome.story()
        );
        ensure!(
            kernels.iter().all(|op| op.start_ns > 0),
            "{name}: {kernels:?}"
        );
        if !count.is_empty() {
            ensure!(counts[count] >= 1, "{name}: {counts:?}");
        }
        let clamped = kernels.iter().filter(|op| op.clamped).count();
        ensure!(clamped as i64 == counts["clamped"], "{name}: {counts:?}");
    }
    Ok(())
}

#[test]
fn kernels_that_hang_do_not_hold_the_end() -> TestResult {
    let stack = Stack::Unstable;
    skip_if_missing!(missing(stack));
    let machine = Machine::new(stack)?.config("[[kernel]]\nname = 'short'\nfault = 'hang'\n")?;
    let outcome = profiled(&machine, flood("hang", 2, 3, 0)?, &["--min-samples", "1"]).run()?;
    let trace = outcome.expect_success().trace_of("hsa_flood")?;
    let counts = accounts(&trace)?;
    ensure!(counts["seen"] == 6 && counts["at_end"] == 6, "{counts:?}");
    Ok(())
}

#[test]
fn levels_and_sources_are_as_wished() -> TestResult {
    let stack = Stack::Debian12;
    skip_if_missing!(missing(stack));
    for (options, mode, recorded, lent) in [
        (&["--gpu-level", "lite"][..], "none", 0, false),
        (&["--gpu-level", "lite"], "reuse", 400, true),
        (&["--gpu-level", "standard"], "none", 400, true),
        (&["--gpu-level", "full"], "none", 400, true),
        (&["--gpu-source", "off"], "none", 0, false),
        (&["--gpu-source", "hip"], "none", 0, false),
    ] {
        let machine = machine(stack, 1, "")?;
        let outcome = profiled(&machine, flood(mode, 2, 200, 8)?, options).run()?;
        outcome.expect_success();
        // A short process without anything to show leaves no trace.
        if recorded > 0 {
            let counts = accounts(&outcome.trace_of("hsa_flood")?)?;
            ensure!(
                counts["recorded"] == recorded,
                "{options:?} {mode}: {counts:?}"
            );
        }
        let truth = machine.truth()?;
        let signals = truth
            .kernels_named("short")
            .filter(|one| one.signal)
            .count();
        ensure!(
            signals == if lent { 400 } else { 0 },
            "{options:?} {mode}: {signals}"
        );
    }
    Ok(())
}

#[test]
fn releases_that_break_are_known() {
    // Sizes of the extension table: 5.2, 6.4, 7.0 and later.
    for (bytes, path, verdict) in [
        (400, "", Verdict::Safe),
        (
            592,
            "/opt/rocm-6.4.3/lib/libhsa-runtime64.so.1",
            Verdict::Safe,
        ),
        (608, "libhsa-runtime64.so.1.18.70000", Verdict::Safe),
        (
            608,
            "libhsa-runtime64.so.1.18.70101",
            Verdict::Unsafe((7, 1)),
        ),
        (
            616,
            "/opt/rocm-7.2.1/lib/libhsa-runtime64.so.1",
            Verdict::Unsafe((7, 2)),
        ),
        (
            616,
            "/opt/rocm-7.12.0/lib/libhsa-runtime64.so.1",
            Verdict::Unsafe((7, 12)),
        ),
        (
            616,
            "/opt/rocm-7.13.0/lib/libhsa-runtime64.so.1",
            Verdict::Safe,
        ),
        (616, "libhsa-runtime64.so.1.21.71400", Verdict::Safe),
        (616, "/usr/lib/libhsa-runtime64.so.1", Verdict::Unknown),
    ] {
        assert_eq!(
            judge(bytes, release_of_path(path.as_bytes())),
            verdict,
            "{bytes} {path}"
        );
    }
}
