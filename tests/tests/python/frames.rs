//! Python functions, files and lines in the stacks, beside the native functions that they call and that call them.

mod interpreters;
mod storms;

use std::collections::{BTreeMap, HashMap, HashSet};

use rsys_tests::{
    Frame, Interpreter, Invocation, Outcome, Run, Sample, Samples, Slice, TestResult, Trace,
    python, pythons, share_bound, skip_if_missing, unpacked, workload,
};

const TRUTH: &str = "python_truth.py";

/// The interpreter's own files.
fn is_interpreter(frame: &Frame) -> bool {
    let file = frame.module.rsplit('/').next().unwrap_or_default();
    file.starts_with("libpython3") || file.starts_with("python3")
}

fn is_python(frame: &Frame) -> bool {
    let file = frame.function.rsplit_once(" (").map(|(_, file)| file);
    file.is_some_and(|file| file.ends_with(".py)") || file.starts_with('<'))
}

/// Where on the stack a function of a file stands, outermost first. Before 3.11 the class of a method is not known.
fn place(sample: &Sample, function: &str, file: &str) -> Option<usize> {
    let with_file = format!("{function} ({file})");
    sample.stack.iter().position(|frame| {
        frame.function == with_file || frame.function.ends_with(&format!(".{with_file}"))
    })
}

fn runs(sample: &Sample, function: &str) -> bool {
    place(sample, function, TRUTH).is_some()
}

/// The weight of the samples for which something holds.
fn weight(samples: &Samples, holds: impl Fn(&Sample) -> bool) -> f64 {
    let held = samples.iter().filter(|sample| holds(sample));
    held.map(|sample| sample.weight).sum()
}

/// Fails unless a part of some samples is the expected share of them, within the bound of sampling. Where the program had to wait for a processor, a sample
/// stands for several periods, and there are fewer draws.
#[track_caller]
fn assert_part(
    what: &str,
    samples: &Samples,
    is_part: impl Fn(&Sample) -> bool,
    is_whole: impl Fn(&Sample) -> bool,
    expected: f64,
) {
    let whole = samples.shares(is_whole).expect(what);
    let draws = whole.draws();
    let bound = share_bound(expected, draws);
    let measured = weight(samples, is_part) / whole.weight;
    assert!(
        (measured - expected).abs() <= bound,
        "{what}: {:.2} %, expected {:.2} % ± {:.2} ({draws:.0} draws)",
        100.0 * measured,
        100.0 * expected,
        100.0 * bound
    );
}

/// The numbers that the workload printed as `name=number`, by name.
fn told(outcome: &Outcome) -> BTreeMap<String, f64> {
    let lines = outcome.stdout.lines();
    lines
        .filter_map(|line| {
            let (name, number) = line.split_once('=')?;
            Some((name.to_owned(), number.parse().ok()?))
        })
        .collect()
}

/// Most of these samples have the second frame inside of the first.
#[track_caller]
fn assert_inside(
    what: &str,
    samples: &Samples,
    outer: &str,
    is_inner: impl Fn(&Frame) -> bool,
    least: f64,
) {
    let whole = weight(samples, |sample| runs(sample, outer));
    let inside = weight(samples, |sample| {
        place(sample, outer, TRUTH)
            .is_some_and(|outer| sample.stack[outer + 1..].iter().any(&is_inner))
    });
    assert!(
        inside >= least * whole && whole > 20.0,
        "{what}: of {whole} samples in {outer}, {inside} have it inside"
    );
}

/// The shares of the parts, of two lines, and what stands inside of what, by one interpreter.
fn truth(interpreter: &Interpreter) -> TestResult {
    let what = interpreter.to_string();
    let outcome = Run::new()
        .freq(1000)
        .command(interpreter.workload(TRUTH).arg("0.25"))
        .run()?;
    outcome.expect_success();
    outcome.assert_counts()?;
    let trace = outcome.trace()?;
    trace.assert_clean();
    let samples = trace.samples()?;
    let told = told(&outcome);

    let parts = [
        "pure",
        "native",
        "sorting",
        "foreign",
        "generator",
        "recursion",
        "exceptions",
        "asynchronous",
        "names",
        "lines",
    ];
    let is_part = |sample: &Sample, part: &str| {
        // `pure` runs in threads as well.
        place(sample, "main", TRUTH)
            .is_some_and(|main| place(sample, part, TRUTH) == Some(main + 1))
    };
    let whole_ns: f64 = parts.iter().map(|part| told[*part]).sum();
    for part in parts {
        assert_part(
            &format!("{what}: {part}"),
            &samples,
            |sample| is_part(sample, part),
            |sample| parts.iter().any(|part| is_part(sample, part)),
            told[part] / whole_ns,
        );
    }
    let threads: f64 = ["left", "right"].iter().map(|name| told[*name]).sum();
    let is_of = |sample: &Sample, name: &str| {
        sample.thread == format!("{name} worker of the pool") && runs(sample, "pure")
    };
    for name in ["left", "right"] {
        assert_part(
            &format!("{what}: thread {name}"),
            &samples,
            |sample| is_of(sample, name),
            |sample| is_of(sample, "left") || is_of(sample, "right"),
            told[name] / threads,
        );
    }

    // The line of the innermost Python frame, which has it in the place of an address.
    let is_at = |sample: &Sample, line: i64| {
        let innermost = sample.stack.iter().rev().find(|frame| is_python(frame));
        innermost.is_some_and(|frame| {
            frame.function == format!("lines ({TRUTH})") && frame.address == line
        })
    };
    let lines: Vec<(i64, f64)> = told
        .iter()
        .filter_map(|(name, ns)| Some((name.strip_prefix("line ")?.parse().ok()?, *ns)))
        .collect();
    let both_ns: f64 = lines.iter().map(|(_, ns)| ns).sum();
    assert_eq!(lines.len(), 2, "{told:?}");
    for (line, ns) in &lines {
        let name = format!("{what}: line {line}");
        assert_part(
            &name,
            &samples,
            |sample| is_at(sample, *line),
            |sample| lines.iter().any(|(line, _)| is_at(sample, *line)),
            ns / both_ns,
        );
    }
    // A function's slice is not cut where its line changes.
    let timeline = trace.timeline()?;
    let name = format!("lines ({TRUTH})");
    let mut slices: Vec<&Slice> = timeline.iter().filter(|slice| slice.name == name).collect();
    slices.sort_by_key(|slice| slice.start_ns);
    assert!(!slices.is_empty(), "{what}");
    // Where the machine was busy, whole stacks are.
    let starts: HashSet<i64> = timeline
        .iter()
        .filter(|slice| slice.depth == 0)
        .map(|slice| slice.start_ns)
        .collect();
    for pair in slices.windows(2) {
        assert!(
            pair[0].end_ns() < pair[1].start_ns || starts.contains(&pair[1].start_ns),
            "{what}: {pair:?}"
        );
    }

    let python_function =
        |name: &'static str| move |frame: &Frame| frame.function.starts_with(&format!("{name} ("));
    let c_function = |part: &'static str| {
        move |frame: &Frame| !is_python(frame) && frame.function.contains(part)
    };
    assert_inside(&what, &samples, "native", c_function("crc32"), 0.9);
    assert_inside(&what, &samples, "sorting", python_function("slow_key"), 0.7);
    assert_inside(
        &what,
        &samples,
        "generator",
        python_function("squares"),
        0.8,
    );
    assert_inside(
        &what,
        &samples,
        "asynchronous",
        python_function("step"),
        0.5,
    );
    assert_inside(&what, &samples, "exceptions", python_function("risky"), 0.2);
    assert_inside(&what, &samples, "foreign", c_function("sort"), 0.6);
    assert_inside(&what, &samples, "foreign", python_function("compare"), 0.4);
    assert_inside(
        &what,
        &samples,
        "names",
        |frame| frame.function.ends_with("größe (python_truth.py)"),
        0.9,
    );
    // C calls Python back: between the two Python frames stands the C function. (But for two instructions of 3.11, before a function says
    // that C has called it, if its C stack holds something else from before.)
    let without: Vec<_> = samples
        .iter()
        .filter(|sample| {
            let both = place(sample, "foreign", TRUTH).zip(place(sample, "compare", TRUTH));
            both.is_some_and(|(outer, inner)| {
                !sample.stack[outer..inner].iter().any(c_function("sort"))
            })
        })
        .collect();
    assert!(
        without.len() <= 1,
        "{what}: {:?}",
        without
            .iter()
            .map(|sample| sample.names())
            .collect::<Vec<_>>()
    );
    let deepest = samples
        .iter()
        .map(|sample| {
            let is_fibonacci = |frame: &&Frame| frame.function == format!("fibonacci ({TRUTH})");
            sample.stack.iter().filter(is_fibonacci).count()
        })
        .max();
    assert!(
        (8..=15).contains(&deepest.unwrap_or(0)),
        "{what}: {deepest:?}"
    );

    // Nothing of the interpreter is to be seen where there is Python, but the start of the program.
    for sample in samples.iter() {
        let seen = sample
            .stack
            .iter()
            .skip(1)
            .find(|frame| is_interpreter(frame));
        assert!(
            seen.is_none() || !sample.stack.iter().any(is_python),
            "{what}: {seen:?} in {:?}",
            sample.names()
        );
    }
    assert_whole(&what, &trace, &samples)
}

/// Every Python stack could be read, and found its place.
fn assert_whole(what: &str, trace: &Trace, samples: &Samples) -> TestResult {
    let metadata = trace.metadata()?;
    let of = |key: &str| metadata.int(key);
    assert!(metadata.text("python")?.contains("CPython 3."), "{what}");
    assert_eq!(of("python_unknown_code_objects")?, 0, "{what}");
    assert_eq!(of("python_broken_stacks")?, 0, "{what}");
    assert!(of("python_code_objects")? > 5, "{what}");
    let unpaired = of("python_unpaired_frames")?;
    assert!(
        unpaired * 200 <= of("python_samples")?,
        "{what}: {unpaired}"
    );
    assert!(
        samples.rooted_share() >= 0.99,
        "{what}: {}",
        samples.unrooted_examples()
    );
    Ok(())
}

#[test]
fn functions_and_lines_get_their_shares() -> TestResult {
    let interpreters = pythons();
    assert!(!interpreters.is_empty());
    for interpreter in interpreters {
        truth(&interpreter)?;
    }
    Ok(())
}

/// With its JIT compiler on, an interpreter makes code that bears no name. It counts as the interpreter.
#[test]
fn code_that_the_interpreter_makes_is_its_own() -> TestResult {
    let is_made = |frame: &Frame| frame.function.starts_with("[code ");
    for minor in [14, 15] {
        let interpreter = unpacked(minor);
        skip_if_missing!(interpreter.as_ref().err().cloned());
        let interpreter = interpreter.map_err(anyhow::Error::msg)?;
        let what = interpreter.to_string();
        let run = |options: &[&str]| -> anyhow::Result<(Outcome, Samples)> {
            let parts = ["0.3", "pure", "sorting", "generator"];
            let command = interpreter.workload(TRUTH).args(parts);
            let command = command.env("PYTHON_JIT", "1");
            let run = Run::new().freq(1000).options(options).command(command);
            let outcome = run.run()?;
            outcome.expect_success();
            let trace = outcome.trace()?;
            trace.assert_clean();
            let samples = trace.samples()?;
            assert_whole(&what, &trace, &samples)?;
            Ok((outcome, samples))
        };
        let (outcome, samples) = run(&[])?;
        let told = told(&outcome);
        let parts = ["pure", "sorting", "generator"];
        let whole_ns: f64 = parts.iter().map(|part| told[*part]).sum();
        for part in parts {
            let name = format!("{what}: {part}");
            assert_part(
                &name,
                &samples,
                |sample| runs(sample, part),
                |sample| parts.iter().any(|part| runs(sample, part)),
                told[part] / whole_ns,
            );
        }
        let shown = weight(&samples, |sample| sample.stack.iter().any(is_made));
        assert_eq!(shown, 0.0, "{what}");

        let (_, native) = run(&["--python-native"])?;
        let made = native.share_where(|sample| sample.stack.iter().any(is_made));
        assert!(made > 0.2, "{what}: {made} of the samples are in made code");
    }
    Ok(())
}

/// C++ and Fortran below Python, and Python's own sort of arrays, in the newest versions.
#[test]
fn numpy_is_seen_below_the_newest_pythons() -> TestResult {
    for minor in [14, 15] {
        let interpreter = unpacked(minor);
        skip_if_missing!(interpreter.as_ref().err().cloned());
        let interpreter = interpreter.map_err(anyhow::Error::msg)?;
        let what = interpreter.to_string();
        // Nobody has chosen among the implementations that the tree could have.
        let libraries = ["", "/blas", "/lapack"];
        let libraries = libraries.map(|folder| format!("/usr/lib/x86_64-linux-gnu{folder}"));
        let path = format!("LD_LIBRARY_PATH={}", libraries.join(":"));
        let program = interpreter.workload_below(["/usr/bin/env", &path], "numpy_work.py");
        let bare = Run::bare().command(program.clone()).run()?;
        let outcome = Run::new().freq(1000).command(program).run()?;
        assert_eq!(
            outcome.expect_success().stdout,
            bare.expect_success().stdout,
            "{what}"
        );
        let trace = outcome.trace()?;
        trace.assert_clean();
        let samples = trace.samples()?;
        assert_whole(&what, &trace, &samples)?;
        let in_products = weight(&samples, |sample| sample.calls("products (numpy_work.py)"));
        let in_kernels = weight(&samples, |sample| {
            let names = sample.names();
            let outer = names.iter().position(|name| name.starts_with("products ("));
            outer.is_some_and(|outer| {
                let mut inner = sample.stack[outer + 1..].iter();
                inner.any(|frame| frame.module.contains("blas"))
            })
        });
        assert!(
            in_kernels > 0.2 * in_products && in_products > 100.0,
            "{what}: {in_kernels} of {in_products}"
        );
    }
    Ok(())
}

#[test]
fn the_user_chooses_what_is_seen() -> TestResult {
    let run = |options: &[&str]| -> anyhow::Result<Samples> {
        let command = python(TRUTH).args(["0.2", "sorting", "native"]);
        let run = Run::new().freq(1000).options(options).command(command);
        let outcome = run.run()?;
        outcome.expect_success();
        let trace = outcome.trace()?;
        trace.assert_clean();
        trace.samples()
    };
    let has = |samples: &Samples, holds: fn(&Frame) -> bool| {
        samples.share_where(|sample| sample.stack.iter().any(holds))
    };
    let evaluates: fn(&Frame) -> bool =
        |frame| frame.function.starts_with("_PyEval_EvalFrameDefault");

    let off = run(&["--python", "off"])?;
    assert_eq!(has(&off, is_python), 0.0);
    assert!(has(&off, evaluates) > 0.8);

    let only = run(&["--python=only"])?;
    assert!(has(&only, is_python) > 0.8);
    assert!(only.iter().all(|sample| {
        let nothing = sample.names() == ["[no Python]"];
        nothing || sample.stack.iter().all(is_python)
    }));
    let in_sorting = weight(&only, |sample| runs(sample, "sorting"));
    let in_key = weight(&only, |sample| runs(sample, "slow_key"));
    assert!(in_key > 0.7 * in_sorting && in_key > 100.0);

    let native = run(&["--python-native"])?;
    assert!(has(&native, is_python) > 0.8 && has(&native, evaluates) > 0.8);
    // A Python function stands inside of the interpreter's function that runs it.
    let mut keys = 0;
    for sample in native.iter() {
        if let Some(key) = place(sample, "slow_key", TRUTH) {
            let outer = place(sample, "sorting", TRUTH).unwrap_or(key);
            assert!(
                sample.stack[outer..key].iter().any(evaluates),
                "{:?}",
                sample.names()
            );
            keys += 1;
        }
    }
    assert!(keys > 100);
    Ok(())
}
