//! What programs do besides launching kernels: they are written in Python, name their GPUs and streams, have tracers of their own.

use std::collections::BTreeMap;

use anyhow::ensure;
use rsys_tests::simgpu::{
    Machine, Stack, code_object, hip_program, hsa_program, library_program, ops,
};
use rsys_tests::{Invocation, Outcome, Run, TestResult, Trace, skip_if_missing, workload};

fn profiled(machine: &Machine, program: Invocation, options: &[&str]) -> Run {
    Run::new()
        .options(["-I", "rocm", "roctx"])
        .options(options)
        .command(machine.run(program))
}

/// The functions of the stacks that launched a kernel, outermost first; one line for each stack.
fn launch_stacks(trace: &Trace, kernel: &str) -> anyhow::Result<Vec<String>> {
    stacks(
        trace,
        &format!(
            "select c.id from stack_profile_callsite c join stack_profile_frame f on f.id = c.frame_id where f.name glob '{kernel}*'"
        ),
    )
}

/// The functions of the stacks from which calls were made; one line for each stack.
fn call_stacks(trace: &Trace, call: &str) -> anyhow::Result<Vec<String>> {
    stacks(
        trace,
        &format!(
            "select p.callsite_id from perf_sample p join slice s on s.ts = p.ts where s.category = 'hip' and s.name = '{call}'"
        ),
    )
}

fn stacks(trace: &Trace, leaves: &str) -> anyhow::Result<Vec<String>> {
    let rows = trace.query(&format!(
        "with recursive up(leaf, id, depth) as (
             select c.id, c.id, 0 from stack_profile_callsite c where c.id in ({leaves})
             union all
             select up.leaf, c.parent_id, up.depth + 1 from up
             join stack_profile_callsite c on c.id = up.id where c.parent_id is not null)
         select leaf, group_concat(name, ' > ') as names from (
             select up.leaf, up.depth, f.name from up join stack_profile_callsite c on c.id = up.id
             join stack_profile_frame f on f.id = c.frame_id order by up.leaf, up.depth desc)
         group by leaf"
    ))?;
    rows.iter()
        .map(|row| Ok(row.text("names")?.to_owned()))
        .collect()
}

const PYTHON: &str = "/usr/bin/python3";

/// The trace of the interpreter, which is called by its version as well.
fn trace_of_python(outcome: &Outcome) -> anyhow::Result<Trace> {
    let program = std::fs::canonicalize(PYTHON)?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    outcome.trace_of(&name)
}

fn launches_show_python(stack: Stack, library: &str) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?;
    let script = rsys_tests::workspace_dir().join("tests/workloads/gpu/hip_ctypes.py");
    let program = |launches: &str| -> anyhow::Result<Invocation> {
        Ok(Invocation::new(PYTHON)
            .arg(&script)
            .arg(library)
            .arg(code_object("gfx90a")?)
            .arg(launches))
    };
    let outcome = profiled(&machine, program("20")?, &["--launch-stacks"]).run()?;
    let trace = trace_of_python(outcome.expect_success())?;
    ensure!(ops(&trace, "kernel")?.len() == 20, "{}", outcome.story());
    let stacks = launch_stacks(&trace, "short_kernel")?;
    ensure!(!stacks.is_empty(), "{}", outcome.story());
    for stack in &stacks {
        let mut from = 0;
        for name in [
            "[GPU]",
            "<module> (hip_ctypes.py)",
            "main (hip_ctypes.py)",
            "train (hip_ctypes.py)",
            "launch (hip_ctypes.py)",
            "hipModuleLaunchKernel",
            "short_kernel",
        ] {
            let found = stack.get(from..).and_then(|rest| rest.find(name));
            ensure!(found.is_some(), "{name} is not at its place: {stack}");
            from += found.unwrap_or(0) + name.len();
        }
        ensure!(!stack.contains("PyEval"), "{stack}");
    }
    // With one place to launch from there is one stack.
    ensure!(stacks.len() == 1, "{stacks:?}");
    for (call, function) in [
        ("hipMalloc", "allocate"),
        ("hipMemcpy", "download"),
        ("hipDeviceSynchronize", "wait"),
    ] {
        // What ctypes finds in the library of HIP 5.2 passes the wrappers by.
        if stack == Stack::Debian12 {
            continue;
        }
        let stacks = call_stacks(&trace, call)?;
        let place = format!("main (hip_ctypes.py) > {function} (hip_ctypes.py) > ");
        ensure!(
            stacks.len() == 1 && stacks[0].starts_with("[calls] > ") && stacks[0].contains(&place),
            "{call}: {stacks:?}"
        );
    }
    let without = profiled(
        &machine,
        program("3")?,
        &["--launch-stacks", "--python", "off"],
    )
    .run()?;
    let trace = trace_of_python(without.expect_success())?;
    let stacks = launch_stacks(&trace, "short_kernel")?;
    ensure!(
        stacks.iter().all(|stack| !stack.contains(".py")),
        "{stacks:?}"
    );
    Ok(())
}

#[test]
fn launches_through_hip_show_python() -> TestResult {
    launches_show_python(Stack::Wheel54, "libamdhip64.so.5")
}

#[test]
fn launches_through_queues_show_python() -> TestResult {
    launches_show_python(Stack::Debian12, "libamdhip64.so.5")
}

fn names_are_on_the_tracks(stack: Stack, options: &[&str]) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.gpus(2);
    let outcome = profiled(&machine, hip_program(stack, "hip_names")?, options).run()?;
    ensure!(
        outcome.expect_success().stdout.contains("named=1"),
        "{}",
        outcome.story()
    );
    let trace = outcome.trace_of("hip_names")?;
    let rows = trace.query(
        "select t.name as name, ifnull(p.name, '') as parent, (select count(*) from slice s where s.track_id = t.id) as slices
         from track t left join track p on p.id = t.parent_id where t.name != ''",
    )?;
    let tracks: Vec<(String, String, i64)> = rows
        .iter()
        .map(|row| {
            Ok((
                row.text("name")?.to_owned(),
                row.text("parent")?.to_owned(),
                row.int("slices")?,
            ))
        })
        .collect::<anyhow::Result<_>>()?;
    for gpu in ["GPU 0 · the trainer", "GPU 1 · the helper"] {
        ensure!(
            tracks.iter().any(|(name, ..)| name.starts_with(gpu)),
            "{gpu}: {tracks:?}"
        );
    }
    for stream in ["named early", "named late"] {
        ensure!(
            tracks.iter().any(|(name, parent, slices)| name == stream
                && parent.starts_with("GPU 0")
                && *slices == 1),
            "{stream}: {tracks:?}"
        );
    }
    Ok(())
}

#[test]
fn names_are_on_the_tracks_of_hip() -> TestResult {
    names_are_on_the_tracks(Stack::Wheel54, &[])
}

#[test]
fn names_are_on_the_tracks_of_queues() -> TestResult {
    names_are_on_the_tracks(Stack::Debian12, &[])
}

/// A shell's child begins to record when it has something to tell: nothing of what its GPUs do may come too early for that.
#[test]
fn a_child_of_a_shell_tells_everything() -> TestResult {
    for stack in [
        Stack::Wheel54,
        Stack::Debian12,
        Stack::Unstable,
        Stack::Rocm7,
    ] {
        skip_if_missing!(stack.missing_to_build());
        let machine = Machine::new(stack)?;
        let program = Invocation::new("sh")
            .args(["-c", "\"$@\"; exit $?", "sh"])
            .program(hip_program(stack, "hip_flood")?.args(["1", "1", "20", "0"]));
        // No tick comes before the first event.
        let outcome = profiled(&machine, program, &["-f", "1"]).run()?;
        let trace = outcome.expect_success().trace_of("hip_flood")?;
        ensure!(ops(&trace, "kernel")?.len() == 20, "{}", outcome.story());
        let launches = trace.number(
            "select count(*) from slice where name in ('hipLaunchKernel', 'hipModuleLaunchKernel')",
        )?;
        ensure!(launches == 20, "{launches} launches\n{}", outcome.story());
        trace.assert_clean();
    }
    Ok(())
}

/// A tool of the program's that takes the place of HIP's tracer gets all that it would get without us, and we say so.
fn rivals_are_served(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?;
    let program =
        |when: &str| -> anyhow::Result<_> { Ok(hip_program(stack, "hip_rival")?.arg(when)) };
    // It was there first: the queues tell us of the kernels.
    let outcome = profiled(&machine, program("before")?, &[]).run()?;
    ensure!(
        outcome.expect_success().stdout.contains("told=20"),
        "{}",
        outcome.story()
    );
    let trace = outcome.trace_of("hip_rival")?;
    ensure!(ops(&trace, "kernel")?.len() == 20, "{}", outcome.story());
    ensure!(trace.metadata()?.text("gpu source")?.contains("HSA queues"));
    ensure!(
        outcome
            .stderr
            .contains("another tool has taken the place for HIP's tracer"),
        "{}",
        outcome.story()
    );
    // It comes while we are there: it gets the place.
    let outcome = profiled(&machine, program("after")?, &[]).run()?;
    ensure!(
        outcome.expect_success().stdout.contains("told=10"),
        "{}",
        outcome.story()
    );
    let trace = outcome.trace_of("hip_rival")?;
    let kernels = ops(&trace, "kernel")?;
    ensure!(
        kernels.len() == 10 && kernels.iter().all(|op| op.name.contains("first")),
        "{kernels:?}"
    );
    ensure!(
        outcome
            .stderr
            .contains("a tool of the program took the place for HIP's tracer"),
        "{}",
        outcome.story()
    );
    Ok(())
}

mod rivals {
    use super::Stack;
    #[test]
    fn are_served_on_wheel54() -> super::TestResult {
        super::rivals_are_served(Stack::Wheel54)
    }
    #[test]
    fn are_served_on_unstable() -> super::TestResult {
        super::rivals_are_served(Stack::Unstable)
    }
    #[test]
    fn are_served_on_rocm7() -> super::TestResult {
        super::rivals_are_served(Stack::Rocm7)
    }
}

/// Whoever names domains of ROCm, as scripts made for the original do, gets them recorded.
#[test]
fn domains_of_the_original_switch_recording_on() -> TestResult {
    let stack = Stack::Wheel54;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?;
    let program = hip_program(stack, "hip_flood")?.args(["1", "1", "20", "0"]);
    let outcome = Run::new()
        .env(
            "ROCPROFSYS_ROCM_DOMAINS",
            "hip_runtime_api,kernel_dispatch,memory_copy",
        )
        .command(machine.run(program))
        .run()?;
    let trace = outcome.expect_success().trace_of("hip_flood")?;
    ensure!(ops(&trace, "kernel")?.len() == 20, "{}", outcome.story());
    Ok(())
}

/// A program that uses a GPU, of which nobody wanted to see anything: one line says how to see it.
#[test]
fn a_gpu_that_nobody_asked_for_is_hinted_at() -> TestResult {
    const HINT: &str = "-I rocm";
    let stack = Stack::Debian12;
    skip_if_missing!(stack.missing_to_build());
    let hip = || -> anyhow::Result<_> {
        Ok(hip_program(stack, "hip_flood")?.args(["1", "1", "20", "0"]))
    };
    let hsa = || -> anyhow::Result<_> {
        Ok(hsa_program("hsa_flood")?
            .arg(code_object("gfx90a")?)
            .args(["reuse", "1", "20", "4"]))
    };
    let late = library_program(stack, "hsa_late", &[])?.arg("libhsa-runtime64.so.1");
    let twice = Invocation::new("sh")
        .args(["-c", "\"$@\"; \"$@\"", "sh"])
        .program(hip()?);
    for (program, options, count) in [
        (hip()?, &[][..], 1),
        (hsa()?, &["-f", "1"], 1),
        (late, &[], 1),
        // One line for all processes.
        (twice, &[], 1),
        // Who has chosen knows.
        (hsa()?, &["-I", "rocm"], 0),
        (hip()?, &["-I", "roctx"], 0),
        (hip()?, &["-E", "rocm"], 0),
        (hip()?, &["-v", "-1"], 0),
    ] {
        let machine = Machine::new(stack)?;
        let outcome = Run::new()
            .options(options)
            .command(machine.run(program))
            .run()?;
        outcome.expect_success();
        let said = outcome.stderr.matches(HINT).count();
        ensure!(said == count, "{options:?}: {}", outcome.story());
    }
    // Without a GPU there is nothing to see.
    let outcome = Run::new()
        .command(hsa()?.env("LD_LIBRARY_PATH", stack.libraries()))
        .run()?;
    ensure!(!outcome.stderr.contains(HINT), "{}", outcome.story());
    Ok(())
}

/// How many slices each category has; those without one are counted under an empty name.
fn categories(trace: &Trace) -> anyhow::Result<BTreeMap<String, i64>> {
    let rows = trace.query(
        "select ifnull(category, '') as category, count(*) as slices from slice group by 1",
    )?;
    rows.iter()
        .map(|row| Ok((row.text("category")?.to_owned(), row.int("slices")?)))
        .collect()
}

/// Scripts that were made for the original find what they look for by its categories.
#[test]
fn categories_may_have_the_names_of_the_original() -> TestResult {
    let stack = Stack::Wheel54;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?;
    let run = |options: &[&str]| -> anyhow::Result<_> {
        let program = hip_program(stack, "hip_ops")?.args(["work", "10", "2"]);
        let outcome = Run::new()
            .options(["-I", "rocm", "hsa"])
            .options(options)
            .command(machine.run(program))
            .run()?;
        let trace = outcome.expect_success().trace_of("hip_ops")?;
        trace.assert_clean();
        categories(&trace)
    };
    let own = run(&[])?;
    let its = run(&["--category-names", "original"])?;
    let count = |categories: &BTreeMap<String, i64>, names: &[&str]| -> i64 {
        names.iter().filter_map(|name| categories.get(*name)).sum()
    };
    for (ours, original) in [
        (&["hip"][..], "rocm_hip_api"),
        (&["kernel"], "rocm_kernel_dispatch"),
        (&["copy", "fill"], "rocm_memory_copy"),
    ] {
        let (before, after) = (count(&own, ours), count(&its, &[original]));
        ensure!(
            before > 0 && before == after && count(&its, ours) == 0,
            "{ours:?} {before}, {original} {after}: {own:?} {its:?}"
        );
    }
    ensure!(
        its.contains_key("rocm_hsa_api") && own.contains_key("hsa"),
        "{its:?}"
    );
    // Stacks have no category of ours.
    ensure!(its.contains_key("timer_sampling") && !own.contains_key("timer_sampling"));
    Ok(())
}

#[test]
fn ranges_may_have_the_category_of_the_original() -> TestResult {
    let run = |names: &str| -> anyhow::Result<_> {
        let outcome = Run::new()
            .options(["-I", "roctx", "--min-samples", "1"])
            .env("RSYS_CATEGORY_NAMES", names)
            .command(workload("ranges").args(["linked", "many", "100"]))
            .run()?;
        let trace = outcome.expect_success().trace_of("ranges")?;
        categories(&trace)
    };
    let (own, its) = (run("rsys")?, run("original")?);
    let ranges = own.get("roctx").copied().unwrap_or_default();
    ensure!(ranges > 0, "{own:?}");
    ensure!(its.get("rocm_marker_api") == Some(&ranges), "{its:?}");
    ensure!(!its.contains_key("roctx"), "{its:?}");
    Ok(())
}
