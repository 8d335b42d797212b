//! CPython's own tests of signals, threads and children, bare and under each engine: the same tests pass, fail and are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rsys_tests::{Invocation, Run, Scratch, TestResult, missing_python_module, skip_if_missing};

const FILES: [&str; 8] = [
    "test_signal",
    "test_threadsignals",
    "test_threading",
    "test_thread",
    "test_subprocess",
    "test_faulthandler",
    "test_epoll",
    "test_eintr",
];

/// What mostly sleeps, and has others beside it that find the same; a third of all tests, and two thirds of their time.
const SLOW: [&str; 6] = [
    "*SiginterruptTest*",
    "*dump_traceback_later_*",
    "*NoPoll*",
    "*check_output_timeout",
    "*repeated_call*",
    "*PyRLock*",
];

/// Counts every descriptor that a child has, up to the limit. Above the kernel's tick one of them is the clock's (README, "Questions").
const COUNTS_DESCRIPTORS: &str = "*test_pass_fds_redirected";

const ENGINES: [&str; 3] = ["cfi", "framehop", "fp"];

/// What became of each test: the names of the elements in its report.
type Results = BTreeMap<String, Vec<String>>;

fn tests(report: &Path, ignored: &[&str]) -> Invocation {
    let mut words = Invocation::new("/usr/bin/python3")
        .args(["-m", "test", "--junit-xml"])
        .arg(report);
    for pattern in ignored.iter().chain([&COUNTS_DESCRIPTORS]) {
        words = words.args(["--ignore", pattern]);
    }
    words.args(FILES)
}

fn results(report: &Path) -> Result<Results> {
    let text =
        fs::read_to_string(report).context("no report: the tests did not come to their end")?;
    let document = roxmltree::Document::parse(&text)?;
    let result = |case: roxmltree::Node<'_, '_>| {
        let children = case.children().filter(roxmltree::Node::is_element);
        let what = children.map(|child| child.tag_name().name().to_owned());
        // What a test that failed had printed.
        let what = what.filter(|name| !name.starts_with("system-"));
        Some((case.attribute("name")?.to_owned(), what.collect()))
    };
    let cases = document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"));
    Ok(cases.filter_map(result).collect())
}

/// All runs go on beside one another: their tests mostly wait.
fn compare(ignored: &[&str]) -> TestResult {
    skip_if_missing!(missing_python_module("test.test_signal"));
    let scratch = Scratch::new("cpython")?;
    let report = |name: &str| scratch.path().join(format!("{name}.xml"));
    let bare = Run::bare()
        .command(tests(&report("bare"), ignored))
        .start()?;
    let profiled = ENGINES.map(|engine| {
        Run::new()
            .options([
                "-f",
                "1000",
                "--realtime",
                "--off-cpu",
                "--unwinder",
                engine,
            ])
            .command(tests(&report(engine), ignored))
            .start()
    });
    let bare_end = bare.wait()?;
    let bare = results(&report("bare"))?;
    ensure!(
        bare.len() > 300,
        "only {} tests ran\n{}",
        bare.len(),
        bare_end.story()
    );
    let mut different = Vec::new();
    for (engine, running) in ENGINES.iter().zip(profiled) {
        let outcome = running?.wait()?;
        let results = results(&report(engine)).with_context(|| outcome.story())?;
        let names: BTreeSet<_> = bare.keys().chain(results.keys()).collect();
        let differs = |name: &&&String| bare.get(**name) != results.get(**name);
        let differing: Vec<_> = names.iter().filter(differs).collect();
        for name in &differing {
            different.push(format!(
                "{engine}: {name}: {:?}, bare {:?}",
                results.get(**name),
                bare.get(**name)
            ));
        }
        if !differing.is_empty() || outcome.status != bare_end.status {
            different.push(format!("{engine}: {}", outcome.story()));
        }
    }
    ensure!(different.is_empty(), "{}", different.join("\n"));
    Ok(())
}

#[test]
fn cpythons_own_tests_pass_as_bare() -> TestResult {
    compare(&SLOW)
}

#[test]
#[ignore = "takes three minutes"]
fn all_of_cpythons_own_tests_pass_as_bare() -> TestResult {
    compare(&[])
}
