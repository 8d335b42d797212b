//! GPU operations by interception of HSA queues: what the trace says against what the simulated GPUs did.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{
    EXACT_NS, Machine, Op, Stack, Truth, accounts, below_hsa_tool, code_object, hip_program,
    hsa_program, hsa_tool, ops,
};
use rsys_tests::{Invocation, LINKED, Run, TestResult, answer, skip_if_missing, workspace_dir};

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

/// The same test on the oldest stack and those of the newest two major versions.
macro_rules! on_three_stacks {
    ($($test:ident;)*) => {
        mod oldest { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Debian12) })* }
        mod newest6 { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Unstable) })* }
        mod newest7 { $(#[test] fn $test() -> super::TestResult { super::$test(super::Stack::Rocm7) })* }
    };
}

on_three_stacks! {
    hip_programs_are_seen_through_their_queues;
}

rsys_tests::on_every_stack! {
    every_operation_is_told_once_and_the_program_gets_its_own;
    nothing_is_lost_in_a_flood;
    packets_of_one_doorbell_are_told;
    doorbells_for_many_packets_break_no_runtime;
    nothing_spins_while_a_program_sleeps;
    a_program_may_change_its_user;
}

mod old {
    use super::Stack;
    #[test]
    fn queues_never_overflow_on_debian12() -> super::TestResult {
        super::old_queues_never_overflow(Stack::Debian12)
    }
    #[test]
    fn queues_never_overflow_on_wheel54() -> super::TestResult {
        super::old_queues_never_overflow(Stack::Wheel54)
    }
}

mod new {
    use super::Stack;
    #[test]
    fn scratch_is_told_on_debian13() -> super::TestResult {
        super::scratch_is_told(Stack::Debian13)
    }
    #[test]
    fn scratch_is_told_on_unstable() -> super::TestResult {
        super::scratch_is_told(Stack::Unstable)
    }
    #[test]
    fn scratch_is_told_on_rocm7() -> super::TestResult {
        super::scratch_is_told(Stack::Rocm7)
    }
}

/// Compilers are in these two.
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

/// Each thread takes on the user of its process, ours too: `setuid` waits for all.
fn a_program_may_change_its_user(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    const LONGEST_MS: f64 = 5000.0;
    let machine = machine(stack, 1, "")?;
    let outcome = profiled(&machine, hsa_program("hsa_user")?, &["--gpu-source", "hsa"]).run()?;
    outcome.expect_success();
    let took_ms = outcome.number("took_ms")?;
    ensure!(took_ms < LONGEST_MS, "{}", outcome.story());
    Ok(())
}

/// The threads of a runtime sleep while nothing happens, as without us. A thread of ROCr 6.4 does so only where the queue that
/// we ask for has an event that was never raised.
fn nothing_spins_while_a_program_sleeps(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    const SLEEP_MS: u64 = 1000;
    let machine = machine(stack, 1, "")?;
    let program = hip_program(stack, "hip_start")?.arg(SLEEP_MS.to_string());
    let outcome = profiled(&machine, program, &["--gpu-source", "hsa"]).run()?;
    outcome.expect_success();
    let mut lines = outcome.stdout.lines();
    let cpu_ns: u64 = lines
        .find_map(|line| line.strip_prefix("sleep_cpu_ns="))
        .context("the program says nothing")?
        .parse()?;
    ensure!(
        cpu_ns < SLEEP_MS * 1_000_000 / 5,
        "{} ms of CPU time in {SLEEP_MS} ms of sleep",
        cpu_ns / 1_000_000
    );
    Ok(())
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

/// A program may set a signal anew before anybody else has seen its copy complete, and never use it again.
#[test]
fn copies_whose_signals_are_set_anew_are_told() -> TestResult {
    for stack in [Stack::Debian12, Stack::Rocm7] {
        skip_if_missing!(stack.missing_to_build());
        let machine = machine(stack, 1, "")?;
        let program = hsa_program("hsa_reset")?.arg("200");
        let outcome = profiled(&machine, program, &[]).run()?;
        outcome.expect_success();
        ensure!(!outcome.stderr.contains("lost"), "{}", outcome.story());
        let (trace, truth) = (outcome.trace_of("hsa_reset")?, machine.truth()?);
        let copies = ops(&trace, "copy")?;
        ensure!(copies.len() == 200, "{}: {}", stack.name(), copies.len());
        check_copies(&copies, &truth)?;
    }
    Ok(())
}

/// What a newcomer sees first: `cargo xtask demo`.
#[test]
fn the_program_of_the_demo_is_told_whole_and_by_its_lines() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let folder = workspace_dir().join("packaging/demo");
    let configuration = std::fs::read_to_string(folder.join("kernels.toml"))?;
    let machine = Machine::new(Stack::Debian12)?
        .gpus(2)
        .config(&configuration)?;
    let program = hsa_program("demo_train")?
        .arg(folder.join("kernels.gfx90a.co"))
        .arg("25");
    let outcome = Run::new()
        .options(["-I", "rocm", "hsa", "-f", "1000", "--realtime"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let (trace, truth) = (outcome.trace_of("demo_train")?, machine.truth()?);
    let kernels = ops(&trace, "kernel")?;
    check_kernels(&kernels, &truth)?;
    // Per step and GPU: one, six times two, six, one.
    ensure!(kernels.len() == 2 * 25 * 20, "{}", kernels.len());
    check_copies(&ops(&trace, "copy")?, &truth)?;
    let functions = answer("functions", &outcome.files())?.to_string();
    let gaps = answer("gaps", &outcome.files())?.to_string();
    ensure!(functions.contains("decode_images"), "{functions}");
    ensure!(gaps.contains("(demo_train.c:"), "{gaps}");
    Ok(())
}

fn every_operation_is_told_once_and_the_program_gets_its_own(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
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
        trace.number("select count(*) from slice where category = 'hsa' and name like 'hsa_amd_memory_async_copy%'")?;
    ensure!(asked == copies.len() as i64, "{asked} calls, {copies:?}");
    ensure!(copies.iter().all(|copy| copy.arrows >= 1), "{copies:?}");
    // Calls that may block have the stacks from which they were made.
    for (call, function) in [
        ("hsa_amd_memory_pool_allocate", "check_copies"),
        ("hsa_amd_memory_pool_free", "check_copies"),
        ("hsa_signal_wait_scacquire", "wait_for"),
    ] {
        let [calls, stacks] = [
            "",
            "and exists(select 1 from counter c join perf_counter_track t on t.id = c.track_id
                        where c.ts = s.ts and c.value = s.dur and t.name = 'call-time ns')",
        ]
        .map(|which| {
            trace.number(&format!(
                "select count(*) from slice s where s.category = 'hsa' and s.name = '{call}' {which}"
            ))
        });
        let (calls, stacks) = (calls?, stacks?);
        ensure!(calls > 0 && calls == stacks, "{call}: {calls}, {stacks}");
        let places = trace.number(&format!(
            "select count(*) from perf_sample p join slice s on s.ts = p.ts
             join stack_profile_callsite c on c.id = p.callsite_id join stack_profile_frame f on f.id = c.frame_id
             where s.category = 'hsa' and s.name = '{call}' and f.name = '{function}'"
        ))?;
        ensure!(
            places > 0 && places <= calls,
            "{call}: {places} of {calls} in {function}"
        );
    }
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
    skip_if_missing!(stack.missing_to_build());
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

fn packets_of_one_doorbell_are_told(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let tool = hsa_tool("batching_tool")?;
    // Runtimes before 7.1 hand on packet by packet, whatever the doorbell; as the later ones do it, the tool hands on eight at a time.
    for (batches, level, recorded) in [
        (false, "standard", 800),
        (true, "standard", 800),
        (true, "full", 800),
        (true, "lite", 200),
    ] {
        let machine = machine(stack, 1, "")?;
        let program = flood("batch", 2, 400, 16)?;
        let program = if batches {
            below_hsa_tool(&tool, program)
        } else {
            program
        };
        let outcome = profiled(&machine, program, &["--gpu-level", level]).run()?;
        ensure!(
            outcome.expect_success().stdout.contains("done=800"),
            "{}",
            outcome.story()
        );
        let trace = outcome.trace_of("hsa_flood")?;
        let counts = accounts(&trace)?;
        ensure!(
            counts["seen"] == 800
                && counts["recorded"] == recorded
                && counts["pool"] == 800 - recorded,
            "{batches} {level}: {counts:?}"
        );
        let (drawn, truth) = (ops(&trace, "kernel")?, machine.truth()?);
        if recorded == 800 {
            check_kernels(&drawn, &truth)?;
            continue;
        }
        // Those with signals of the program's: every fourth of each queue.
        let real: Vec<_> = truth.kernels_named("short").collect();
        for op in drawn {
            ensure!(
                real.iter().any(|one| one.signal
                    && one.gpu == op.device
                    && op.is_at(one.start_ns, one.end_ns)),
                "{batches} {level}: {op:?}"
            );
        }
    }
    Ok(())
}

/// ROCr 7.1 to 7.12 write past a buffer when a doorbell is for more than 256 packets that go round the end of the queue.
fn doorbells_for_many_packets_break_no_runtime(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    for (mode, threads, kernels) in [("many", 1, 20_000), ("crowd", 4, 3_000)] {
        let machine =
            Machine::new(stack)?.config("[[kernel]]\nname = 'short_kernel'\nmicroseconds = 3\n")?;
        let all = i64::from(threads * kernels);
        let outcome = profiled(&machine, flood(mode, threads, kernels, 0)?, &[]).run()?;
        ensure!(
            outcome
                .expect_success()
                .stdout
                .contains(&format!("done={all}")),
            "{mode}: {}",
            outcome.story()
        );
        let counts = accounts(&outcome.trace_of("hsa_flood")?)?;
        ensure!(
            counts["seen"] == all && counts["recorded"] == all,
            "{mode}: {counts:?}"
        );
        let ran = machine.truth()?.kernels_named("short").count();
        ensure!(i64::try_from(ran)? == all, "{mode}: {ran} ran");
    }
    Ok(())
}

/// These runtimes abort, or stand still, when there is one packet more than their own queue holds.
fn old_queues_never_overflow(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    for (mode, signals, options, told) in [
        ("none", 0, &["--gpu-level", "standard"], 9000),
        ("shared", 1, &["--gpu-level", "standard"], 1),
        ("none", 0, &["--gpu-level", "lite"], 0),
    ] {
        // The GPU takes much longer than the program.
        let machine = Machine::new(stack)?
            .config("[[kernel]]\nname = 'short_kernel'\nmicroseconds = 1000\n")?;
        let program = flood(mode, 1, 9000, signals)?;
        let outcome = profiled(&machine, program, options).run()?;
        ensure!(
            outcome.expect_success().stdout.contains("done=9000"),
            "{mode} {options:?}: {}",
            outcome.story()
        );
        let counts = accounts(&outcome.trace_of("hsa_flood")?)?;
        ensure!(
            counts["seen"] == 9000 && counts["recorded"] <= told.max(1),
            "{mode} {options:?}: {counts:?}"
        );
        ensure!(mode == "shared" || counts["recorded"] == told, "{counts:?}");
        let ran = machine.truth()?.kernels_named("short").count();
        ensure!(ran == 9000, "{mode} {options:?}: {ran} ran");
    }
    Ok(())
}

/// A queue that is lent more scratch memory stands still meanwhile.
fn scratch_is_told(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.config(&format!("scratch = true\n{MACHINE}"))?;
    let outcome = profiled(&machine, flood("scratch", 1, 12, 4)?, &[]).run()?;
    ensure!(
        outcome.expect_success().stdout.contains("done=12"),
        "{}",
        outcome.story()
    );
    let trace = outcome.trace_of("hsa_flood")?;
    check_kernels(&ops(&trace, "kernel")?, &machine.truth()?)?;
    let told = ops(&trace, "scratch")?;
    let lent: Vec<_> = told
        .iter()
        .filter(|op| op.name == "ScratchAllocate")
        .collect();
    // 0, 3072, 4096, 5120 bytes for each work-item.
    ensure!(
        lent.len() == 3 && lent.is_sorted_by_key(|op| op.bytes),
        "{told:?}"
    );
    ensure!(
        lent.iter().all(|op| op.bytes > 0 && op.device == 0),
        "{told:?}"
    );
    accounts(&trace)?;
    Ok(())
}

fn hip_programs_are_seen_through_their_queues(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
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
        // Calls and operations that belong together have the same number.
        let launched = |what: &str| {
            trace.number(&format!(
                "with linked as {LINKED},
                      call as (select id, name, number from slice join linked using (id) where category = 'hip'),
                      op as (select name, number from slice join linked using (id) where category = 'kernel')
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
        // The stack of a call stands with the outermost one that makes it.
        ensure!(
            trace.number(
                "select count(*) from slice s join slice hip on hip.id = s.parent_id
                 where s.category = 'hsa' and hip.category = 'hip' and exists(
                     select 1 from counter c join perf_counter_track t on t.id = c.track_id
                     where c.ts = s.ts and t.name = 'call-time ns')"
            )? == 0
        );
        // Between the events there are three kernels, whatever we do.
        ensure!(outcome.number("elapsed_us")? >= 900.0);
    }
    Ok(())
}

#[test]
fn levels_and_sources_are_as_wished() -> TestResult {
    let stack = Stack::Debian12;
    skip_if_missing!(stack.missing_to_build());
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
