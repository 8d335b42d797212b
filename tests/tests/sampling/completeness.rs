//! Do the stacks of difficult code reach the root: vector code with realigned frames, signal handlers, coroutines, exceptions, code
//! made at run time? Beside our unwinder's figures stand framehop's, for comparison.

use rsys_tests::{
    Invocation, Outcome, Run, Sample, Samples, Scratch, TestResult, Trace, key, missing_tool,
    skip_if_missing, workload,
};

/// What code with hand-written assembly in its libraries must reach.
const NUMERIC_ROOTED: f64 = 0.99;
/// One sample in a thousand may hit a place that no table describes.
const PLAIN_CODE_ROOTED: f64 = 0.999;
const ALL: f64 = 1.0;

fn sample(command: &Invocation, unwinder: &str) -> anyhow::Result<Trace> {
    let outcome = Run::new()
        .freq(1000)
        .options(["--unwinder", unwinder])
        .command(command.clone())
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    Ok(trace)
}

/// Runs a program with both unwinders, prints what share of the stacks reaches the root with each, and asserts on ours.
fn complete(command: impl Into<Invocation>, what: &str, at_least: f64) -> anyhow::Result<Trace> {
    let command = command.into();
    let (ours, framehop) = (sample(&command, "cfi")?, sample(&command, "framehop")?);
    let (samples, theirs) = (ours.samples()?, framehop.samples()?);
    println!(
        "{what}: {:.2} % of {} stacks reach the root, with framehop {:.2} % of {}",
        100.0 * samples.rooted_share(),
        samples.count(),
        100.0 * theirs.rooted_share(),
        theirs.count(),
    );
    assert!(samples.count() > 50, "{what}: {} samples", samples.count());
    assert!(
        samples.rooted_share() >= at_least,
        "{what}: {:.3} % of the stacks reach the root; not these:\n{}",
        100.0 * samples.rooted_share(),
        samples.unrooted_examples()
    );
    Ok(ours)
}

/// Asserts that whoever is in `inner` was called through all of `outer`, in every stack that is not marked as broken.
#[track_caller]
fn assert_called_through(samples: &Samples, inner: &str, outer: &[&str]) {
    let mut count = 0;
    let whole = |sample: &&Sample| outer.contains(&"[broken]") || !sample.calls("[broken]");
    for sample in samples
        .iter()
        .filter(|sample| sample.calls(inner))
        .filter(whole)
    {
        count += 1;
        for function in outer {
            assert!(
                sample.calls(function),
                "{function} is missing in {:?}",
                sample.names()
            );
        }
    }
    assert!(count > 20, "only {count} samples in {inner}");
}

/// AVX-512 where the processor has it, else what it has.
fn widest_vectors() -> Vec<&'static str> {
    let features = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if ["avx512f", "avx512bw", "avx512vl"]
        .iter()
        .all(|feature| features.contains(feature))
    {
        vec![
            "-mavx512f",
            "-mavx512bw",
            "-mavx512vl",
            "-mprefer-vector-width=512",
        ]
    } else {
        println!("this processor has no AVX-512: with what it has instead");
        vec!["-march=native"]
    }
}

fn aligned_vector_loops(compiler: &str) -> TestResult {
    let flags = ["-O3", "-g", "-fomit-frame-pointer", "-ffast-math"]
        .into_iter()
        .chain(widest_vectors());
    let program = workload("aligned").compiler(compiler).flags(flags);
    let trace = complete(program, &format!("{compiler} -O3, vectors"), NUMERIC_ROOTED)?;
    assert_called_through(&trace.samples()?, "with_array", &["smooth", "main"]);
    Ok(())
}

#[test]
fn vector_loops_with_aligned_locals_by_gcc() -> TestResult {
    aligned_vector_loops("gcc")
}

#[test]
fn vector_loops_with_aligned_locals_by_clang() -> TestResult {
    skip_if_missing!(missing_tool("clang"));
    aligned_vector_loops("clang")
}

#[test]
fn openmp_fortran() -> TestResult {
    skip_if_missing!(missing_tool("gfortran"));
    let flags = ["-O3", "-march=native", "-fopenmp", "-g"];
    let trace = complete(
        workload("stencil_omp").flags(flags),
        "gfortran -O3 -march=native -fopenmp",
        NUMERIC_ROOTED,
    )?;
    assert!(trace.samples()?.threads() >= 3);
    Ok(())
}

#[test]
fn handlers_of_the_program_on_any_stack() -> TestResult {
    let trace = complete(workload("handlers"), "signal handlers", ALL)?;
    let samples = trace.samples()?;
    assert_called_through(&samples, "work_in_handler", &["on_outer", "main"]);
    assert_called_through(
        &samples,
        "on_inner",
        &["on_outer", "interrupted_work", "main"],
    );
    Ok(())
}

#[test]
fn handlers_of_faults_and_what_faulted() -> TestResult {
    let program = || workload("barrier").flags(["-O2", "-g", "-fno-optimize-sibling-calls"]);
    for clock in ["timer", "perf"] {
        let outcome = Run::new()
            .freq(1000)
            .options(["--clock", clock])
            .command(program())
            .run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let samples = trace.samples()?;
        assert!(
            samples.rooted_share() >= PLAIN_CODE_ROOTED,
            "{}",
            samples.unrooted_examples()
        );
        assert_called_through(&samples, "let_pass", &["on_fault", "mutate", "main"]);
    }
    Ok(())
}

fn flow(what: &str, at_least: f64) -> anyhow::Result<Trace> {
    let program = workload("flows")
        .flags(["-O2", "-g", "-fno-optimize-sibling-calls"])
        .args(["--what", what]);
    complete(program, what, at_least)
}

#[test]
fn exceptions_in_a_storm() -> TestResult {
    let samples = flow("throw", PLAIN_CODE_ROOTED)?.samples()?;
    for inner in ["thrower", "_Unwind_RaiseException"] {
        let all = samples.share_where(|sample| sample.calls(inner));
        let whole = samples.share_where(|sample| {
            [inner, "thrower", "throw_storm", "main"]
                .iter()
                .all(|function| sample.calls(function))
        });
        assert!(
            all > 0.05 && whole >= PLAIN_CODE_ROOTED * all,
            "{inner}: {whole} of {all}"
        );
    }
    Ok(())
}

#[test]
fn longjmp_over_many_frames() -> TestResult {
    let samples = flow("longjmp", PLAIN_CODE_ROOTED)?.samples()?;
    assert_called_through(&samples, "jumper", &["longjmp_storm", "main"]);
    Ok(())
}

#[test]
fn names_from_the_cache_of_an_earlier_run_are_the_same() -> TestResult {
    let cache = Scratch::new("symbols")?;
    for _ in 0..3 {
        let program = workload("flows")
            .flags(["-O2", "-g", "-fno-optimize-sibling-calls"])
            .args(["--what", "longjmp"]);
        let outcome = Run::new()
            .freq(1000)
            .env("XDG_CACHE_HOME", cache.path())
            .command(program)
            .run()?;
        let samples = outcome.expect_success().trace()?.samples()?;
        // Compilers make two pieces of `main`: one of them hardly ever runs.
        assert_called_through(&samples, "jumper", &["longjmp_storm", "main"]);
        let is_address = |name: &str| name.starts_with("flows+0x");
        let nameless =
            samples.share_where(|sample| sample.names().iter().any(|name| is_address(name)));
        assert!(nameless == 0.0, "{nameless}");
    }
    Ok(())
}

/// What runs on the stack of a coroutine, whose outermost function is `start`. It ends there, not in whoever resumed it.
fn coroutine(what: &str, start: &str, work: &str) -> TestResult {
    let program = workload("flows")
        .flags(["-O2", "-g", "-fno-optimize-sibling-calls"])
        .args(["--what", what]);
    let trace = sample(&program.into(), "cfi")?;
    let samples = trace.samples()?;
    assert_called_through(&samples, work, &[start]);
    let strays = samples.iter().filter(|sample| {
        let (inside, outside) = (sample.calls(start), sample.calls("main"));
        // Before `main`, the loader is at work.
        let before = ["_start", "_dl_start_user"]
            .iter()
            .any(|entry| sample.calls(entry));
        inside == outside && (inside || !before)
    });
    let strays: Vec<_> = strays.map(|sample| sample.names()).collect();
    let share = strays.len() as f64 / samples.count() as f64;
    println!(
        "{what}: {} of {} stacks are of neither side",
        strays.len(),
        samples.count()
    );
    assert!(share <= 1.0 - NUMERIC_ROOTED, "{strays:?}");
    assert_eq!(trace.metadata()?.int(key::TRUNCATED_STACKS)?, 0);
    let broken = trace.metadata()?.int(key::BROKEN_STACKS)? as f64;
    assert!(
        broken <= (1.0 - NUMERIC_ROOTED) * samples.count() as f64,
        "{broken} of {} stacks are broken",
        samples.count()
    );
    Ok(())
}

#[test]
fn coroutines_of_the_c_library() -> TestResult {
    coroutine("context", "coroutine", "coroutine_work")
}

#[test]
fn coroutines_with_a_switch_of_their_own() -> TestResult {
    coroutine("switch", "fiber", "fiber_work")
}

#[test]
fn children_that_share_the_stack() -> TestResult {
    let samples = flow("vfork", PLAIN_CODE_ROOTED)?.samples()?;
    assert_called_through(&samples, "leaf_work", &["vfork_storm", "main"]);
    Ok(())
}

/// Runs the workload that makes code at run time, and takes away the map that it leaves behind.
fn jitted(arguments: &[&str]) -> anyhow::Result<(Outcome, Trace)> {
    let outcome = Run::new()
        .freq(1000)
        .options(["-v"])
        .command(workload("jit_frames").args(arguments))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    std::fs::remove_file(format!("/tmp/perf-{}.map", outcome.number("map")?))?;
    trace.assert_clean();
    Ok((outcome, trace))
}

#[test]
fn generated_code_with_registered_tables() -> TestResult {
    let (_, trace) = jitted(&[])?;
    let samples = trace.samples()?;
    assert!(
        samples.rooted_share() >= PLAIN_CODE_ROOTED,
        "{}",
        samples.unrooted_examples()
    );
    let shares = trace.shares()?;
    assert!(
        shares.self_share("jit_frame") > 0.3,
        "the map names the code: {:?}",
        shares.top(10)
    );
    assert_called_through(&samples, "jit_frame", &["run_jitted", "main"]);
    assert_called_through(&samples, "callback", &["jit_frame", "run_jitted", "main"]);
    // Tables led there, not the decoys on the stack.
    let decoys = samples.share_where(|sample| sample.calls("decoy_caller"));
    assert_eq!(decoys, 0.0);
    assert_eq!(trace.metadata()?.int(key::SCANNED_STACKS)?, 0);
    Ok(())
}

/// Asserts that generated code without tables has its true caller in every stack, and that a mark stands between the two wherever one
/// led to the other by a search.
#[track_caller]
fn assert_searches_found_the_caller(samples: &Samples) {
    assert_called_through(samples, "jit_frame", &["run_jitted", "main"]);
    // Where a function begins or returns, the word on top of the stack is known to be the caller; what a function called is beyond that.
    assert_called_through(samples, "callback", &["[scanned]", "jit_frame"]);
    for sample in samples.iter().filter(|sample| sample.calls("jit_frame")) {
        let names = sample.names();
        let at = names.iter().position(|name| *name == "jit_frame");
        let caller = match &names[..at.unwrap_or_default()] {
            [.., caller, "[scanned]"] => caller,
            // Nothing was searched for a leaf alone.
            [.., caller] if names.last() == Some(&"jit_frame") => caller,
            _ => panic!("no mark in {names:?}"),
        };
        assert_eq!(*caller, "run_jitted", "{names:?}");
    }
    for sample in samples.iter() {
        let names = sample.names();
        let marks = names.iter().filter(|name| **name == "[scanned]").count();
        assert!(
            marks == 0 || marks == 1 && sample.calls("jit_frame"),
            "{names:?}"
        );
    }
}

#[test]
fn what_a_search_of_the_stack_found_is_marked() -> TestResult {
    let (outcome, trace) = jitted(&["--silent", "1"])?;
    let samples = trace.samples()?;
    assert_searches_found_the_caller(&samples);
    let in_code = samples.share_where(|sample| sample.calls("jit_frame"));
    let searched = samples.share_where(|sample| sample.calls("[scanned]"));
    assert!(searched > 0.95 * in_code, "{searched} of {in_code}");
    let marked = samples
        .iter()
        .filter(|sample| sample.calls("[scanned]"))
        .count();
    let metadata = trace.metadata()?;
    assert_eq!(metadata.int(key::SCANNED_STACKS)?, marked as i64);
    assert!(
        outcome
            .stderr
            .contains(&format!("{marked} with scanned frames")),
        "{}",
        outcome.stderr
    );
    Ok(())
}

#[test]
fn return_addresses_that_older_calls_left_are_no_callers() -> TestResult {
    let (_, trace) = jitted(&["--silent", "1", "--left", "1"])?;
    assert_searches_found_the_caller(&trace.samples()?);
    Ok(())
}

#[test]
fn broken_stacks_are_marked_and_told() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .options(["-v"])
        .command(workload("flows").args(["--what", "lost"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let samples = trace.samples()?;
    assert_called_through(&samples, "fiber", &["[broken]"]);
    let marked = samples
        .iter()
        .filter(|sample| sample.calls("[broken]"))
        .count();
    let metadata = trace.metadata()?;
    assert_eq!(metadata.int(key::BROKEN_STACKS)?, marked as i64);
    assert_eq!(
        metadata.text(key::BROKEN_MOST)?,
        format!("{marked} in flows")
    );
    let complete = metadata.get(key::COMPLETE_PERCENT)?.as_float();
    let expected = 100.0 * (1.0 - marked as f64 / samples.count() as f64);
    assert!(
        complete.is_some_and(|complete| (complete - expected).abs() < 0.01),
        "{complete:?} instead of {expected}"
    );
    assert!(
        outcome
            .stderr
            .contains(&format!("{marked} broken ({marked} in flows)")),
        "{}",
        outcome.stderr
    );
    Ok(())
}

/// The agent's list of modules for C libraries without `_dl_find_object`; see CONTRIBUTING.md.
const SNAPSHOT: (&str, &str) = ("RSYS_AGENT_MODULE_SNAPSHOT", "1");

#[test]
fn libraries_without_help_of_the_c_library() -> TestResult {
    let outcome = Run::new()
        .env(SNAPSHOT.0, SNAPSHOT.1)
        .freq(1000)
        .command(workload("callchain").args(["--threads", "2"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let samples = trace.samples()?;
    assert!(
        samples.rooted_share() >= PLAIN_CODE_ROOTED,
        "{}",
        samples.unrooted_examples()
    );

    // One thread that opens, uses and closes libraries: nothing but the walk itself can notice them.
    let outcome = Run::new()
        .env(SNAPSHOT.0, SNAPSHOT.1)
        .freq(4000)
        .command(workload("dlstorm").args(["--cycles", "200", "--alone", "1"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let samples = trace.samples()?;
    let in_plugins = samples.share_where(|sample| {
        let leaf = sample.stack.last();
        leaf.is_some_and(|leaf| leaf.module.contains("/plugin-") && sample.calls("main"))
    });
    assert!(
        in_plugins > 0.15,
        "{in_plugins}: {:?}",
        trace.shares()?.top(10)
    );
    assert!(
        samples.rooted_share() >= NUMERIC_ROOTED,
        "{}",
        samples.unrooted_examples()
    );
    Ok(())
}

/// A program that removed its own file, and a library that was opened by a path below the folder of the program and is closed when names are looked for.
#[test]
fn code_has_names_where_its_file_is_hard_to_find() -> TestResult {
    // Names of an earlier run would do.
    let cache = Scratch::new("gone-cache")?;
    let temporary = Scratch::new("gone")?;
    let outcome = Run::new()
        .env("XDG_CACHE_HOME", cache.path())
        .freq(1000)
        .command(workload("gone").args([temporary.path()]))
        .run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("program")?;
    let samples = trace.samples()?;
    for function in ["after_removal", "plugin_work"] {
        let share = samples.share_where(|sample| sample.calls(function));
        assert!(
            share > 0.3,
            "{function}: {share}: {:?}",
            trace.shares()?.top(10)
        );
    }
    Ok(())
}
