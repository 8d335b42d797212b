//! Processes and interpreters that come later, or that are others.

use super::*;

#[test]
fn children_by_fork_and_spawn_have_their_functions() -> TestResult {
    let outcome = Run::new()
        .freq(500)
        .command(python("python_children.py").arg("0.4"))
        .run()?;
    outcome.expect_success();
    assert_eq!(
        (outcome.number("fork")?, outcome.number("spawn")?),
        (0.0, 0.0)
    );
    for function in ["by_fork", "by_spawn"] {
        let name = format!("{function} (python_children.py)");
        let mut found = 0;
        for trace in outcome.traces()? {
            let samples = trace.samples()?;
            let share = samples.share_where(|sample| {
                let names = sample.names();
                names.contains(&name.as_str()) && names.contains(&"burn (python_children.py)")
            });
            if share > 0.0 {
                found += 1;
                assert!(share > 0.4, "{name}: {share}");
                // What the parent had called is none of the child's.
                let of_parent = samples.share_where(|sample| {
                    let names = sample.names();
                    names.contains(&name.as_str()) && names.contains(&"main (python_children.py)")
                });
                assert!(of_parent == 0.0, "{name}: {of_parent}");
                assert_whole(&name, &trace, &samples)?;
            }
        }
        assert_eq!(found, 1, "{name}\n{}", outcome.story());
    }
    Ok(())
}

#[test]
fn an_interpreter_that_is_opened_late_is_found() -> TestResult {
    let script = "
import time
def work():
    end = time.thread_time() + 0.03
    while time.thread_time() < end:
        sum(range(1000))
[work() for _ in range(10)]
";
    let mut tried = 0;
    for interpreter in pythons() {
        let Some(library) = interpreter.library() else {
            continue;
        };
        tried += 1;
        let command: Invocation = workload("embedded")
            .args([library.as_os_str(), script.as_ref(), "2".as_ref()])
            .into();
        let command = interpreter.beside(command.env("PYTHONHOME", interpreter.home()));
        let outcome = Run::new().freq(1000).command(command).run()?;
        let what = library.display().to_string();
        outcome.expect_success();
        let trace = outcome.trace()?;
        trace.assert_clean();
        let samples = trace.samples()?;
        assert_whole(&what, &trace, &samples)?;
        let in_work = |thread_is_main: bool| {
            weight(&samples, |sample| {
                let names = sample.names();
                (sample.tid == i64::from(outcome.summaries[0].pid)) == thread_is_main
                    && names.contains(&"work (<string>)")
            })
        };
        // Twice 0.3 s, the second time in an interpreter that was started anew.
        assert!(in_work(true) > 400.0, "{what}: {}", in_work(true));
        // On a thread of the program's own, each call begins and ends a Python thread state.
        assert!(in_work(false) > 400.0, "{what}: {}", in_work(false));
        let main = samples.iter().filter(|sample| sample.calls("main"));
        assert!(main.count() > 50, "{what}: the program itself is in sight");
    }
    if tried == 0 {
        rsys_tests::skip_if_missing!(Some("no shared library of a Python".to_owned()));
    }
    Ok(())
}

#[test]
fn an_unknown_version_is_told() -> TestResult {
    let outcome = Run::new()
        .options(["-v"])
        .command(workload("newpython"))
        .run()?;
    outcome.expect_success();
    let trace = outcome.trace()?;
    trace.assert_clean();
    assert!(
        outcome.stderr.contains("CPython 3.99.1 is not understood"),
        "{}",
        outcome.story()
    );
    let metadata = trace.metadata()?;
    assert_eq!(metadata.text("python")?, "CPython 3.99.1");
    assert!(metadata.text("notes")?.contains("not understood"));
    assert_eq!(metadata.int("python_samples")?, 0);
    assert!(trace.shares()?.total_share("evaluate") > 0.9);
    Ok(())
}

#[test]
fn another_interpreter_of_the_process_is_flagged() -> TestResult {
    for interpreter in pythons() {
        let outcome = Run::new()
            .freq(1000)
            .command(interpreter.workload("python_inside.py"))
            .run()?;
        outcome.expect_success();
        let what = interpreter.to_string();
        if outcome.number("subinterpreter")? == 0.0 {
            println!("{what} has no module for it");
            continue;
        }
        let trace = outcome.trace()?;
        trace.assert_clean();
        let samples = trace.samples()?;
        let inner = weight(&samples, |sample| {
            // Of `<string>`, or from 3.14 on of `<script>`.
            let names = sample.names();
            names.iter().any(|name| name.starts_with("inner (<"))
        });
        let flagged = trace.metadata()?.int("python_subinterpreter_samples")?;
        assert!(inner > 200.0 && flagged > 200, "{what}: {inner}, {flagged}");
    }
    Ok(())
}

/// Frames of an interpreter stand inside of the native code that runs it, which stands inside of the frames of the interpreter that called it: on the thread that
/// made it, on another one, one in the other, and in a pool of threads; of threads that work and of those that wait.
#[test]
fn frames_of_other_interpreters_are_innermost() -> TestResult {
    for interpreter in pythons() {
        let what = interpreter.to_string();
        let outcome = Run::new()
            .freq(1000)
            .options(["--realtime"])
            .command(interpreter.workload("python_nested.py"))
            .run()?;
        outcome.expect_success();
        // What enters a file tree has a trace of its waits, too.
        let is_python = |trace: &Trace| {
            trace
                .metadata()
                .is_ok_and(|metadata| metadata.int("python_samples").is_ok())
        };
        let traces = outcome.traces()?;
        let Some(trace) = traces.iter().find(|trace| is_python(trace)) else {
            panic!("{what}: no trace\n{}", outcome.story());
        };
        trace.assert_clean();
        let (samples, waits) = (trace.samples()?, trace.wait_samples()?);
        for case in outcome
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("case="))
        {
            let function = |part: &str| format!("{part}_{case}");
            // Outermost first: what called the interpreter, and what it runs.
            let outer = match case {
                "thread" => "outer_thread.<locals>.work".to_owned(),
                "pool" => "_worker".to_owned(),
                _ => function("outer"),
            };
            // Before 3.11 functions are named without what they are in.
            let is_outer = |name: &str| {
                name.starts_with(&outer) || (case == "thread" && name.starts_with("work ("))
            };
            let (middle, inner) = (function("middle"), function("inner"));
            let judged = |names: &[&str], last: &str| {
                let place = |is: &dyn Fn(&str) -> bool| names.iter().position(|name| is(name));
                let native = |name: &str| {
                    name.contains("_run_") || name.contains("interp_") || name.contains("_exec")
                };
                let inmost = place(&|name| name.starts_with(last));
                let chain = [
                    place(&is_outer),
                    // Debian's have no names for them.
                    place(&native)
                        .or_else(|| what.starts_with("/usr/").then(|| place(&is_outer))?),
                    place(&|name| name.starts_with(&middle)),
                    inmost,
                ];
                (
                    inmost.is_some(),
                    chain.is_sorted() && chain.iter().all(Option::is_some),
                )
            };
            // Samples at 1000 Hz, and seconds.
            for (samples, last, least) in [(&samples, &inner, 200.0), (&waits, &middle, 0.2)] {
                let (mut all, mut right) = (0.0, 0.0);
                for sample in samples.iter() {
                    let names = sample.names();
                    let (is_of_it, is_right) = judged(&names, last);
                    all += if is_of_it { sample.weight } else { 0.0 };
                    right += if is_right { sample.weight } else { 0.0 };
                }
                assert!(
                    all > least && right > 0.97 * all,
                    "{what}: {case}: {last}: {right} of {all}"
                );
            }
        }
    }
    Ok(())
}
