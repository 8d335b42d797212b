//! Programs that are built with sanitizers: their runtimes find what they would find without us, and the samples are right.

use rsys_tests::{Run, TestResult, Workload, assert_share, script, workload};

fn sanitized(sanitizer: &str, mode: &str, seconds: &str) -> Workload {
    let flag = format!("-fsanitize={sanitizer}");
    workload("sanitized")
        .flags(["-O1", "-g", &flag])
        .args([mode, "--seconds", seconds])
}

#[test]
fn sanitizers_find_what_they_find_without_us() -> TestResult {
    for (sanitizer, mode, finding) in [
        ("address", "ok", ""),
        ("address", "misuse", "heap-use-after-free"),
        ("address", "leak", "detected memory leaks"),
        ("leak", "leak", "detected memory leaks"),
        ("thread", "ok", ""),
        ("thread", "many", ""),
        ("thread", "race", "data race"),
        ("undefined", "ok", ""),
    ] {
        let seconds = if mode == "many" { "0.01" } else { "0.05" };
        let bare = Run::bare()
            .command(sanitized(sanitizer, mode, seconds))
            .run()?;
        let ours = Run::new()
            .freq(1000)
            .command(sanitized(sanitizer, mode, seconds))
            .run()?;
        assert!(bare.stderr.contains(finding), "{}", bare.story());
        assert!(ours.stderr.contains(finding), "{}", ours.story());
        assert_eq!(ours.status.code(), bare.status.code(), "{}", ours.story());
        assert!(!ours.summaries.is_empty(), "{}", ours.story());
    }
    Ok(())
}

#[test]
fn what_framehop_allocates_is_no_leak() -> TestResult {
    for (sanitizer, mode) in [("address", "ok"), ("address", "fork"), ("leak", "fork")] {
        let outcome = Run::new()
            .freq(1000)
            .options(["--unwinder", "framehop"])
            .command(sanitized(sanitizer, mode, "0.1"))
            .run()?;
        outcome.expect_success();
        assert!(!outcome.summaries.is_empty(), "{}", outcome.story());
    }
    Ok(())
}

#[test]
fn a_busy_runtime_is_not_interrupted_by_itself() -> TestResult {
    // Called through ThreadSanitizer's own handler, ours crashed one run in three on a busy machine, one in eight on an idle one.
    for _ in 0..40 {
        let outcome = Run::new()
            .freq(1000)
            .options(["--clock", "timer"])
            .command(sanitized("thread", "race", "0.03"))
            .run()?;
        outcome.expect_code(66);
    }
    Ok(())
}

#[test]
fn shares_are_right_under_sanitizers() -> TestResult {
    for sanitizer in ["address", "thread"] {
        let outcome = Run::new()
            .freq(1000)
            .command(sanitized(sanitizer, "ok", "1.1"))
            .run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let shares = trace.shares()?;
        assert_share(sanitizer, &shares, "threefold", 0.75);
        assert_share(sanitizer, &shares, "once", 0.25);
    }
    Ok(())
}

#[test]
fn sanitized_children_of_other_programs_start() -> TestResult {
    let program = sanitized("address", "ok", "0.1").build()?;
    let line = format!("{0} ok && {0} ok", program.display());
    let outcome = Run::new().freq(1000).command(script(&line)).run()?;
    assert_eq!(outcome.expect_success().stdout, "ok\nok\n");
    outcome.assert_counts()?;
    Ok(())
}
