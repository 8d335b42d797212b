//! Kokkos, as it tells a tool: by a program that calls tools as Kokkos does, against a tool that counts, and by Kokkos itself.

use std::path::PathBuf;

use rsys_tests::{Invocation, Outcome, Run, TestResult, Trace, skip_if_missing, workload};

fn profiled(program: impl Into<Invocation>) -> Run {
    Run::new().options(["-I", "kokkosp"]).command(program)
}

fn caller(way: &str) -> Invocation {
    workload("kokkos_caller").args([way, "3"]).into()
}

/// The tool that counts.
fn tool() -> anyhow::Result<PathBuf> {
    workload("kokkos_tool")
        .flags(["-O2", "-g", "-shared", "-fPIC"])
        .build()
}

/// Where the compiler finds Kokkos.
const INCLUDE: &str = "-I/usr/include/trilinos";

/// A program of Debian's Kokkos.
fn real() -> rsys_tests::Workload {
    workload("kokkos_real").flags([
        "-O1",
        "-g",
        "-std=c++17",
        INCLUDE,
        "-Wl,--no-as-needed",
        "-ltrilinos_kokkoscore",
        "-ldl",
    ])
}

fn missing_kokkos() -> Option<String> {
    real().build().err().map(|why| format!("Kokkos: {why:#}"))
}

fn slices(trace: &Trace, name: &str, operation: &str) -> anyhow::Result<i64> {
    trace.number(&format!(
        "select count(*) from slice where category = 'kokkos' and name = '{name}'
         and extract_arg(arg_set_id, 'debug.operation') = '{operation}'"
    ))
}

/// What the program prints without the lines of time.
fn stable(outcome: &Outcome) -> Vec<String> {
    let lines = outcome
        .stdout
        .lines()
        .filter(|line| !line.starts_with("ns="));
    lines.map(str::to_owned).collect()
}

#[test]
fn everything_that_kokkos_tells_is_recorded() -> TestResult {
    for way in ["new", "old"] {
        let outcome = profiled(caller(way)).run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let what = format!("{way}\n{}", outcome.story());
        // Nobody wants fences that would make kernels wait for each other.
        assert_eq!(stable(&outcome), ["fencing=0"], "{what}");
        for (name, operation, count) in [
            ("first kernel", "parallel_for", 3),
            ("a sum", "parallel_reduce", 3),
            ("a scan", "parallel_scan", 3),
            ("a fence", "fence", 3),
            ("Kokkos Profile Tool Fence", "fence", 0),
            ("outer", "region", 1),
            ("inner", "region", 3),
            ("an event", "event", 3),
            ("A", "allocate", 3),
            ("A", "deallocate", 3),
        ] {
            assert_eq!(slices(&trace, name, operation)?, count, "{name}\n{what}");
        }
        let rows = trace.query(
            "select extract_arg(arg_set_id, 'debug.space') as space, extract_arg(arg_set_id, 'debug.device') as device,
             extract_arg(arg_set_id, 'debug.instance') as instance from slice where name = 'a sum' limit 1",
        )?;
        let row = rows
            .iter()
            .next()
            .ok_or_else(|| anyhow::anyhow!("no kernel"))?;
        assert_eq!(
            (row.text("space")?, row.int("device")?, row.int("instance")?),
            ("Cuda", 2, 3),
            "{what}"
        );
        let copies = trace.number(
            "select count(*) from slice where name = 'deep_copy' and extract_arg(arg_set_id, 'debug.bytes') = 32
             and extract_arg(arg_set_id, 'debug.dst_space') = 'Cuda' and extract_arg(arg_set_id, 'debug.dst_label') = 'B'
             and extract_arg(arg_set_id, 'debug.src_space') = 'Host' and extract_arg(arg_set_id, 'debug.src_label') = 'A'",
        )?;
        assert_eq!(copies, 3, "{what}");
        let sections = trace.number(
            "select count(*) from slice s join track t on s.track_id = t.id
             where t.name = 'kokkos sections' and s.name = 'a section'",
        )?;
        assert_eq!(sections, 3, "{what}");
        let inside = trace.number(
            "select count(*) from slice s join slice p on s.parent_id = p.id where s.name = 'a sum' and p.name = 'inner'",
        )?;
        assert_eq!(inside, 3, "{what}");
    }
    Ok(())
}

#[test]
fn a_tool_of_the_programs_gets_everything_too() -> TestResult {
    let tool = tool()?;
    for (way, variable) in [
        ("new", "KOKKOS_TOOLS_LIBS"),
        ("old", "KOKKOS_PROFILE_LIBRARY"),
    ] {
        let bare = Run::bare()
            .command(caller(way))
            .env(variable, &tool)
            .run()?;
        let outcome = profiled(caller(way)).env(variable, &tool).run()?;
        let what = format!("{way}\n{}", outcome.story());
        assert!(
            bare.expect_success()
                .stdout
                .contains("kernels=9 fences=6 ended=15 wrong=0"),
            "{}",
            bare.story()
        );
        // That the tool does not say whether it wants fences means that it does.
        let others = |lines: Vec<String>| {
            lines
                .into_iter()
                .filter(|line| line != "fencing=1")
                .collect::<Vec<_>>()
        };
        assert_eq!(
            others(stable(outcome.expect_success())),
            others(stable(&bare)),
            "{what}"
        );
        let trace = outcome.trace()?;
        trace.assert_clean();
        assert_eq!(slices(&trace, "first kernel", "parallel_for")?, 3, "{what}");
        // Without our backend the tool stands where the user has put it.
        let unasked = Run::new().command(caller(way)).env(variable, &tool).run()?;
        assert_eq!(
            stable(unasked.expect_success()),
            stable(&bare),
            "{}",
            unasked.story()
        );
    }
    Ok(())
}

#[test]
fn the_settings_of_the_original_hold() -> TestResult {
    let outcome = profiled(caller("new"))
        .env("ROCPROFSYS_KOKKOSP_NAME_LENGTH_MAX", "7")
        .env("ROCPROFSYS_KOKKOSP_DEEP_COPY", "false")
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let what = outcome.story();
    assert_eq!(slices(&trace, "first kernel", "parallel_for")?, 0, "{what}");
    assert_eq!(slices(&trace, "a sum", "parallel_reduce")?, 3, "{what}");
    assert_eq!(
        trace.number("select count(*) from slice where name = 'deep_copy'")?,
        0,
        "{what}"
    );
    let by_switch = Run::new()
        .command(caller("old"))
        .env("ROCPROFSYS_USE_KOKKOSP", "true")
        .run()?;
    let trace = by_switch.expect_success().trace()?;
    assert_eq!(
        slices(&trace, "a sum", "parallel_reduce")?,
        3,
        "{}",
        by_switch.story()
    );
    Ok(())
}

#[test]
fn children_that_are_not_followed_have_their_own_tools_alone() -> TestResult {
    let tool = tool()?.display().to_string();
    let program = workload("kokkos_caller").build()?.display().to_string();
    let line = format!("{program} new 3");
    let child = |run: Run| {
        run.command(rsys_tests::script(&format!("{line}; true")))
            .env("KOKKOS_TOOLS_LIBS", &tool)
    };
    let bare = child(Run::bare()).run()?;
    let outcome = child(Run::new().options(["-I", "kokkosp", "--follow", "none"])).run()?;
    let stable = |outcome: &Outcome| -> Vec<String> {
        stable(outcome)
            .into_iter()
            .filter(|line| line != "fencing=1")
            .collect()
    };
    assert_eq!(
        stable(outcome.expect_success()),
        stable(&bare),
        "{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_program_of_kokkos_itself() -> TestResult {
    skip_if_missing!(missing_kokkos());
    let bare = Run::bare().command(real()).run()?;
    let outcome = profiled(real()).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let what = outcome.story();
    assert_eq!(outcome.stdout, bare.expect_success().stdout, "{what}");
    for (name, operation, count) in [
        ("fill", "parallel_for", 5),
        ("total", "parallel_reduce", 5),
        ("prefix", "parallel_scan", 1),
        ("steps", "region", 1),
        ("values", "allocate", 1),
        ("copy", "deallocate", 1),
    ] {
        assert_eq!(slices(&trace, name, operation)?, count, "{name}\n{what}");
    }
    let copies = trace.number(
        "select count(*) from slice where name = 'deep_copy' and extract_arg(arg_set_id, 'debug.dst_label') = 'copy'",
    )?;
    assert_eq!(copies, 5, "{what}");
    Ok(())
}
