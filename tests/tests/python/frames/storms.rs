//! Frames while everything moves.

use super::*;

/// The same result as without us, no crash, and only stacks that make sense, while everything moves.
#[test]
fn a_storm_changes_nothing() -> TestResult {
    for interpreter in pythons() {
        let storm = || interpreter.workload("python_storm.py").arg("8");
        let bare = Run::bare().command(storm()).run()?;
        let outcome = Run::new().freq(1000).command(storm()).run()?;
        let what = interpreter.to_string();
        assert_eq!(
            outcome.expect_success().stdout,
            bare.expect_success().stdout,
            "{what}"
        );
        let mut with_python = 0;
        for trace in outcome.traces()? {
            trace.assert_clean();
            let metadata = trace.metadata()?;
            // A child may end before its first tick.
            let Ok(broken) = metadata.int("python_broken_stacks") else {
                continue;
            };
            with_python += 1;
            assert_eq!(broken, 0, "{what}");
            assert_eq!(metadata.int("python_unknown_code_objects")?, 0, "{what}");
            for sample in trace.samples()?.iter() {
                check_order(&what, sample);
            }
        }
        assert!(with_python > 0, "{what}");
    }
    Ok(())
}

/// A hundred runs, spread over the interpreters: the same output as without us, no crash, no stack that could not be read.
#[test]
#[ignore = "takes minutes"]
fn a_hundred_storms_change_nothing() -> TestResult {
    let interpreters = pythons();
    let mut expected = HashMap::new();
    for interpreter in interpreters.iter().cycle().take(100) {
        let storm = || interpreter.workload("python_storm.py").arg("4");
        let what = interpreter.to_string();
        if !expected.contains_key(&what) {
            let bare = Run::bare().command(storm()).run()?;
            expected.insert(what.clone(), bare.expect_success().stdout.clone());
        }
        let outcome = Run::new().freq(1000).command(storm()).run()?;
        let said = &outcome.expect_success().stdout;
        assert_eq!(Some(said), expected.get(&what), "{what}");
        outcome.assert_counts()?;
    }
    Ok(())
}

/// What calls what in the storm is known: whoever stands on a stack has its caller outside of it.
fn check_order(what: &str, sample: &Sample) {
    let callers = [
        ("descend", "throw"),
        ("delegate", "generate"),
        ("leaf", "coroutines"),
        ("key", "call_back"),
        ("tree", "coroutines"),
    ];
    for (inner, outer) in callers {
        let file = "python_storm.py";
        if let Some(at) = place(sample, inner, file) {
            assert!(
                place(sample, outer, file).is_some_and(|outer| outer < at),
                "{what}: {:?}",
                sample.names()
            );
        }
    }
}
