//! The tests of mpi4py, bare and with every call of MPI recorded.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use rsys_tests::{Invocation, Run, TestResult};

/// What hangs or fails without a profiler, too, in containers: processes that are started later, and asynchronous files.
const LEFT_OUT: [&str; 3] = ["spawn", "dynproc", "test_io"];

/// Each test with its result, in order of their names.
fn results(said: &str) -> Vec<String> {
    let lines = said.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" ... ")?;
        let result = rest.split_whitespace().next()?;
        name.starts_with("test")
            .then(|| format!("{name}: {result}"))
    });
    let mut results: Vec<String> = lines.collect();
    results.sort();
    results
}

#[test]
#[ignore = "needs the source of mpi4py"]
fn mpi4pys_own_tests_end_as_they_do_alone() -> TestResult {
    let source = std::env::var_os("RSYS_MPI4PY_SOURCE").context("RSYS_MPI4PY_SOURCE")?;
    let tests = PathBuf::from(source).join("test/runtests.py");
    ensure!(tests.is_file(), "no {}", tests.display());
    let program = || {
        let python = Invocation::new("/usr/bin/python3").arg(&tests);
        let left_out = LEFT_OUT.iter().flat_map(|name| ["-e", name]);
        python.args(["-v", "--no-builddir"]).args(left_out)
    };
    let run = |run: Run| {
        let run = run.timeout(Duration::from_secs(300));
        run.command(program()).run()
    };
    let bare = run(Run::bare())?;
    let expected = results(&bare.expect_success().stderr);
    let outcome = run(Run::new().options(["-I", "mpip"]))?;
    let found = results(&outcome.expect_success().stderr);
    println!("{} tests", found.len());
    ensure!(found.len() > 1000, "{} tests", found.len());
    let differing = found.iter().filter(|line| !expected.contains(line));
    let differing: Vec<&String> = differing.collect();
    ensure!(found == expected, "{differing:#?}");
    outcome.assert_counts()?;
    Ok(())
}
