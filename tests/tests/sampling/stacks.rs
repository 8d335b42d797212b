//! Do stacks reach the root, and does the timeline say the same as the stacks?

use std::collections::HashMap;

use rsys_tests::{
    Run, Sample, TestResult, Trace, Workload, key, missing_tool, skip_if_missing, workload,
};

/// One sample in a thousand may hit a place that no table describes.
const PLAIN_CODE_ROOTED: f64 = 0.999;

#[track_caller]
fn assert_rooted(trace: &Trace, at_least: f64, what: &str) -> TestResult {
    let samples = trace.samples()?;
    let rooted = samples.rooted_share();
    assert!(
        rooted >= at_least,
        "{what}: {:.3} % of the stacks reach the root; not these:\n{}",
        100.0 * rooted,
        samples.unrooted_examples()
    );
    Ok(())
}

fn chain_is_complete(program: Workload, what: &str) -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .command(program.args(["--threads", "2", "--seconds", "0.4"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert_rooted(&trace, PLAIN_CODE_ROOTED, what)?;
    // Whoever is in the leaf came all the way through the chain, callbacks included.
    let samples = trace.samples()?;
    let in_leaf: Vec<_> = samples
        .iter()
        .filter(|sample| sample.calls("leaf_work"))
        .collect();
    assert!(
        in_leaf.len() > 200,
        "{what}: only {} samples in leaf_work",
        in_leaf.len()
    );
    for sample in in_leaf {
        for function in [
            "run_chain",
            "sort_some",
            "compare",
            "with_large_frame",
            "with_alignment",
            "with_longjmp",
        ] {
            assert!(
                sample.calls(function),
                "{what}: {function} is missing in {:?}",
                sample.names()
            );
        }
    }
    Ok(())
}

/// Flags by which compilers write no `.eh_frame`.
const NO_TABLES: [&str; 4] = [
    "-O1",
    "-fomit-frame-pointer",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
];

/// Programs, libraries and plug-ins whose tables stand in `.debug_frame` alone, which the loader leaves in the file: stacks and waits are whole.
/// Where there are none at all, the stacks that jump over them do not count as whole.
#[test]
fn code_that_debug_frame_alone_describes_is_left_by_it() -> TestResult {
    let formats: &[&[&str]] = &[
        &["-g", "-gdwarf-4"],
        &["-g", "-gdwarf-5"],
        &["-g", "-gdwarf64"],
        &["-g", "-no-pie"],
        &[],
    ];
    for more in formats {
        let flags = NO_TABLES.iter().chain(*more);
        let outcome = Run::new()
            .freq(1000)
            .options(["--realtime"])
            .command(workload("undescribed").flags(flags))
            .run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let metadata = trace.metadata()?;
        let complete = metadata.get("complete_stacks_percent")?.as_float();
        if more.is_empty() {
            // Unless all callers were found by a search, one for one.
            let samples = trace.samples()?;
            let found = samples.share_where(|sample| {
                let all = ["main", "own_outer", "burn"];
                all.iter().all(|function| sample.calls(function))
            });
            assert!(
                complete < Some(10.0) || found > 0.99,
                "{complete:?} {found}\n{}",
                outcome.story()
            );
            continue;
        }
        assert_rooted(&trace, PLAIN_CODE_ROOTED, &format!("{more:?}"))?;
        assert!(complete > Some(99.0), "{more:?}: {complete:?}");
        let library = [
            "main",
            "own_outer",
            "library_outer",
            "library_inner",
            "own_inner",
        ];
        let plugin = ["main", "own_outer", "plugin_outer", "plugin_inner"];
        let through = |sample: &Sample, functions: &[&str]| {
            functions.iter().all(|function| sample.calls(function))
        };
        let samples = trace.samples()?;
        for functions in [&library[..], &plugin[..]] {
            let share = samples.share_where(|sample| through(sample, functions));
            assert!(share > 0.4, "{more:?}: {functions:?} {share}");
        }
        let waits = trace.wait_samples()?;
        // Seconds, of 0.3.
        let weights = waits.iter().filter(|sample| through(sample, &library));
        let slept: f64 = weights.map(|sample| sample.weight).sum();
        assert!(slept > 0.25, "{more:?}: waits {slept}");
    }
    Ok(())
}

fn chain_at_all_levels(compiler: &str) -> TestResult {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        for pointer in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
            // Inlining would take the chain's names from the symbol table of a build without debug information.
            let flags = [
                level,
                pointer,
                "-g",
                "-fno-inline",
                "-fno-optimize-sibling-calls",
            ];
            chain_is_complete(
                workload("callchain").compiler(compiler).flags(flags),
                &format!("{compiler} {level} {pointer}"),
            )?;
        }
    }
    Ok(())
}

#[test]
fn every_stack_of_gcc_code_reaches_the_root() -> TestResult {
    chain_at_all_levels("gcc")
}

#[test]
fn every_stack_of_clang_code_reaches_the_root() -> TestResult {
    skip_if_missing!(missing_tool("clang"));
    chain_at_all_levels("clang")
}

#[test]
fn without_debug_information_the_symbol_table_serves() -> TestResult {
    chain_is_complete(
        workload("callchain").flags(["-O2", "-fno-inline", "-fno-optimize-sibling-calls"]),
        "no -g",
    )
}

#[test]
fn debug_information_in_other_shapes_serves() -> TestResult {
    for shape in ["-gz", "-gdwarf-4", "-gdwarf-5", "-static-libgcc"] {
        let flags = [
            "-O2",
            "-g",
            "-fno-inline",
            "-fno-optimize-sibling-calls",
            shape,
        ];
        chain_is_complete(workload("callchain").flags(flags), shape)?;
    }
    Ok(())
}

#[test]
fn fortran_stacks_reach_the_root() -> TestResult {
    skip_if_missing!(missing_tool("gfortran"));
    let outcome = Run::new()
        .freq(1000)
        .command(workload("stencil").flags(["-O3", "-g"]))
        .run()?;
    assert_rooted(&outcome.expect_success().trace()?, 0.99, "gfortran -O3")
}

#[test]
fn plt_vdso_and_library_stubs_are_walked() -> TestResult {
    let program = workload("stubs").flags(["-O2", "-g", "-fno-builtin", "-Wl,-z,lazy"]);
    let outcome = Run::new().freq(1000).command(program).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert_rooted(&trace, PLAIN_CODE_ROOTED, "stubs")?;
    let in_vdso = trace.samples()?.share_where(|sample| {
        sample
            .stack
            .last()
            .is_some_and(|leaf| leaf.module.contains("vdso"))
    });
    assert!(
        in_vdso > 0.02,
        "only {in_vdso} of the samples are in the vDSO"
    );
    Ok(())
}

#[test]
fn jitted_code_has_its_name_from_the_map_file() -> TestResult {
    let outcome = Run::new().freq(1000).command(workload("jit")).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let shares = trace.shares()?;
    assert!(
        shares.self_share("jit_countdown") > 0.9,
        "{:?}",
        shares.top(10)
    );
    std::fs::remove_file(format!("/tmp/perf-{}.map", outcome.number("map")?))?;
    Ok(())
}

#[test]
fn deep_recursion_is_cut_marked_and_cheap() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .command(workload("deeprec").args(["--depth", "10000", "--seconds", "1"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert!(
        trace.metadata()?.int(key::TRUNCATED_STACKS)? > 100,
        "{:?}",
        trace.metadata()?
    );
    let shares = trace.shares()?;
    assert!(shares.total_share("descend") > 0.95, "{:?}", shares.top(5));
    let deepest = trace.number("select max(depth) from slice")?;
    assert!(
        deepest < 512,
        "{deepest} levels are more than the user interface shows"
    );
    Ok(())
}

#[test]
fn moderate_recursion_is_complete() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .command(workload("deeprec").args(["--depth", "60", "--seconds", "0.5"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert_eq!(trace.metadata()?.int(key::TRUNCATED_STACKS)?, 0);
    assert_rooted(&trace, PLAIN_CODE_ROOTED, "60 deep")
}

#[test]
fn timeline_and_stacks_say_the_same() -> TestResult {
    let outcome = Run::new()
        .freq(500)
        .command(workload("callchain").args(["--threads", "3", "--seconds", "0.5"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let (timeline, samples) = (trace.timeline()?, trace.samples()?);
    let agreement = timeline.agreement(&samples);
    assert!(
        agreement > 0.99,
        "the slices name the functions of only {:.1} % of the samples",
        100.0 * agreement
    );
    // Equal neighbours are one slice: the outermost function of a thread begins anew after gaps only.
    let metadata = trace.metadata()?;
    let period_ns = 1_000_000_000 / 500;
    let longest_step_ns = 2 * metadata.int("tick_ns")?.max(period_ns);
    let mut last_ns: HashMap<i64, i64> = HashMap::new();
    let mut stretches = 0;
    for sample in samples.iter() {
        let before = last_ns.insert(sample.utid, sample.time_ns);
        stretches +=
            usize::from(before.is_none_or(|before| sample.time_ns - before > longest_step_ns));
    }
    let outermost = timeline.iter().filter(|slice| slice.depth == 0).count();
    assert!(
        outermost <= stretches,
        "{outermost} outermost slices for {stretches} stretches of {} samples",
        samples.count()
    );
    Ok(())
}

#[test]
fn a_pause_is_not_painted() -> TestResult {
    let outcome = Run::new()
        .freq(250)
        .command(workload("naps").args(["--turns", "4"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    // A nap lasts 200 ms; at most about two periods of it are painted at either side.
    // A busy machine may keep the thread from running for longer than that, which is a gap, too.
    let gaps = trace.timeline()?.gaps("naps", 150_000_000);
    assert!(gaps.len() >= 4, "{gaps:?}");
    Ok(())
}
