//! Other tools of the HSA runtime beside ours: both work, or a line says what is not recorded.

use anyhow::ensure;
use rsys_tests::simgpu::{
    Machine, Stack, accounts, code_object, hip_program, hsa_program, hsa_tool, library_program, ops,
};
use rsys_tests::{Invocation, Run, TestResult, missing_tool, run_plain, skip_if_missing};

/// What a line says where the runtime has not loaded us.
const NOT_LOADED: &str = "the HSA runtime did not load rsys as a tool";

fn profiled(machine: &Machine, program: Invocation, options: &[&str]) -> Run {
    Run::new()
        .options(options)
        .options(["--min-samples", "1"])
        .command(machine.run(program))
}

fn flood() -> anyhow::Result<Invocation> {
    Ok(hsa_program("hsa_flood")?
        .arg(code_object("gfx90a")?)
        .args(["reuse", "1", "50", "4"]))
}

/// A program in an environment that a shell's words have changed.
fn after(words: &str, program: Invocation) -> Invocation {
    Invocation::new("sh")
        .args(["-c", &format!("{words}; exec \"$@\""), "sh"])
        .program(program)
}

/// With a tool of rocprofiler-register in the process the runtime loads others only where a variable says so, which we set.
#[test]
fn a_registered_tool_does_not_shut_us_out() -> TestResult {
    let stack = Stack::Debian12;
    skip_if_missing!(stack.missing_to_build());
    let tool = hsa_tool("registered_tool")?;
    let preload = format!(
        "LD_PRELOAD=\"$LD_PRELOAD:{}\"; export LD_PRELOAD",
        tool.display()
    );
    let machine = Machine::new(stack)?;
    let outcome = profiled(&machine, after(&preload, flood()?), &["-I", "rocm"]).run()?;
    let trace = outcome.expect_success().trace_of("hsa_flood")?;
    ensure!(accounts(&trace)?["recorded"] == 50, "{}", outcome.story());
    ensure!(!outcome.stderr.contains(NOT_LOADED), "{}", outcome.story());
    // Whoever has switched it off is not overruled, but told.
    let outcome = profiled(&machine, after(&preload, flood()?), &["-I", "rocm"])
        .env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "0")
        .run()?;
    let trace = outcome.expect_success().trace_of("hsa_flood")?;
    ensure!(outcome.stderr.contains(NOT_LOADED), "{}", outcome.story());
    let source = trace.metadata()?.text("gpu source")?;
    ensure!(source.contains(NOT_LOADED), "{source}");
    Ok(())
}

/// Where the runtime does not load us, whatever the cause, a line and the trace say so.
fn a_runtime_without_us_is_noticed(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let cleared = "unset HSA_TOOLS_LIB";
    let machine = Machine::new(stack)?;
    let outcome = profiled(&machine, after(cleared, flood()?), &["-I", "rocm"]).run()?;
    let trace = outcome.expect_success().trace_of("hsa_flood")?;
    ensure!(ops(&trace, "kernel")?.is_empty(), "{}", outcome.story());
    ensure!(
        outcome.stderr.matches(NOT_LOADED).count() == 1,
        "{}",
        outcome.story()
    );
    let source = trace.metadata()?.text("gpu source")?;
    ensure!(source.contains(NOT_LOADED), "{source}");
    // Who wants nothing of the GPU misses nothing.
    for options in [&["-I", "roctx"][..], &["-f", "100"]] {
        let outcome = profiled(&machine, after(cleared, flood()?), options).run()?;
        outcome.expect_success();
        ensure!(!outcome.stderr.contains(NOT_LOADED), "{}", outcome.story());
    }
    Ok(())
}

#[test]
fn the_oldest_runtime_without_us_is_noticed() -> TestResult {
    a_runtime_without_us_is_noticed(Stack::Debian12)
}

#[test]
fn the_newest_runtime_without_us_is_noticed() -> TestResult {
    a_runtime_without_us_is_noticed(Stack::Unstable)
}

#[test]
fn rocm7_without_us_is_noticed() -> TestResult {
    a_runtime_without_us_is_noticed(Stack::Rocm7)
}

/// HIP tells of its kernels whether or not the runtime below it has loaded us; the rest is missing.
#[test]
fn hip_is_recorded_without_the_runtime_below_it() -> TestResult {
    let stack = Stack::Unstable;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?;
    let program = || -> anyhow::Result<_> {
        Ok(hip_program(stack, "hip_flood")?.args(["1", "1", "20", "0"]))
    };
    let program = after("unset HSA_TOOLS_LIB", program()?);
    let outcome = profiled(&machine, program, &["-I", "rocm"]).run()?;
    let trace = outcome.expect_success().trace_of("hip_flood")?;
    ensure!(ops(&trace, "kernel")?.len() == 20, "{}", outcome.story());
    let source = trace.metadata()?.text("gpu source")?;
    ensure!(
        source.starts_with("HIP") && source.contains(NOT_LOADED),
        "{source}"
    );
    ensure!(outcome.stderr.contains(NOT_LOADED), "{}", outcome.story());
    Ok(())
}

/// A runtime that is loaded late, for one library alone, is noticed as well; and a program that looks for it finds none before.
#[test]
fn a_runtime_that_is_loaded_late_is_noticed() -> TestResult {
    let stack = Stack::Debian12;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?;
    let late = library_program(stack, "hsa_late", &[])?.arg("libhsa-runtime64.so.1");
    let bare = run_plain(machine.run(late.clone()))?;
    bare.expect_success();
    let outcome = profiled(
        &machine,
        after("unset HSA_TOOLS_LIB", late),
        &["-I", "rocm"],
    )
    .run()?;
    outcome.expect_success();
    ensure!(outcome.stderr.contains(NOT_LOADED), "{}", outcome.story());
    Ok(())
}

/// A tool that sees the program's queues, before or after us, sees all kernels, and so do we.
fn two_tools_see_the_queues(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let tool = hsa_tool("counting_tool")?;
    let name = tool.display();
    let before = format!("HSA_TOOLS_LIB=\"{name} $HSA_TOOLS_LIB\"; export HSA_TOOLS_LIB");
    let behind = format!("HSA_TOOLS_LIB=\"$HSA_TOOLS_LIB {name}\"; export HSA_TOOLS_LIB");
    let program = || -> anyhow::Result<_> {
        Ok(hsa_program("hsa_flood")?
            .arg(code_object("gfx90a")?)
            .args(["none", "2", "100", "0"]))
    };
    for (place, mode, told, tools) in [
        (&before, "own", 200, 200),
        (&before, "live", 200, 200),
        (&before, "plain", 0, 0),
        (&behind, "own", 200, 200),
        (&behind, "live", 200, 200),
        (&behind, "plain", 200, 0),
    ] {
        let machine = Machine::new(stack)?;
        let program = after(place, program()?).env("COUNTING_TOOL", mode);
        let bare = run_plain(machine.run(program.clone()))?;
        let outcome = profiled(&machine, program, &["-I", "rocm", "--gpu-source", "hsa"]).run()?;
        let what = format!("{place} {mode}");
        for name in ["tool_queues", "tool_kernels", "done"] {
            let (ours, its) = (outcome.number(name)?, bare.number(name)?);
            ensure!(
                (ours - its).abs() < 0.5,
                "{what}: {name} is {ours}, bare {its}\n{}",
                outcome.expect_success().story()
            );
        }
        ensure!((outcome.number("tool_kernels")? - f64::from(tools)).abs() < 0.5);
        let trace = outcome.trace_of("hsa_flood")?;
        let drawn = ops(&trace, "kernel")?;
        let kernels = drawn.len();
        ensure!(
            kernels == told,
            "{what}: {kernels} kernels\n{}",
            outcome.story()
        );
        let source = trace.metadata()?.text("gpu source")?;
        const REFUSED: &str = "another tool makes the program's queues";
        ensure!(source.contains(REFUSED) == (told == 0), "{what}: {source}");
        ensure!(
            outcome.stderr.matches(REFUSED).count() == usize::from(told == 0),
            "{what}: {}",
            outcome.story()
        );
        if told > 0 {
            let truth = machine.truth()?;
            for kernel in truth.kernels_named("short_kernel") {
                let mut ops = drawn.iter();
                let found = ops.any(|op| op.is_at(kernel.start_ns, kernel.end_ns));
                ensure!(found, "{what}: {kernel:?} is not told");
            }
        }
    }
    Ok(())
}

#[test]
fn two_tools_see_the_queues_of_the_oldest() -> TestResult {
    two_tools_see_the_queues(Stack::Debian12)
}

#[test]
fn two_tools_see_the_queues_of_the_newest() -> TestResult {
    two_tools_see_the_queues(Stack::Unstable)
}

#[test]
fn two_tools_see_the_queues_of_rocm7() -> TestResult {
    two_tools_see_the_queues(Stack::Rocm7)
}

/// Another allocator, preloaded in front of everything or behind it, changes nothing of what is recorded.
#[test]
fn another_allocator_may_be_preloaded() -> TestResult {
    const ALLOCATOR: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    let stack = Stack::Wheel54;
    skip_if_missing!(stack.missing_to_build().or_else(|| missing_tool(ALLOCATOR)));
    let program = || -> anyhow::Result<_> {
        Ok(hip_program(stack, "hip_flood")?.args(["1", "1", "20", "0"]))
    };
    for preload in [
        format!("{ALLOCATOR}:$LD_PRELOAD"),
        format!("$LD_PRELOAD:{ALLOCATOR}"),
    ] {
        let words = format!("LD_PRELOAD=\"{preload}\"; export LD_PRELOAD");
        let machine = Machine::new(stack)?;
        let outcome = profiled(&machine, after(&words, program()?), &["-I", "rocm"])
            .env("MALLOC_CONF", "stats_print:true")
            .run()?;
        let trace = outcome.expect_success().trace_of("hip_flood")?;
        let kernels = ops(&trace, "kernel")?.len();
        ensure!(
            kernels == 20 && outcome.stderr.contains("jemalloc statistics"),
            "{preload}: {kernels} kernels\n{}",
            outcome.story()
        );
    }
    Ok(())
}
