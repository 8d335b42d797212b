//! CPython's own tests of signals, threads and children, bare and under each engine: the same tests pass, fail and are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, missing_python_module, skip_if_missing,
};

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

/// Counts every descriptor that a child has, up to the limit. Above the kernel's tick one of them is the clock's (docs/questions.md).
const COUNTS_DESCRIPTORS: &str = "*test_pass_fds_redirected";

const ENGINES: [&str; 3] = ["cfi", "framehop", "fp"];

/// What became of each test: the names of the elements in its report.
type Results = BTreeMap<String, Vec<String>>;

/// All tests but the ignored ones, or only those that are chosen, if any are.
fn tests(report: &Path, ignored: &[&str], chosen: &BTreeSet<String>) -> Invocation {
    let mut words = Invocation::new("/usr/bin/python3")
        .args(["-m", "test", "--junit-xml"])
        .arg(report);
    for name in chosen {
        words = words.arg("-m").arg(pattern(name));
    }
    for pattern in ignored.iter().chain([&COUNTS_DESCRIPTORS]) {
        words = words.args(["--ignore", pattern]);
    }
    words.args(FILES)
}

/// What chooses the test that has this name in the report: a part of a test or what comes before a class is chosen with the whole.
fn pattern(name: &str) -> String {
    match name.split_once(" (") {
        // `test.test_x.Class.test_y (i=1)`
        Some((test, _)) if test.contains('.') => test.to_owned(),
        // `setUpClass (test.test_x.Class)`
        Some((_, class)) => format!("{}.*", class.trim_end_matches(')')),
        None => name.to_owned(),
    }
}

fn profiled(engine: &str) -> Run {
    let options = ["-f", "1000", "--realtime", "--off-cpu"];
    Run::new().options(options).options(["--unwinder", engine])
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

/// The tests that end otherwise in one report than in the other.
fn differing(one: &Results, other: &Results) -> BTreeSet<String> {
    let names = one.keys().chain(other.keys());
    let differs = |name: &&String| one.get(*name) != other.get(*name);
    names.filter(differs).cloned().collect()
}

/// Of the tests that ended otherwise than bare beside many others, says which do so in each of three runs with nothing beside them. A test that judges
/// moments fails now and then where it has to wait for a processor, bare too.
fn always_differing(
    engine: &str,
    ignored: &[&str],
    scratch: &Scratch,
    bare: &Results,
    first: &Results,
) -> Result<Vec<String>> {
    let mut left = differing(bare, first);
    for round in 0..3 {
        if left.is_empty() {
            break;
        }
        let again = |run: Run, what: &str| -> Result<(Outcome, Results)> {
            let report = scratch.path().join(format!("{engine}-{what}-{round}.xml"));
            let outcome = run.command(tests(&report, ignored, &left)).run()?;
            let results = results(&report).with_context(|| outcome.story())?;
            Ok((outcome, results))
        };
        let (bare_end, bare_again) = again(Run::bare(), "bare")?;
        let (end, found) = again(profiled(engine), "profiled")?;
        ensure!(
            end.status == bare_end.status || !differing(&bare_again, &found).is_empty(),
            "{engine}: another end, with the same results: {}",
            end.story()
        );
        // Neither does it end as a bare one did, nor a bare one as it did before.
        left.retain(|name| {
            let found = found.get(name);
            let again = bare_again.get(name);
            found != bare.get(name) && found != again && first.get(name) != again
        });
        println!("{engine}: without others, round {round}: {left:?}");
    }
    let told = left.iter().map(|name| {
        format!(
            "{engine}: {name}: {:?}, bare {:?}",
            first.get(name),
            bare.get(name)
        )
    });
    Ok(told.collect())
}

/// All runs go on beside one another: their tests mostly wait.
fn compare(ignored: &[&str]) -> TestResult {
    skip_if_missing!(missing_python_module("test.test_signal"));
    let scratch = Scratch::new("cpython")?;
    let report = |name: &str| scratch.path().join(format!("{name}.xml"));
    let all = |name: &str| tests(&report(name), ignored, &BTreeSet::new());
    let bare = Run::bare().command(all("bare")).start()?;
    let running = ENGINES.map(|engine| profiled(engine).command(all(engine)).start());
    let bare_end = bare.wait()?;
    let bare = results(&report("bare"))?;
    ensure!(
        bare.len() > 300,
        "only {} tests ran\n{}",
        bare.len(),
        bare_end.story()
    );
    // To their ends, before any is run without others.
    let mut firsts = Vec::new();
    for (engine, running) in ENGINES.into_iter().zip(running) {
        let outcome = running?.wait()?;
        let results = results(&report(engine)).with_context(|| outcome.story())?;
        firsts.push((engine, outcome, results));
    }
    let mut different = Vec::new();
    for (engine, outcome, first) in firsts {
        let told = always_differing(engine, ignored, &scratch, &bare, &first)?;
        let is_other_end = outcome.status != bare_end.status && differing(&bare, &first).is_empty();
        if !told.is_empty() || is_other_end {
            different.extend(told);
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
