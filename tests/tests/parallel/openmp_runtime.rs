//! Programs of gcc with LLVM's runtime of OpenMP in place of libgomp.

use rsys_tests::{
    Outcome, Run, Scratch, TestResult, Trace, Workload, missing_tool, skip_if_missing, workload,
};

/// A program of gcc.
fn of_gcc(name: &str) -> Workload {
    workload(name).flags(["-O1", "-g", "-fopenmp"])
}

/// What is missing for LLVM's runtime: it comes with what clang compiles OpenMP with.
fn missing_libomp() -> Option<String> {
    missing_tool("clang").or_else(|| {
        let program = workload("openmp_ends").compiler("clang");
        let works = program.flags(["-O1", "-g", "-fopenmp"]).build();
        works.err().map(|why| format!("clang -fopenmp: {why:#}"))
    })
}

fn profiled(program: Workload, runtime: &str) -> Run {
    Run::new()
        .options(["-I", "ompt", "--openmp-runtime", runtime])
        .command(program)
}

fn slices(trace: &Trace, glob: &str) -> anyhow::Result<i64> {
    trace.number(&format!(
        "select count(*) from slice where category = 'openmp' and name glob '{glob}'"
    ))
}

/// What the tool that counts prints of itself.
fn counted(outcome: &Outcome, name: &str) -> Option<i64> {
    let line = outcome
        .stdout
        .lines()
        .find(|line| line.starts_with("tool:"))?;
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix(&format!("{name}="))?.parse().ok())
}

#[test]
fn a_program_of_gcc_is_recorded_as_a_tool_counts() -> TestResult {
    skip_if_missing!(missing_libomp());
    let program = || of_gcc("openmp_all").args(["5"]);
    let outcome = profiled(program(), "libomp").run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let library = trace
        .metadata()?
        .text("openmp_runtime_in_place_of_libgomp")?;
    let said = format!("run with {library} in place of libgomp");
    assert_eq!(
        outcome.stderr.matches(&said).count(),
        1,
        "{}",
        outcome.story()
    );
    let tool = workload("openmp_tool")
        .flags(["-O2", "-g", "-shared", "-fPIC"])
        .build()?;
    let bare = Run::bare()
        .command(program())
        .env("LD_PRELOAD", &library)
        .env("OMP_TOOL_LIBRARIES", &tool)
        .run()?;
    bare.expect_success();
    let what = format!("{}\n{}", bare.story(), outcome.story());
    for (name, glob) in [
        ("parallel", "parallel*"),
        ("implicit", "implicit task*"),
        ("loops", "loop*"),
        ("created", "create task*"),
        ("started", "task *"),
        ("acquires", "wait for *"),
    ] {
        let truth = counted(&bare, name);
        assert_eq!(Some(slices(&trace, glob)?), truth, "{name}\n{what}");
    }
    // As the source has them: nothing twice, and at the lines of the program.
    assert_eq!(slices(&trace, "parallel*")?, 35, "{what}");
    assert_eq!(
        slices(&trace, "parallel round_of_all (openmp_all.c:*)")?,
        25,
        "{what}"
    );
    assert_eq!(slices(&trace, "task tasks (openmp_all.c:*)")?, 40, "{what}");
    Ok(())
}

#[test]
fn a_runtime_that_cannot_run_the_program_is_left_out_with_the_reason() -> TestResult {
    skip_if_missing!(missing_libomp());
    let nothing = Scratch::new("no-libomp")?;
    let in_nothing = |run: Run| run.env("RSYS_AVAIL_ROOT", nothing.path());
    let this = |run: Run| run;
    let target = || of_gcc("openmp_host_target");
    type Change<'a> = &'a dyn Fn(Run) -> Run;
    let cases: [(&str, Change<'_>, &str); 4] = [
        ("libomp", &this, "uses GOMP_target_ext, which"),
        ("/etc/hostname", &this, "not a runtime that has"),
        ("libgomp", &this, "expected `program`, `libomp`"),
        ("libomp", &in_nothing, "Install one: apt install"),
    ];
    for (runtime, change, reason) in cases {
        let outcome = change(profiled(target(), runtime)).run()?;
        let trace = outcome.expect_success().trace()?;
        let what = outcome.story();
        assert_eq!(outcome.stderr.matches(reason).count(), 1, "{what}");
        assert!(outcome.stderr.contains("keep their own runtime"), "{what}");
        // libgomp's functions are wrapped as ever.
        assert_eq!(slices(&trace, "parallel *")?, 1, "{what}");
        assert!(outcome.stdout.contains("sum=499502"), "{what}");
    }
    Ok(())
}

#[test]
fn without_the_backend_programs_keep_their_runtime() -> TestResult {
    let outcome = Run::new()
        .options(["--openmp-runtime", "libomp"])
        .command(of_gcc("openmp_host_target"))
        .run()?;
    let said = "--openmp-runtime libomp: counts only with -I ompt";
    assert_eq!(
        outcome.expect_success().stderr.matches(said).count(),
        1,
        "{}",
        outcome.story()
    );
    Ok(())
}
