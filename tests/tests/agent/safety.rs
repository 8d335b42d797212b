//! Programs that make life hard for a profiler must behave as without it.

use std::fs;
use std::time::Duration;

use rsys_tests::{
    Invocation, Run, Scratch, TestResult, is_root, skip_if_missing, wait_until, workload,
};

/// Modes of `hostile` after which its samples must still be there: those taken before, and those taken after where the
/// program leaves that possible.
const HOSTILE: &[&str] = &[
    "closefrom",
    "close-all",
    "nofile",
    "fsize",
    "as",
    "sigpending",
    "memlock",
    "chdir",
    "seccomp",
    "prctl",
    "blocked",
    "stdio",
    "environment",
];

fn survives(mode: &str, clock: &str) -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .options(["--clock", clock])
        .command(workload("hostile").args([mode]))
        .run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        format!("ok {mode}\n"),
        "{}",
        outcome.story()
    );
    outcome.assert_counts()?;
    let trace = outcome.trace()?;
    trace.assert_clean();
    // 50 ms before, 250 ms after: most of it must be seen.
    let weight = trace.samples()?.weight();
    assert!(
        weight > 250.0,
        "{mode} by {clock}: only {weight} weighted samples\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn hostile_programs_run_and_are_seen() -> TestResult {
    HOSTILE.iter().try_for_each(|mode| survives(mode, "auto"))
}

#[test]
fn hostile_programs_run_with_the_timer_clock() -> TestResult {
    ["closefrom", "nofile", "sigpending", "seccomp", "blocked"]
        .iter()
        .try_for_each(|mode| survives(mode, "timer"))
}

#[test]
fn dropping_privileges() -> TestResult {
    skip_if_missing!((!is_root()).then(|| "only root can become somebody else".to_owned()));
    survives("setuid", "auto")
}

#[test]
fn a_daemon_is_followed() -> TestResult {
    let scratch = Scratch::new("daemon")?;
    let file = scratch.path().join("done");
    let program = workload("hostile").args(["daemon".as_ref(), file.as_os_str()]);
    let outcome = Run::new()
        .freq(500)
        .options(["--linger", "20"])
        .command(program)
        .run()?;
    outcome.expect_success();
    assert!(
        wait_until(Duration::from_secs(20), || file.exists()),
        "the daemon did not get through\n{}",
        outcome.story()
    );
    assert_eq!(fs::read_to_string(&file)?, "ok daemon\n");
    outcome.assert_counts()?;
    let weight = outcome.all_clean()?.weight();
    assert!(
        weight > 100.0,
        "{weight} weighted samples\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_program_with_its_own_sigprof() -> TestResult {
    let bare = Run::bare().command(workload("sigprof_user")).run()?;
    let own_ticks = bare.expect_success().number("ticks")?;
    for clock in ["timer", "perf"] {
        let outcome = Run::new()
            .freq(500)
            .options(["--clock", clock])
            .command(workload("sigprof_user"))
            .run()?;
        let ticks = outcome.expect_success().number("ticks")?;
        // Ticks that come close together are one: a busy machine has fewer. More than one in 10 ms cannot be.
        let most = 1.2 * outcome.number("cpu")? / 0.01;
        assert!(
            ticks > 0.4 * own_ticks && ticks < most,
            "{ticks} ticks, without us {own_ticks}"
        );
        let trace = outcome.trace()?;
        trace.assert_clean();
        let weights = trace.samples()?.thread_weights();
        // The thread that blocks every signal burns as long as the main thread.
        let blocked = weights.get("blocked").copied().unwrap_or(0.0);
        assert!(
            blocked > 150.0,
            "the thread that blocks all signals is not seen: {weights:?}"
        );
    }
    Ok(())
}

#[test]
fn a_program_that_recovers_from_faults() -> TestResult {
    let outcome = Run::new().freq(2000).command(workload("segv_user")).run()?;
    assert_eq!(outcome.expect_success().number("faults")?, 1010.0);
    outcome.trace()?.assert_clean();
    Ok(())
}

#[test]
fn little_stacks_and_coroutines() -> TestResult {
    for (clock, unwinder) in [("timer", "cfi"), ("perf", "cfi"), ("perf", "framehop")] {
        let outcome = Run::new()
            .freq(2000)
            .options(["--clock", clock, "--unwinder", unwinder])
            .command(workload("tinystack"))
            .run()?;
        assert_eq!(outcome.expect_success().number("turns")?, 1.0);
        let trace = outcome.trace()?;
        trace.assert_clean();
        for function in ["small", "coroutine_body", "on_signal"] {
            let share = trace.shares()?.total_share(function);
            assert!(
                share > 0.2,
                "{function} has a share of {share}: {:?}",
                trace.shares()?.top(10)
            );
        }
    }
    Ok(())
}

#[test]
fn alternate_signal_stacks_of_any_size_have_room_for_every_engine() -> TestResult {
    for unwinder in ["cfi", "fp", "framehop"] {
        let outcome = Run::new()
            .freq(2000)
            .options(["--unwinder", unwinder])
            .command(workload("altstack"))
            .run()?;
        assert_eq!(outcome.expect_success().number("sorted")?, 1.0);
        let trace = outcome.trace()?;
        trace.assert_clean();
        if unwinder != "fp" {
            // Only the smallest stacks have room for nothing but the leaf.
            let samples = trace.samples()?;
            let rooted = samples.rooted_share();
            assert!(
                rooted > 0.7,
                "{unwinder}: {rooted}\n{}",
                samples.unrooted_examples()
            );
        }
    }
    Ok(())
}

#[test]
fn pythons_fault_handler_has_its_small_stack_to_itself() -> TestResult {
    const PROGRAM: &str = "
import faulthandler
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
print(sum(fibonacci(22) for _ in range(12)), sorted(range(50000), key=lambda n: -n)[0], faulthandler.is_enabled())";
    for unwinder in ["cfi", "framehop"] {
        let python =
            || Invocation::new("/usr/bin/python3").args(["-X", "faulthandler", "-c", PROGRAM]);
        let bare = Run::bare().command(python()).run()?;
        let outcome = Run::new()
            .freq(2000)
            .options(["--unwinder", unwinder])
            .command(python())
            .run()?;
        assert_eq!(
            outcome.expect_success().stdout,
            bare.expect_success().stdout
        );
        outcome.trace()?.assert_clean();
    }
    Ok(())
}

#[test]
fn threads_of_all_origins_are_seen() -> TestResult {
    let outcome = Run::new().freq(500).command(workload("early")).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let share = trace.shares()?.total_share("early_worker");
    assert!(
        share > 0.3,
        "the thread from before main has a share of {share}"
    );

    // Also one that begins after another one of its kind has ended.
    for (threads, share) in [("1", 0.3), ("2", 0.2)] {
        let outcome = Run::new()
            .freq(500)
            .command(workload("raw_clone").args(["--seconds", "1", "--threads", threads]))
            .run()?;
        let tid = outcome.expect_success().number("tid")?;
        let trace = outcome.trace()?;
        trace.assert_clean();
        let samples = trace.samples()?;
        let mine =
            samples.share_where(|sample| sample.tid as f64 == tid && sample.calls("raw_work"));
        assert!(
            mine > share,
            "the last of {threads} raw threads has a share of {mine}: {:?}",
            samples.thread_weights()
        );
    }
    Ok(())
}

#[test]
fn the_first_instructions_count() -> TestResult {
    // A program of 10 ms: at 1000 Hz its few samples are there, from the beginning on.
    let outcome = Run::new()
        .freq(1000)
        .command(workload("rate").args(["--seconds", "0.01"]))
        .run()?;
    outcome.expect_success().assert_counts()?;
    let weighted: u64 = outcome
        .summaries
        .iter()
        .map(|summary| summary.weighted)
        .sum();
    // The program prints its CPU time up to its last line. What its exit takes counts in the weight as well.
    let expected = 1000.0 * outcome.number("cpu")?;
    assert!(
        (expected - 4.0..1.8 * expected).contains(&(weighted as f64)),
        "{weighted} weighted samples, expected {expected}"
    );
    Ok(())
}

#[test]
fn signals_and_stacks_are_shared() -> TestResult {
    for mode in ["sigwait", "small-fork", "large-handler", "seccomp-probe"] {
        let outcome = Run::new()
            .freq(1000)
            .command(workload("sharing").args([mode]))
            .run()?;
        assert_eq!(outcome.expect_success().stdout.trim(), format!("ok {mode}"));
        if mode == "seccomp-probe" {
            let share = outcome.trace()?.shares()?.total_share("burn_here");
            assert!(
                share > 0.8,
                "the thread after the probe has a share of {share}"
            );
        }
    }
    Ok(())
}

/// Who is shown another time with everything that they start, the sampler too (libfaketime around `rsys-sample`), has times that are right and a
/// sampler that sleeps, and the program still is shown that time.
#[test]
fn a_clock_that_is_played_with_is_the_programs_alone() -> TestResult {
    let fast = workload("fast_clock")
        .build()?
        .with_file_name("pluginfast.so");
    for clock in ["timer", "perf"] {
        let outcome = Run::new()
            .options(["--clock", clock])
            .env("LD_PRELOAD", &fast)
            .command(workload("fast_clock"))
            .run()?;
        assert_eq!(outcome.expect_success().stdout, "the clock is fast\n");
        let trace = outcome.trace()?;
        trace.assert_clean();
        let metadata = trace.metadata()?;
        let program_ns = metadata.int("cpu_time_ns")?;
        let sampler_s = metadata
            .get("sampler_cpu_seconds")?
            .as_float()
            .unwrap_or(f64::MAX);
        assert!(
            sampler_s * 1e9 < program_ns as f64 / 4.0,
            "{clock}: {sampler_s} s"
        );
        // Half a second of CPU time is no day.
        let span = trace.query("select max(ts) - min(ts) from perf_sample")?;
        let span_ns = span.single()?.as_int().unwrap_or(i64::MAX);
        assert!(span_ns < 3_600_000_000_000, "{clock}: {span_ns} ns");
    }
    Ok(())
}

/// Neither called in a handler nor believed: the program's, or one of a library that is preloaded (libfaketime).
#[test]
fn a_clock_of_the_programs_own_is_not_asked() -> TestResult {
    for clock in ["timer", "perf"] {
        let outcome = Run::new()
            .freq(1000)
            .options(["--clock", clock])
            .command(workload("own_clock").flags(["-O2", "-g", "-rdynamic"]))
            .run()?;
        assert_eq!(outcome.expect_success().stdout, "calls=0\n", "{clock}");
        let trace = outcome.trace()?;
        trace.assert_clean();
        // The program uses half a second of CPU time, and the clock does not stand still.
        let span = trace.query("select max(ts) - min(ts) from perf_sample")?;
        let span_ns = span.single()?.as_int().unwrap_or(0);
        assert!(span_ns > 300_000_000, "{clock}: {span_ns} ns");
    }
    Ok(())
}

/// Runtimes and emulators take the thread pointer for their own use, and threads of a raw `clone` have others than the C library's.
#[test]
fn a_thread_pointer_of_somebody_else_is_left_alone() -> TestResult {
    for mode in ["zero", "area", "clone"] {
        for clock in ["auto", "timer"] {
            let outcome = Run::new()
                .freq(1000)
                .options(["--clock", clock])
                .command(workload("thread_pointer").args([mode, "300"]))
                .run()?;
            outcome.expect_success();
            assert_eq!(outcome.stdout, "done\n", "{mode}\n{}", outcome.story());
        }
    }
    Ok(())
}

/// Handlers with SA_ONSTACK of a thread without a signal stack run on ours, and may be left and gone on with later.
#[test]
fn handlers_that_switch_contexts_find_their_frames() -> TestResult {
    for options in [&[][..], &["-f", "1000"], &["--clock", "timer"]] {
        let outcome = Run::new()
            .options(options)
            .command(workload("switching_handler"))
            .run()?;
        outcome.expect_success();
        assert_eq!(outcome.stdout, "done\n", "{}", outcome.story());
    }
    Ok(())
}

/// A sample that reads where a register happens to point would wait for a page that only the interrupted thread can bring.
#[test]
fn pages_whose_faults_the_program_serves_are_not_read() -> TestResult {
    const NOT_ALLOWED: i32 = 77;
    for unwinder in ["cfi", "framehop", "fp"] {
        let outcome = Run::new()
            .freq(1000)
            .options(["--unwinder", unwinder])
            .command(workload("userfault"))
            .run()?;
        let refused = outcome.status.code() == Some(NOT_ALLOWED);
        skip_if_missing!(refused.then_some("userfaultfd, which is not allowed here"));
        outcome.expect_success();
        assert_eq!(outcome.stdout, "faults: 0\n", "{}", outcome.story());
    }
    Ok(())
}

/// Where nothing guards our reads, and where a handler of the program's has blocked the signals that do.
#[test]
fn addresses_that_the_program_asks_about_may_be_anything() -> TestResult {
    for freq in [100, 2000] {
        let outcome = Run::new().freq(freq).command(workload("probes")).run()?;
        assert_eq!(
            outcome.expect_success().stdout,
            "ok\n",
            "{}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn faults_that_the_program_ignores_end_nothing_while_it_starts_others() -> TestResult {
    for (threads, starts) in [("0", "50"), ("3", "100")] {
        let outcome = Run::new()
            .freq(4000)
            .command(workload("ignored_faults").args([threads, starts]))
            .run()?;
        assert_eq!(
            outcome.expect_success().stdout,
            "ok\n",
            "{threads}\n{}",
            outcome.story()
        );
    }
    Ok(())
}

/// Starting threads and changing handlers needs no look-up that waits for the loader, or drops the error that it keeps for the program.
#[test]
fn the_loader_is_left_alone() -> TestResult {
    for environment in [None, Some("RSYS_AGENT_MODULE_SNAPSHOT")] {
        let mut run = Run::new();
        if let Some(name) = environment {
            run = run.env(name, "1");
        }
        let outcome = run.command(workload("constructed")).run()?;
        assert_eq!(
            outcome.expect_success().stdout,
            "ok\n",
            "{environment:?}\n{}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn a_thread_that_takes_all_signals_gets_those_that_all_others_block() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .command(workload("dispatcher"))
        .run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        "ok\n",
        "{}",
        outcome.story()
    );
    Ok(())
}
