//! ITT and NVTX: what programs say of themselves by the interfaces of Intel's and NVIDIA's tools, by these tools' own code in modules of Python.

use rsys_tests::{
    Invocation, Outcome, Run, TestResult, Trace, judge_dir, missing_python_module, python,
    skip_if_missing, workload,
};

/// How many names each program makes up, beside the others.
const NAMES: &str = "300";

fn missing_modules() -> Option<String> {
    let folder = judge_dir().join("markers");
    (!folder.is_dir()).then(|| format!("no modules of Python in {}", folder.display()))
}

fn program(name: &str) -> Invocation {
    python(name)
        .arg(NAMES)
        .env("PYTHONPATH", judge_dir().join("markers"))
}

fn profiled(backends: &[&str], command: impl Into<Invocation>) -> anyhow::Result<Outcome> {
    Run::new()
        .options(["-I"])
        .options(backends)
        .command(command)
        .run()
}

fn count(trace: &Trace, condition: &str) -> anyhow::Result<i64> {
    trace.number(&format!("select count(*) from slice where {condition}"))
}

#[test]
fn tasks_of_itt_are_ranges() -> TestResult {
    skip_if_missing!(missing_modules().or_else(|| missing_python_module("ctypes")));
    let outcome = profiled(&["itt"], program("says_itt.py"))?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let what = outcome.story();
    assert_eq!(outcome.stdout.trim(), "done");
    let in_domain = "category = 'itt' and extract_arg(arg_set_id, 'debug.domain') = 'tests.itt'";
    assert_eq!(
        count(&trace, &format!("{in_domain} and name = 'step'"))?,
        30,
        "{what}"
    );
    let nested = "name = 'step' and depth = (select min(depth) from slice where name = 'step') + 2";
    assert_eq!(count(&trace, nested)?, 10, "{what}");
    let others = format!("{in_domain} and name glob 'name *'");
    assert_eq!(count(&trace, &others)?, 300, "{what}");
    assert_eq!(
        count(&trace, &format!("{in_domain} and name = 'in a thread'"))?,
        1,
        "{what}"
    );
    let overlapping =
        "select count(*) from slice a join slice b where a.name = 'first' and b.name = 'second'
                       and a.ts <= b.ts and b.ts <= a.ts + a.dur and a.ts + a.dur <= b.ts + b.dur";
    assert_eq!(trace.number(overlapping)?, 1, "{what}");
    assert_eq!(count(&trace, "name = 'in a pause'")?, 0, "{what}");
    assert_eq!(
        trace.number("select count(*) from thread where name = 'named by itt'")?,
        1,
        "{what}"
    );
    Ok(())
}

#[test]
fn ranges_of_nvtx_are_ranges() -> TestResult {
    skip_if_missing!(missing_modules().or_else(|| missing_python_module("ctypes")));
    let outcome = profiled(&["nvtx"], program("says_nvtx.py"))?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let what = outcome.story();
    assert_eq!(outcome.stdout.trim(), "done");
    let steps = "category = 'nvtx' and name = 'step' and extract_arg(arg_set_id, 'debug.domain') = 'tests.nvtx'
                 and extract_arg(arg_set_id, 'debug.payload') = 17";
    assert_eq!(count(&trace, steps)?, 30, "{what}");
    let plain = "name = 'without a domain' and extract_arg(arg_set_id, 'debug.payload') = 2.5";
    assert_eq!(count(&trace, plain)?, 1, "{what}");
    assert_eq!(
        count(&trace, "category = 'nvtx' and name = 'now' and dur = 0")?,
        1,
        "{what}"
    );
    assert_eq!(
        count(&trace, "category = 'nvtx' and name glob 'name *'")?,
        300,
        "{what}"
    );
    for name in ["first", "second", "in a thread"] {
        assert_eq!(
            count(&trace, &format!("category = 'nvtx' and name = '{name}'"))?,
            1,
            "{name}: {what}"
        );
    }
    Ok(())
}

#[test]
fn every_form_of_nvtx_is_answered() -> TestResult {
    let program = || workload("nvtx_plain").flags(["-O1", "-ldl"]);
    let outcome = profiled(&["nvtx"], program())?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let what = outcome.story();
    // Levels count from 0; a pop says how many are open then.
    assert!(outcome.stdout.contains("levels="), "{what}");
    for (name, times) in [
        ("ascii", 1),
        ("gr\u{fc}n", 1),
        ("wide message", 1),
        ("negative", 1),
        ("registered", 5),
        ("one", 1),
        ("two", 1),
    ] {
        let condition = format!("category = 'nvtx' and name = '{name}'");
        assert_eq!(count(&trace, &condition)?, times, "{name}: {what}");
    }
    let payload = |name: &str, value: &str| {
        format!("name = '{name}' and extract_arg(arg_set_id, 'debug.payload') = {value}")
    };
    assert_eq!(count(&trace, &payload("wide message", "0.5"))?, 1, "{what}");
    assert_eq!(count(&trace, &payload("negative", "-7"))?, 1, "{what}");
    let named = "select count(*) from thread where name = 'named by nvtx'";
    assert_eq!(trace.number(named)?, 1, "{what}");
    // Who does not ask for it gets nothing: the program finds no tool.
    let outcome = profiled(&["itt"], program())?;
    assert_eq!(outcome.expect_success().stdout.trim(), "no tool");
    Ok(())
}

/// The slot of another tool stays its own.
#[test]
fn a_tool_that_the_user_has_chosen_is_left_alone() -> TestResult {
    let run = Run::new()
        .options(["-I", "nvtx"])
        .env("NVTX_INJECTION64_PATH", "/nowhere/libtheirs.so");
    let outcome = run
        .command(workload("nvtx_plain").flags(["-O1", "-ldl"]))
        .run()?;
    assert_eq!(outcome.expect_success().stdout.trim(), "no tool");
    let warning = "NVTX_INJECTION64_PATH names /nowhere/libtheirs.so";
    assert!(outcome.stderr.contains(warning), "{}", outcome.story());
    Ok(())
}
