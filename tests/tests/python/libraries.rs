//! Python with numpy and PyTorch.

use rsys_tests::{Run, TestResult, Trace, missing_python_module, python, skip_if_missing};

/// Code that assembles itself at run time has no unwind tables.
const ROOTED_WITH_JIT: f64 = 0.99;

/// Whether a name or a module belongs to the numeric libraries.
fn is_kernel(trace: &Trace) -> anyhow::Result<f64> {
    let numeric = |text: &str| {
        ["blas", "dnnl", "mkldnn", "gemm", "jit_", "native::"]
            .iter()
            .any(|part| text.contains(part))
    };
    let samples = trace.samples()?;
    Ok(samples.share_where(|sample| {
        samples.is_rooted(sample)
            && sample
                .stack
                .iter()
                .any(|frame| numeric(&frame.module) || numeric(&frame.function))
    }))
}

#[test]
fn a_training_loop_with_two_loader_workers() -> TestResult {
    skip_if_missing!(missing_python_module("torch"));
    let train = || {
        python("train_torch.py")
            .arg("10")
            .env("OMP_NUM_THREADS", "1")
    };
    let bare = Run::bare().command(train()).run()?;
    let outcome = Run::new().freq(300).command(train()).run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        bare.expect_success().stdout,
        "the losses differ"
    );
    outcome.assert_counts()?;
    let busy: Vec<_> = outcome
        .summaries
        .iter()
        .filter(|summary| summary.samples > 10)
        .collect();
    assert_eq!(
        busy.len(),
        3,
        "the loop and its two workers\n{}",
        outcome.story()
    );

    let main = busy
        .iter()
        .max_by_key(|summary| summary.samples)
        .map(|summary| summary.path.clone());
    for trace in outcome.traces()? {
        trace.assert_clean();
        let samples = trace.samples()?;
        assert!(
            samples.rooted_share() >= ROOTED_WITH_JIT,
            "{:.2} % of the stacks of {} reach the root; not these:\n{}",
            100.0 * samples.rooted_share(),
            trace.path().display(),
            samples.unrooted_examples()
        );
        if main.as_deref() == Some(trace.path()) {
            let kernels = is_kernel(&trace)?;
            assert!(
                kernels > 0.2,
                "only {kernels} of the samples reach from the root into kernels"
            );
        }
    }
    Ok(())
}

#[test]
fn numpy_from_two_threads() -> TestResult {
    skip_if_missing!(missing_python_module("numpy"));
    let work = || python("numpy_work.py").env("OPENBLAS_NUM_THREADS", "1");
    let bare = Run::bare().command(work()).run()?;
    let outcome = Run::new().freq(1000).command(work()).run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        bare.expect_success().stdout
    );
    let trace = outcome.trace()?;
    trace.assert_clean();
    let samples = trace.samples()?;
    assert!(
        samples.rooted_share() >= ROOTED_WITH_JIT,
        "{}",
        samples.unrooted_examples()
    );
    assert!(is_kernel(&trace)? > 0.2, "{:?}", trace.shares()?.top(20));
    Ok(())
}

#[test]
fn errors_of_a_program_are_its_own() -> TestResult {
    let failing = || {
        rsys_tests::Invocation::new("/usr/bin/python3")
            .args(["-c", "import sys; print('out'); sys.exit('no good')"])
    };
    let bare = Run::bare().command(failing()).run()?;
    let outcome = Run::new().command(failing()).run()?;
    outcome.expect_code(1);
    assert_eq!(outcome.stdout, bare.stdout);
    assert!(
        outcome.stderr.contains(bare.stderr.trim()),
        "{}",
        outcome.story()
    );
    Ok(())
}
