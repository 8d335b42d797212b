//! Programs in C and C++: functions, lines, states, who holds what is waited for.

use rsys_tests::{TestResult, wait_until, workload};

use super::super::PATIENCE;
use super::{Still, dump, dumped, frames, thread, threads};

#[test]
fn a_thread_that_sleeps_is_at_its_line() -> TestResult {
    let program = Still::start(&["naps"])?;
    let process = dumped(program.pid)?;
    let naps = thread(&process, "naps")?;
    assert_eq!(naps["state"], "asleep", "{naps:#}");
    assert_eq!(naps["waits_for"], "pause", "{naps:#}");
    assert_eq!(naps["stack"], "complete", "{naps:#}");
    let line = program.number("naps_line")?;
    let stack = frames(naps);
    let here = stack.iter().position(|frame| *frame == ("naps_here", line));
    let here = here.unwrap_or_else(|| panic!("line {line}: {naps:#}"));
    assert_eq!(stack[here + 1].0, "naps", "{naps:#}");
    assert_eq!(threads(&process)[0]["tid"], program.pid);
    program.end()
}

/// It is stopped for a moment, with all that its registers say.
#[test]
fn a_thread_that_computes_is_in_its_function() -> TestResult {
    let program = Still::start(&["spins"])?;
    for _ in 0..20 {
        let mut process = dumped(program.pid)?;
        // A thread that gets no processor for long cannot stop in time: then it is said so, and there is no stack.
        let has_stack = wait_until(PATIENCE, || {
            let busy = thread(&process, "spins").is_ok_and(|spins| {
                let why = spins["no_stack_because"].as_str();
                why.is_some_and(|why| why.contains("it works in the kernel"))
            });
            if busy && let Ok(again) = dumped(program.pid) {
                process = again;
            }
            !busy
        });
        assert!(has_stack, "{process:#}");
        let spins = thread(&process, "spins")?;
        let state = spins["state"].as_str().unwrap_or_default();
        assert!(["running", "runnable"].contains(&state), "{spins:#}");
        let stack = frames(spins);
        assert_eq!(stack[0].0, "spins_here", "{spins:#}");
        assert_eq!(stack[1].0, "spins", "{spins:#}");
        assert_eq!(spins["stack"], "complete", "{spins:#}");
        assert_eq!(spins["waits_for"], serde_json::Value::Null);
        assert!(spins["cpu_seconds"].as_f64() > Some(0.0), "{spins:#}");
    }
    program.end()
}

#[test]
fn the_holder_of_a_mutex_and_the_end_of_a_thread_are_named() -> TestResult {
    let program = Still::start(&["mutex", "joins"])?;
    let process = dumped(program.pid)?;
    for (waiting, other, of) in [
        ("wants", "holds", "mutex"),
        ("joins", "awaited", "end_of_thread"),
    ] {
        let waiting = thread(&process, waiting)?;
        let told = &waiting["waits_for_thread"];
        assert_eq!(told["name"], other, "{waiting:#}");
        assert_eq!(told["tid"], thread(&process, other)?["tid"], "{waiting:#}");
        assert_eq!(told["of"], of, "{waiting:#}");
    }
    let line = program.number("wants_line")?;
    let stack = frames(thread(&process, "wants")?);
    assert!(stack.contains(&("wants_here", line)), "{stack:?}");
    let text = String::from_utf8(dump(&[&program.pid.to_string()])?.stdout)?;
    assert!(text.contains("a mutex held by thread"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a file: {text}");
    program.end()
}

/// Threads with one stack are one paragraph.
#[test]
fn a_thousand_threads_are_all_there_and_one_paragraph() -> TestResult {
    let program = Still::start(&["pool=1000", "naps"])?;
    let process = dumped(program.pid)?;
    let pool = threads(&process)
        .iter()
        .filter(|thread| thread["name"] == "pool");
    let there = pool.clone().count();
    assert_eq!(there, 1000);
    for thread in pool {
        let stack = frames(thread);
        assert!(
            stack.iter().any(|frame| frame.0 == "idles_here"),
            "{thread:#}"
        );
    }
    let text = String::from_utf8(dump(&[&program.pid.to_string()])?.stdout)?;
    assert!(text.contains("\n1000 threads: asleep in futex"), "{text}");
    assert_eq!(text.matches("idles_here").count(), 1, "{text}");
    program.end()
}

#[test]
fn names_of_cpp_are_readable_and_inlined_functions_are_there() -> TestResult {
    let program = workload("dumped_names").flags(["-O2", "-g"]);
    let program = Still::of(program.args::<&str>([]))?;
    let waits = || -> anyhow::Result<bool> {
        let process = dumped(program.pid)?;
        Ok(threads(&process)[0]["waits_for"] == "rt_sigtimedwait")
    };
    assert!(wait_until(PATIENCE, || waits().unwrap_or(false)));
    let process = dumped(program.pid)?;
    let stack = frames(&threads(&process)[0]);
    for name in ["shop::Box<int>::waits", "inlined_here", "outlined_here"] {
        let is_there = stack
            .iter()
            .any(|frame| frame.0.contains(name) && frame.1 > 0);
        assert!(is_there, "{name}: {stack:?}");
    }
    program.end()
}
