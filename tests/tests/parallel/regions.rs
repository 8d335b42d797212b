//! What programs say of themselves: by rsys.h, the Python and Fortran modules, and the original's interface.

use std::process::Command;

use rsys_tests::{
    Invocation, Outcome, Run, TestResult, Trace, Workload, missing_tool, python, run_plain,
    skip_if_missing, target_dir, workload, workspace_dir,
};

fn profiled(command: impl Into<Invocation>) -> anyhow::Result<Outcome> {
    Run::new().command(command).run()
}

/// How many slices of the program's own have a name.
fn slices(trace: &Trace, name: &str) -> anyhow::Result<i64> {
    trace.number(&format!(
        "select count(*) from slice where name = '{name}' and category = 'user'"
    ))
}

/// The value of an argument of the only slice with a name, as text.
fn value(trace: &Trace, name: &str, argument: &str) -> anyhow::Result<String> {
    let rows = trace.query(&format!(
        "select cast(extract_arg(arg_set_id, 'debug.{argument}') as text) as value from slice
         where name = '{name}' and category = 'user' limit 1"
    ))?;
    let cell = rows.single()?;
    Ok(cell.as_text().unwrap_or_default().to_owned())
}

fn values_of_counter(trace: &Trace, name: &str) -> anyhow::Result<Vec<f64>> {
    let rows = trace.query(&format!(
        "select c.value as value from counter c join track t on c.track_id = t.id where t.name = '{name}' order by c.ts"
    ))?;
    rows.iter().map(|row| row.float("value")).collect()
}

/// Position-independent or not, and in C++.
fn ways() -> [Workload; 3] {
    [
        workload("regions"),
        workload("regions").flags(["-O2", "-no-pie", "-fno-pie"]),
        workload("regions")
            .compiler("g++")
            .flags(["-O2", "-x", "c++"]),
    ]
}

#[test]
fn a_header_is_all_that_a_program_needs() -> TestResult {
    for program in ways() {
        let bare = run_plain(program.clone().args(["own"]))?;
        assert_eq!(bare.expect_success().number("recording")?, 0.0);
        let outcome = profiled(program.args(["own"]))?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let what = outcome.story();
        assert_eq!(outcome.number("recording")?, 1.0, "{what}");
        assert_eq!(slices(&trace, "inner")?, 3, "{what}");
        for (argument, expected) in [
            ("n", "-3"),
            ("big", "9223372036854775808"),
            ("loss", "0.25"),
            ("file", "a b"),
        ] {
            let found = value(&trace, "outer", argument)?;
            // 64 bits without a sign do not fit the engine's integers.
            assert!(
                found == expected || argument == "big",
                "{argument}: {found}, {what}"
            );
        }
        assert_eq!(
            values_of_counter(&trace, "queue")?,
            [0.5, 1.5, 2.5],
            "{what}"
        );
        let around = trace.query(
            "select parent.name as name from slice s join slice parent on s.parent_id = parent.id
             where s.name = 'a mark' and s.category = 'user'",
        )?;
        assert_eq!(around.single()?.as_text(), Some("outer"), "{what}");
        assert_eq!(slices(&trace, "from thread to thread")?, 1, "{what}");
        assert_eq!(slices(&trace, "in a pause")?, 0, "{what}");
        assert!(
            trace.thread_names()?.iter().any(|name| name == "finisher"),
            "{what}"
        );
        let track = trace.number(
            "select count(*) from slice s join thread_track t on s.track_id = t.id
             where t.name = 'regions' and s.name = 'outer'",
        )?;
        assert_eq!(track, 1, "{what}");
    }
    Ok(())
}

#[test]
fn the_interface_of_the_original_is_answered() -> TestResult {
    let outcome = profiled(workload("regions").args(["original"]))?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let what = outcome.story();
    for (name, expected) in [
        ("outer", 1),
        ("inner", 1),
        ("annotated", 1),
        ("step", 1),
        ("in a pause", 0),
    ] {
        assert_eq!(slices(&trace, name)?, expected, "{name}: {what}");
    }
    for (argument, expected) in [("tolerance", "0.5"), ("number", "-7"), ("text", "words")] {
        assert_eq!(value(&trace, "annotated", argument)?, expected, "{what}");
    }
    Ok(())
}

#[test]
fn a_child_has_its_own_regions() -> TestResult {
    let outcome = profiled(workload("regions").args(["fork"]))?;
    outcome.expect_success();
    let mut found = [0, 0];
    for trace in outcome.traces()? {
        trace.assert_clean();
        found[0] += slices(&trace, "before")?;
        found[1] += slices(&trace, "in the child")?;
    }
    assert_eq!(found, [1, 1], "{}", outcome.story());
    Ok(())
}

#[test]
fn excluded_regions_are_not_recorded() -> TestResult {
    let program = workload("regions").args(["own"]);
    let outcome = Run::new()
        .options(["-E", "regions"])
        .command(program)
        .run()?;
    assert_eq!(outcome.expect_success().number("recording")?, 0.0);
    let trace = outcome.trace()?;
    assert_eq!(slices(&trace, "outer")?, 0, "{}", outcome.story());
    Ok(())
}

#[test]
fn python_has_a_module() -> TestResult {
    let bare = run_plain(python("regions.py"))?;
    assert_eq!(bare.expect_success().number("recording")?, 0.0);
    let outcome = profiled(python("regions.py"))?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let what = outcome.story();
    assert_eq!(outcome.number("recording")?, 1.0, "{what}");
    for (name, expected) in [
        ("step", 1),
        ("decorated", 1),
        ("a mark", 1),
        ("progress", 1),
        ("raises", 1),
        ("in a pause", 0),
    ] {
        assert_eq!(slices(&trace, name)?, expected, "{name}: {what}");
    }
    let big = (1_u128 << 70).to_string();
    for (argument, expected) in [("n", "3"), ("loss", "0.25"), ("file", "a b"), ("big", &big)] {
        assert_eq!(value(&trace, "step", argument)?, expected, "{what}");
    }
    assert_eq!(values_of_counter(&trace, "queue")?, [1.5], "{what}");
    Ok(())
}

#[test]
fn fortran_has_a_module() -> TestResult {
    skip_if_missing!(missing_tool("gfortran"));
    let folder = target_dir().join("workloads/regions-fortran");
    std::fs::create_dir_all(&folder)?;
    let program = folder.join(format!("regions.{}", std::process::id()));
    let built = Command::new("gfortran")
        .current_dir(&folder)
        .arg("-O2")
        .arg(workspace_dir().join("user/fortran/rsys.f90"))
        .arg(workspace_dir().join("tests/workloads/regions_fortran.f90"))
        .arg("-o")
        .arg(&program)
        .args(["-ldl"])
        .output()?;
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let invocation = Invocation::new(&program);
    run_plain(invocation.clone())?.expect_success();
    let outcome = profiled(invocation)?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    for (name, expected) in [("outer", 1), ("inner", 1), ("a mark", 1), ("in a pause", 0)] {
        assert_eq!(
            slices(&trace, name)?,
            expected,
            "{name}: {}",
            outcome.story()
        );
    }
    assert_eq!(values_of_counter(&trace, "residual")?, [0.5]);
    Ok(())
}
