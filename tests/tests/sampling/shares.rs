//! Do the reported shares tell where the time went?

use anyhow::ensure;
use rsys_tests::{
    Run, TestResult, assert_share, assert_total_share, kernel_ticks_per_second, missing_tool,
    share_bound, skip_if_missing, workload,
};

/// What `hotspots` spends, by construction: called functions and inlined ones, in two libraries.
const TRUTH: [(&str, f64); 4] = [
    ("alpha_heavy", 0.50),
    ("alpha_inlined", 0.30),
    ("beta_medium", 0.15),
    ("beta_inlined", 0.05),
];

/// CPU time for enough samples, and a little more. The timer clock draws at most once per tick of the kernel.
fn seconds_for(hertz: u32, clock: &str) -> f64 {
    let draws_per_second = if clock == "timer" {
        hertz.min(250)
    } else {
        hertz
    };
    2300.0 / f64::from(draws_per_second)
}

fn hot_spots(hertz: u32, threads: u32, clock: &str, unwinder: &str) -> TestResult {
    let seconds = seconds_for(hertz, clock).to_string();
    let program =
        workload("hotspots").args(["--threads", &threads.to_string(), "--seconds", &seconds]);
    let options = ["--clock", clock, "--unwinder", unwinder];
    let outcome = Run::new()
        .freq(hertz)
        .options(options)
        .command(program)
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let shares = trace.shares_of("worker")?;
    for (function, expected) in TRUTH {
        let what = format!("{hertz} Hz on {threads} threads {options:?}");
        assert_share(&what, &shares, function, expected);
    }
    assert!(
        shares.total_share("alpha_entry") > 0.75,
        "{:?}",
        shares.top(10)
    );
    Ok(())
}

/// Where a thread's first sample lies depends on nothing that the thread does.
#[test]
fn threads_of_little_more_than_a_period_are_met_everywhere() -> TestResult {
    for (count, milliseconds, bound) in [("700", "1.2", 0.12), ("60", "15", 0.08)] {
        let outcome = Run::new()
            .freq(1000)
            .command(workload("short_threads").args([count, milliseconds]))
            .run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let samples = trace.samples()?;
        let of = |function: &str| samples.iter().filter(|one| one.calls(function)).count() as f64;
        let (first, then) = (of("first"), of("then"));
        ensure!(
            (first / (first + then) - 2.0 / 3.0).abs() < bound,
            "{milliseconds} ms: {first} and {then}"
        );
    }
    Ok(())
}

#[test]
fn hot_spots_at_100_hz() -> TestResult {
    [1, 4, 64]
        .into_iter()
        .try_for_each(|threads| hot_spots(100, threads, "auto", "cfi"))
}

#[test]
fn hot_spots_at_250_hz() -> TestResult {
    [1, 4, 64]
        .into_iter()
        .try_for_each(|threads| hot_spots(250, threads, "auto", "cfi"))
}

#[test]
fn hot_spots_at_1000_hz() -> TestResult {
    [1, 4, 64]
        .into_iter()
        .try_for_each(|threads| hot_spots(1000, threads, "perf", "cfi"))
}

#[test]
fn hot_spots_with_each_unwinder_and_clock() -> TestResult {
    for (clock, unwinder) in [
        ("timer", "cfi"),
        ("timer", "framehop"),
        ("perf", "framehop"),
    ] {
        hot_spots(1000, 4, clock, unwinder)?;
    }
    Ok(())
}

#[test]
fn hot_spots_by_frame_pointers() -> TestResult {
    let program = workload("hotspots")
        .flags([
            "-O2",
            "-g",
            "-fno-omit-frame-pointer",
            "-mno-omit-leaf-frame-pointer",
        ])
        .args(["--threads", "2", "--seconds", "2.3"]);
    let outcome = Run::new()
        .freq(1000)
        .options(["--unwinder", "fp", "--clock", "perf"])
        .command(program)
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let shares = trace.shares_of("worker")?;
    for (function, expected) in TRUTH {
        assert_share("by frame pointers", &shares, function, expected);
    }
    Ok(())
}

#[test]
fn fortran_names_are_as_in_the_source() -> TestResult {
    skip_if_missing!(missing_tool("gfortran"));
    let program = workload("stencil").flags(["-O3", "-g"]);
    let outcome = Run::new().freq(500).command(program).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let shares = trace.shares()?;
    let found = shares
        .top(20)
        .into_iter()
        .find(|(name, _)| name.contains("relax"));
    assert!(
        found.as_ref().is_some_and(|(_, share)| *share > 0.7),
        "{:?}",
        shares.top(20)
    );
    Ok(())
}

#[test]
fn cpp_names_are_demangled() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .command(workload("imagery").args(["60"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let blur = trace.shares_of("blur")?;
    let names: Vec<String> = blur.top(40).into_iter().map(|(name, _)| name).collect();
    assert!(
        names
            .iter()
            .any(|name| name.contains("imagery::blur_pass<")),
        "{names:?}"
    );
    assert!(
        names.iter().all(|name| !name.starts_with("_ZN")),
        "{names:?}"
    );
    for thread in ["render", "blur", "edges"] {
        assert!(
            trace.thread_names()?.iter().any(|name| name == thread),
            "no thread {thread}"
        );
    }
    Ok(())
}

/// Programs that go round in time with the clock: each sample would find them in the same place.
#[test]
fn rounds_in_step_with_the_clock() -> TestResult {
    for (round, first) in [(1000, 500), (4000, 2500), (2000, 300)] {
        let program = workload("rounds").args([
            "--seconds",
            "2.3",
            "--round-us",
            &round.to_string(),
            "--first-us",
            &first.to_string(),
        ]);
        let outcome = Run::new()
            .freq(1000)
            .options(["--clock", "perf"])
            .command(program)
            .run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let shares = trace.shares_of("rounds")?;
        let what = format!("{first} of {round} us");
        let share = f64::from(first) / f64::from(round);
        // They ask for the time by system calls: that is theirs too.
        assert_total_share(&what, &shares, "first", share);
        assert_total_share(&what, &shares, "second", 1.0 - share);
    }
    Ok(())
}

/// Where a program is in the kernel is sampled at the kernel's ticks alone, however fine the clock of user code is.
#[test]
fn time_in_the_kernel_belongs_to_who_spends_it() -> TestResult {
    const SECONDS: u32 = 8;
    let ticks = f64::from(SECONDS) * kernel_ticks_per_second();
    for (clock, no_perf) in [("perf", "0"), ("perf", "1"), ("timer", "0")] {
        let options = ["--clock", clock, "--no-perf", no_perf];
        let outcome = Run::new()
            .freq(1000)
            .options(&options[..2])
            .command(
                workload("kernel_time")
                    .args(["--seconds", &SECONDS.to_string()])
                    .args(&options[2..]),
            )
            .run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let by_perf = trace.metadata()?.int("perf_samples")?;
        let is_seldom = by_perf < i64::from(SECONDS) * 1000 / 50;
        assert_eq!(
            is_seldom,
            clock == "timer" || no_perf == "1",
            "{by_perf} samples by perf"
        );
        let shares = trace.shares_of("kernel_time")?;
        // Where the program has to wait for a processor a tick's sample stands for several.
        let draws = ticks.min(shares.draws());
        for function in ["computes", "calls", "touches"] {
            let expected = outcome.number(function)?;
            let measured = shares.total_share(function);
            assert!(
                (measured - expected).abs() < share_bound(expected, draws),
                "{options:?}: {function} has {measured:.3}, expected {expected:.3} ({draws:.0} draws)"
            );
        }
    }
    Ok(())
}
