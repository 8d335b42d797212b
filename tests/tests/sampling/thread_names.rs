//! Names of threads.

use std::collections::BTreeSet;

use rsys_tests::{Run, Summary, TestResult, Trace, script, workload};

/// A process that is over before the sampler looks at names.
#[test]
fn threads_of_short_processes_have_their_names() -> TestResult {
    let program = workload("named").build()?;
    let line = format!("for n in 1 2 3 4 5 6; do {}; done", program.display());
    let outcome = Run::new()
        .options(["-f", "1000", "--clock", "timer"])
        .command(script(&line))
        .run()?;
    outcome.expect_success();
    let named: Vec<Summary> = outcome
        .summaries
        .iter()
        .filter(|summary| summary.name == "named")
        .cloned()
        .collect();
    assert_eq!(named.len(), 6, "{}", outcome.story());
    let mut all = BTreeSet::new();
    for summary in named {
        let names = Trace::load(&summary.path.clone(), Some(summary))?.thread_names()?;
        // Whoever ends properly has at least a sample for the time since its last tick.
        for name in ["named-ends", "named-last"] {
            assert!(names.iter().any(|found| found == name), "{names:?}");
        }
        all.extend(names);
    }
    let expected = ["named", "named-ends", "named-last", "named-stays"];
    assert_eq!(all, BTreeSet::from(expected.map(str::to_owned)));
    Ok(())
}
