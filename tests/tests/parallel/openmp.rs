//! OpenMP, as its runtimes tell it to a tool: against a tool that counts, with names at the right lines, and whatever the program does.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use rsys_tests::simgpu::{Stack, runtimes_dir};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, Trace, Workload, judge_dir, missing_tool,
    skip_if_missing, workload, workspace_dir,
};

/// A program of clang, with LLVM's runtime.
fn of_clang(name: &str) -> Workload {
    workload(name)
        .compiler("clang")
        .flags(["-O1", "-g", "-fopenmp"])
}

/// What is missing for that.
fn missing_libomp() -> Option<String> {
    missing_tool("clang").or_else(|| {
        let works = of_clang("openmp_ends").build();
        works.err().map(|why| format!("clang -fopenmp: {why:#}"))
    })
}

/// The tool that counts.
fn tool() -> anyhow::Result<PathBuf> {
    workload("openmp_tool")
        .flags(["-O2", "-g", "-shared", "-fPIC"])
        .build()
}

fn profiled(program: impl Into<Invocation>) -> Run {
    Run::new().options(["-I", "ompt"]).command(program)
}

/// What a program prints in a line that begins so: `NAME=NUMBER` words.
fn printed(outcome: &Outcome, start: &str) -> Vec<(String, i64)> {
    let line = outcome.stdout.lines().find(|line| line.starts_with(start));
    let words = line.unwrap_or_default().split_whitespace();
    words
        .filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

/// How many slices of OpenMP have such a name.
fn slices(trace: &Trace, name: &str) -> anyhow::Result<i64> {
    trace.number(&format!(
        "select count(*) from slice where category = 'openmp' and name glob '{name}'"
    ))
}

/// What the tool counts, of a trace.
const COUNTED: &[(&str, &str)] = &[
    ("parallel", "parallel*"),
    ("implicit", "implicit task*"),
    ("loops", "loop*"),
    ("other_work", "s[ie][nc]*"),
    ("masked", "masked*"),
    ("reductions", "reduction *"),
    ("created", "create task*"),
    ("started", "task *"),
    ("acquires", "wait for *"),
];

/// The line of a source that ends with a comment `line: NAME`.
fn line(source: &str, name: &str) -> anyhow::Result<usize> {
    let path = workspace_dir().join("tests/workloads").join(source);
    let text = std::fs::read_to_string(path)?;
    let mark = format!("/* line: {name} */");
    let found = text.lines().position(|line| line.contains(&mark));
    Ok(1 + found.ok_or_else(|| anyhow::anyhow!("no {mark} in {source}"))?)
}

/// A trace has what the tool has counted.
fn assert_as_counted(trace: &Trace, tool: &[(String, i64)], what: &str) -> TestResult {
    assert!(tool.len() > 10, "{tool:?}\n{what}");
    let count_of = |name: &str| {
        tool.iter()
            .find(|(known, _)| known == name)
            .map_or(-1, |(_, count)| *count)
    };
    for (name, glob) in COUNTED {
        assert_eq!(
            slices(trace, glob)?,
            count_of(name),
            "{name}: {glob}\n{what}"
        );
    }
    let waits: i64 = ["*barrier*", "taskwait*", "taskgroup*"]
        .iter()
        .map(|glob| slices(trace, glob))
        .sum::<anyhow::Result<i64>>()?;
    assert_eq!(waits, count_of("waits"), "{what}");
    // What is held: constructs as slices, locks as ranges.
    let held = slices(trace, "critical*")? + slices(trace, "lock *")?;
    assert_eq!(held, count_of("acquired"), "{what}");
    assert_eq!(count_of("disturbed"), 0, "{what}");
    Ok(())
}

/// Both ways by which a program may bring a tool of its own that is not linked.
fn with_tool(run: Run, way: &str, tool: &Path) -> Run {
    run.env(way, tool)
}

#[test]
fn everything_is_recorded_that_a_tool_counts_and_the_tool_gets_everything() -> TestResult {
    skip_if_missing!(missing_libomp());
    let tool = tool()?;
    let program = || of_clang("openmp_all").args(["5"]);
    for way in ["OMP_TOOL_LIBRARIES", "LD_PRELOAD"] {
        let bare = with_tool(Run::bare().command(program()), way, &tool).run()?;
        let truth = printed(bare.expect_success(), "tool:");
        let outcome = with_tool(profiled(program()), way, &tool).run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let what = format!("{way}\n{}", outcome.story());
        let stable = |counts: &[(String, i64)]| -> Vec<(String, i64)> {
            // How often a lock was to be had at once is chance.
            let is_chance = |name: &str| matches!(name, "acquired" | "released");
            let kept = counts.iter().filter(|(name, _)| !is_chance(name));
            kept.cloned().collect()
        };
        let seen = printed(&outcome, "tool:");
        assert_eq!(stable(&seen), stable(&truth), "{what}");
        assert_as_counted(&trace, &seen, &what)?;
    }
    // And without any tool but ours.
    let truth = printed(
        with_tool(Run::bare().command(program()), "OMP_TOOL_LIBRARIES", &tool)
            .run()?
            .expect_success(),
        "tool:",
    );
    let outcome = profiled(program()).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    for (name, glob) in COUNTED {
        let count = truth
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, count)| *count);
        assert_eq!(
            Some(slices(&trace, glob)?),
            count,
            "{name}\n{}",
            outcome.story()
        );
    }
    Ok(())
}

/// Intel's runtime takes the place of LLVM's: its functions are the same.
#[test]
fn intels_runtime_is_recorded_as_its_own_tool_counts() -> TestResult {
    skip_if_missing!(missing_libomp());
    let library = judge_dir().join("openmp/intel/lib/libiomp5.so");
    let missing = (!library.is_file()).then(|| format!("no {}", library.display()));
    skip_if_missing!(missing);
    let folder = Scratch::new("intel-openmp")?;
    symlink(&library, folder.path().join("libomp.so.5"))?;
    let tool = tool()?;
    let program = || of_clang("openmp_all").args(["5"]);
    let with = |run: Run| {
        let run = run
            .env("LD_LIBRARY_PATH", folder.path())
            .env("KMP_VERSION", "1");
        with_tool(run, "OMP_TOOL_LIBRARIES", &tool)
    };
    let bare = with(Run::bare().command(program())).run()?;
    let counts = printed(bare.expect_success(), "tool:");
    ensure!(!counts.is_empty(), "{}", bare.story());
    let outcome = with(profiled(program())).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    // It says so itself.
    let is_intels =
        outcome.stdout.contains("Intel(R) OMP") || outcome.stderr.contains("Intel(R) OMP");
    ensure!(is_intels, "{}", outcome.story());
    assert_as_counted(&trace, &printed(&outcome, "tool:"), &outcome.story())
}

/// The runtime that Debian 13 has beside its default. It needs a newer C library, so the program runs in the file tree of that release.
#[test]
fn libomp_19_is_recorded_as_its_own_tool_counts() -> TestResult {
    let stack = Stack::Debian13;
    skip_if_missing!(missing_libomp().or_else(|| stack.missing_beside("libomp19")));
    let tool = tool()?;
    let libraries = runtimes_dir().join("libomp19/usr/lib/llvm-19/lib");
    ensure!(libraries.join("libomp.so.5").is_file(), "{libraries:?}");
    let line = r#"LD_LIBRARY_PATH="$1" OMP_TOOL_LIBRARIES="$2" exec "$3" 5"#;
    let program = || -> anyhow::Result<Invocation> {
        let program = Invocation::new("sh")
            .args(["-c", line, "sh"])
            .arg(&libraries)
            .arg(&tool)
            .arg(of_clang("openmp_all").build()?);
        Ok(stack.with_runtimes(program))
    };
    let bare = Run::bare().command(program()?).run()?;
    let counts = printed(bare.expect_success(), "tool:");
    ensure!(!counts.is_empty(), "{}", bare.story());
    let outcome = profiled(program()?).run()?;
    let trace = outcome.expect_success().trace_of("openmp_all")?;
    trace.assert_clean();
    assert_as_counted(&trace, &printed(&outcome, "tool:"), &outcome.story())
}

#[test]
fn slices_are_named_by_their_lines() -> TestResult {
    skip_if_missing!(missing_libomp());
    let outcome = profiled(of_clang("openmp_all").args(["2"])).run()?;
    let trace = outcome.expect_success().trace()?;
    for (construct, name, count) in [
        ("parallel", "parallel", 2),
        ("implicit task", "parallel", 4),
        ("loop", "loop", 4),
        ("barrier", "barrier", 4),
        ("sections", "sections", 4),
        ("parallel", "reduction", 2),
        ("parallel", "outer", 2),
        ("parallel", "inner", 4),
        ("create task", "task", 16),
        ("task", "task", 16),
        ("taskwait", "taskwait", 2),
        ("wait for lock", "lock", 4),
        ("lock", "lock", 4),
        ("critical", "critical", 4),
    ] {
        let line = line("openmp_all.c", name)?;
        let glob = format!("{construct} *(openmp_all.c:{line})");
        let found = slices(&trace, &glob)?;
        assert_eq!(found, count, "{glob}\n{}", outcome.story());
    }
    // The functions that hold a region of their own.
    for function in ["round_of_all", "tasks", "locks"] {
        assert!(slices(&trace, &format!("parallel {function} (*"))? >= 2);
    }
    // Regions within regions, on the threads that run them.
    let inner = line("openmp_all.c", "inner")?;
    let nested = trace.number(&format!(
        "select count(*) from slice s join ancestor_slice(s.id) a where s.name like 'parallel%(openmp_all.c:{inner})'
         and a.name like 'implicit task%'"
    ))?;
    assert_eq!(nested, 4);
    Ok(())
}

#[test]
fn idle_workers_are_not_painted_as_work() -> TestResult {
    skip_if_missing!(missing_libomp());
    let outcome = profiled(of_clang("openmp_ends").args(["idle"])).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert_eq!(slices(&trace, "implicit task*")?, 4);
    // Between the regions are 200 ms of one thread.
    let first = trace.number("select min(ts + dur) from slice where name glob 'parallel*'")?;
    let late = trace.number(&format!(
        "select count(*) from slice where category = 'openmp' and ts < {first} and ts + dur > {first} + 1000000"
    ))?;
    assert_eq!(late, 0, "{}", outcome.story());
    Ok(())
}

#[test]
fn a_lock_that_was_tried_in_vain_is_not_waited_for() -> TestResult {
    skip_if_missing!(missing_libomp());
    let outcome = profiled(of_clang("openmp_ends").args(["locks", "500"])).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    // 1000 times the one lock, and 2000 ranges' worth of nothing for the other but the one time it was taken.
    assert_eq!(slices(&trace, "lock *")?, 1001, "{}", outcome.story());
    let nested = trace.number(
        "select count(*) from slice s join slice p on s.parent_id = p.id
         where s.name glob 'wait for*' and p.name glob 'wait for*'",
    )?;
    assert_eq!(nested, 0);
    Ok(())
}

#[test]
fn a_region_that_is_open_at_the_end_is_there() -> TestResult {
    skip_if_missing!(missing_libomp());
    let open = line("openmp_ends.c", "open")?;
    for (how, signal) in [("open", false), ("killed", true)] {
        let outcome = profiled(of_clang("openmp_ends").args([how])).run()?;
        let trace = if signal {
            outcome.expect_signal(9).trace()?
        } else {
            outcome.expect_code(3).trace()?
        };
        trace.assert_clean();
        let what = format!("{how}\n{}", outcome.story());
        assert_eq!(slices(&trace, "parallel*")?, 2, "{what}");
        assert_eq!(slices(&trace, &format!("parallel *:{open})"))?, 1, "{what}");
    }
    Ok(())
}

#[test]
fn children_have_regions_of_their_own() -> TestResult {
    skip_if_missing!(missing_libomp());
    for (how, regions) in [
        ("fork", vec![2, 2]),
        ("inside", vec![2, 3]),
        ("exec", vec![1, 3]),
    ] {
        let outcome = profiled(of_clang("openmp_ends").args([how])).run()?;
        outcome.expect_success();
        let mut found = Vec::new();
        for trace in outcome.traces()? {
            trace.assert_clean();
            found.push(slices(&trace, "parallel*")?);
        }
        // A program that executes another one is one process with one trace, or two.
        found.sort_unstable();
        let total: i64 = found.iter().sum();
        assert_eq!(
            total,
            regions.iter().sum::<i64>(),
            "{how}: {found:?}\n{}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn storms_of_regions_and_tasks_are_recorded_whole() -> TestResult {
    skip_if_missing!(missing_libomp());
    for (how, glob, expected) in [("storm", "parallel*", 5_000), ("tasks", "task *", 10_000)] {
        let count = expected.to_string();
        let outcome = profiled(of_clang("openmp_ends").args([how, &count])).run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let what = format!("{how}\n{}", outcome.story());
        assert_eq!(slices(&trace, glob)?, expected, "{what}");
        let roots = trace.number(
            "select count(distinct depth) from slice where category = 'openmp' and name glob 'implicit task*'",
        )?;
        assert!(roots <= 2, "{what}");
    }
    Ok(())
}

#[test]
fn one_line_says_who_has_the_slot() -> TestResult {
    skip_if_missing!(missing_libomp());
    let off = profiled(of_clang("openmp_ends").args(["storm", "3"]))
        .env("OMP_TOOL", "disabled")
        .run()?;
    let said = "nothing of OpenMP was recorded: OMP_TOOL=disabled";
    assert_eq!(
        off.expect_success().stderr.matches(said).count(),
        1,
        "{}",
        off.story()
    );
    // A tool that is part of the program comes before all libraries.
    let tool = workspace_dir().join("tests/workloads/openmp_tool.c");
    let own = of_clang("openmp_all").flags([
        "-O1",
        "-g",
        "-fopenmp",
        "-rdynamic",
        &tool.display().to_string(),
    ]);
    let outcome = profiled(own).run()?;
    let said = "the program has an OpenMP tool of its own";
    assert_eq!(
        outcome.expect_success().stderr.matches(said).count(),
        1,
        "{}",
        outcome.story()
    );
    assert!(
        !printed(&outcome, "tool:").is_empty(),
        "{}",
        outcome.story()
    );
    // Not asked for, nothing is said, and the program's tool is alone.
    let unasked = Run::new()
        .command(of_clang("openmp_ends").args(["storm", "3"]))
        .env("OMP_TOOL_LIBRARIES", tool_path()?)
        .run()?;
    assert_eq!(
        printed(unasked.expect_success(), "tool:")[0],
        ("parallel".to_owned(), 3),
        "{}",
        unasked.story()
    );
    assert_eq!(slices(&unasked.trace()?, "*")?, 0);
    Ok(())
}

fn tool_path() -> anyhow::Result<String> {
    Ok(tool()?.display().to_string())
}

#[test]
fn programs_of_gcc_have_regions_and_waits() -> TestResult {
    let program = || workload("openmp_all").flags(["-O1", "-g", "-fopenmp"]);
    let bare = Run::bare().command(program().args(["5"])).run()?;
    let outcome = profiled(program().args(["5"])).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let what = outcome.story();
    bare.expect_success();
    for (construct, name, count) in [
        ("parallel", "parallel", 5),
        ("implicit task", "parallel", 10),
        ("parallel", "outer", 5),
        ("implicit task", "outer", 10),
        ("parallel", "tasks", 5),
        ("barrier", "barrier", 10),
        ("wait for critical", "critical", 10),
        ("critical", "critical", 10),
        ("taskwait", "taskwait", 5),
    ] {
        let line = line("openmp_all.c", name)?;
        let glob = format!("{construct} *(openmp_all.c:{line})");
        assert_eq!(slices(&trace, &glob)?, count, "{glob}\n{what}");
    }
    // All regions, also those within others.
    assert_eq!(slices(&trace, "parallel *")?, 35, "{what}");
    assert_eq!(slices(&trace, "implicit task *")?, 70, "{what}");
    // Not `fork`: libgomp itself hangs in a child whose parent has had a region.
    for how in ["exec", "storm"] {
        let outcome = profiled(
            workload("openmp_ends")
                .flags(["-O1", "-g", "-fopenmp"])
                .args([how, "3"]),
        )
        .run()?;
        outcome.expect_success();
        for trace in outcome.traces()? {
            trace.assert_clean();
            assert!(
                slices(&trace, "parallel region (*")? >= 1,
                "{}",
                outcome.story()
            );
        }
    }
    Ok(())
}

#[test]
fn fortran_of_gcc_has_its_lines() -> TestResult {
    skip_if_missing!(missing_tool("gfortran"));
    let program = workload("stencil_omp").flags(["-O2", "-g", "-fopenmp"]);
    let outcome = profiled(program).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert!(
        slices(&trace, "parallel *stencil_omp.f90:*")? >= 1,
        "{}",
        outcome.story()
    );
    assert!(
        slices(&trace, "implicit task *")? >= 2,
        "{}",
        outcome.story()
    );
    Ok(())
}
