//! Programs of run-time systems whose code has no unwind tables: a stack is whole or says where it is not, and none ends by mistake.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use rsys_tests::{
    Invocation, Outcome, Run, Sample, Samples, Scratch, THREAD_ROOTS, TestResult, Trace,
    language_source, missing_tool, skip_if_missing,
};

/// What share of the stacks must be whole, or say that they are not.
const WHOLE_OR_MARKED: f64 = 0.95;

fn run(program: Invocation, unwinder: &str) -> anyhow::Result<Outcome> {
    let outcome = Run::new()
        .freq(1000)
        .options(["--unwinder", unwinder])
        .command(program)
        .run()?;
    assert!(
        outcome.expect_success().stdout.contains("done"),
        "{}",
        outcome.story()
    );
    Ok(outcome)
}

/// The samples of the process with the most: launchers start others.
fn samples(outcome: &Outcome) -> anyhow::Result<Samples> {
    let largest = outcome.summaries.iter().max_by_key(|one| one.samples);
    let trace = Trace::load(&largest.context("no trace")?.path, largest.cloned())?;
    trace.assert_clean();
    trace.samples()
}

fn is_marked(sample: &Sample) -> bool {
    ["[scanned]", "[broken]", "[truncated]"]
        .iter()
        .any(|mark| sample.calls(mark))
}

/// Asserts that no stack ends anywhere but at a root, where it does not say so, and says what share is whole.
#[track_caller]
fn assert_honest(samples: &Samples, roots: &[&str], what: &str) -> f64 {
    assert!(samples.count() > 100, "{what}: {}", samples.count());
    let is_root = |sample: &Sample| {
        let root = sample.stack.first().map(|frame| frame.function.as_str());
        root.is_some_and(|root| THREAD_ROOTS.contains(&root) || roots.contains(&root))
    };
    let ends = |sample: &Sample| {
        is_root(sample)
            || ["[broken]", "[truncated]"].contains(sample.names().first().unwrap_or(&""))
    };
    let astray: Vec<_> = samples.iter().filter(|sample| !ends(sample)).collect();
    assert!(
        astray.is_empty(),
        "{what}: {} stacks have no root: {:?}",
        astray.len(),
        astray
            .iter()
            .take(3)
            .map(|one| one.names())
            .collect::<Vec<_>>()
    );
    let whole = samples.share_where(|sample| is_root(sample) && !is_marked(sample));
    let honest = samples.share_where(|sample| is_root(sample) || is_marked(sample));
    println!(
        "{what}: {:.1} % of {} stacks are whole, {:.1} % whole or marked",
        100.0 * whole,
        samples.count(),
        100.0 * honest
    );
    assert!(honest >= WHOLE_OR_MARKED, "{what}: {honest}");
    whole
}

/// Code without a name is one function for each mapping.
#[track_caller]
fn assert_few_names(samples: &Samples, what: &str) {
    let mut names: Vec<&str> = samples
        .iter()
        .flat_map(Sample::names)
        .filter(|name| name.starts_with("[code ") || name.starts_with("[unknown"))
        .collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() <= 40, "{what}: {names:?}");
}

/// The compiled program for Java, in a folder of its own.
fn java_program(folder: &Path) -> anyhow::Result<()> {
    let status = Command::new("javac")
        .arg("-d")
        .args([folder, &language_source("Busy.java")])
        .status()?;
    anyhow::ensure!(status.success(), "javac: {status}");
    Ok(())
}

fn java(folder: &Path, options: &[&str], seconds: &str) -> Invocation {
    Invocation::new("java")
        .args(options)
        .arg("-Xmx256m")
        .arg("-cp")
        .arg(folder)
        .args(["Busy", seconds, "2"])
}

#[test]
fn java_interpreted_is_whole() -> TestResult {
    skip_if_missing!(missing_tool("javac"));
    let folder = Scratch::new("java")?;
    java_program(folder.path())?;
    for unwinder in ["cfi", "fp"] {
        let outcome = run(java(folder.path(), &["-Xint"], "1"), unwinder)?;
        let samples = samples(&outcome)?;
        let what = format!("java -Xint, {unwinder}");
        let whole = assert_honest(&samples, &[], &what);
        assert!(whole >= WHOLE_OR_MARKED, "{what}: {whole}");
        assert_few_names(&samples, &what);
        // From the interpreter's frames to the machine that called them.
        let interpreted = samples.share_where(|sample| {
            let inside = |name: &&str| name.starts_with("[code at");
            sample.names().iter().filter(|name| inside(name)).count() >= 4
        });
        assert!(interpreted > 0.5, "{what}: {interpreted}");
    }
    Ok(())
}

#[test]
fn java_compiled_is_whole_or_marked_with_all_collectors() -> TestResult {
    skip_if_missing!(missing_tool("javac"));
    let folder = Scratch::new("java")?;
    java_program(folder.path())?;
    for collector in ["Serial", "Parallel", "G1", "Shenandoah", "Z"] {
        let collector = format!("-XX:+Use{collector}GC");
        let options = ["-XX:+UnlockExperimentalVMOptions", collector.as_str()];
        for unwinder in ["cfi", "fp"] {
            let outcome = run(java(folder.path(), &options, "0.7"), unwinder)?;
            let what = format!("java {collector}, {unwinder}");
            assert_honest(&samples(&outcome)?, &[], &what);
        }
    }
    Ok(())
}

#[test]
fn names_that_java_writes_at_its_end_are_read() -> TestResult {
    skip_if_missing!(missing_tool("javac"));
    let folder = Scratch::new("java")?;
    java_program(folder.path())?;
    let options = [
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
        "-XX:+UseSerialGC",
    ];
    let outcome = run(java(folder.path(), &options, "1.5"), "cfi")?;
    let samples = samples(&outcome)?;
    for summary in &outcome.summaries {
        std::fs::remove_file(format!("/tmp/perf-{}.map", summary.pid)).ok();
    }
    let named = samples.share_where(|sample| {
        let names = sample.names();
        names
            .iter()
            .any(|name| name.contains("Busy") || name.contains("java.util"))
    });
    assert!(
        named > 0.2,
        "{named}: {:?}",
        samples.shares(|_| true)?.top(20)
    );
    Ok(())
}

#[test]
fn go_is_whole_to_where_goroutines_begin() -> TestResult {
    skip_if_missing!(missing_tool("go"));
    let folder = Scratch::new("go")?;
    let program = folder.path().join("busy");
    // With C in it: programs of Go alone are linked statically and are not sampled.
    let status = Command::new("go")
        .current_dir(language_source("go"))
        .env("CGO_ENABLED", "1")
        .args(["build", "-buildvcs=false", "-o"])
        .args([program.as_os_str(), ".".as_ref()])
        .status()?;
    assert!(status.success(), "go build: {status}");
    for unwinder in ["cfi", "fp"] {
        let outcome = run(Invocation::new(&program).arg("1"), unwinder)?;
        let samples = samples(&outcome)?;
        let roots = [
            "runtime.goexit",
            "runtime.rt0_go",
            "_rt0_amd64_linux",
            "runtime.mstart",
        ];
        let what = format!("Go, {unwinder}");
        let whole = assert_honest(&samples, &roots, &what);
        assert!(whole > 0.6, "{what}: {whole}");
        let names = samples
            .share_where(|sample| sample.calls("runtime.goexit") && sample.calls("main.worker"));
        assert!(
            names > 0.5,
            "{what}: {:?}",
            samples.shares(|_| true)?.top(20)
        );
        // Points in Go's names are no suffixes of a compiler.
        let clones = samples.share_where(|sample| {
            let is_cut = |name: &&str| name.starts_with("main [") || name.starts_with("runtime [");
            sample.names().iter().any(is_cut)
        });
        assert_eq!(clones, 0.0, "{what}");
    }
    Ok(())
}

#[test]
fn node_with_webassembly_is_whole() -> TestResult {
    skip_if_missing!(missing_tool("node"));
    for unwinder in ["cfi", "fp"] {
        let program = Invocation::new("node")
            .arg(language_source("busy.js"))
            .arg("1");
        let samples = samples(&run(program, unwinder)?)?;
        let what = format!("Node, {unwinder}");
        let whole = assert_honest(&samples, &[], &what);
        assert!(whole > 0.6, "{what}: {whole}");
        assert_few_names(&samples, &what);
    }
    Ok(())
}

#[test]
fn lisp_is_whole_or_marked() -> TestResult {
    skip_if_missing!(missing_tool("sbcl"));
    for unwinder in ["cfi", "fp"] {
        let program = Invocation::new("sbcl")
            .arg("--script")
            .arg(language_source("busy.lisp"))
            .arg("1");
        let samples = samples(&run(program, unwinder)?)?;
        let what = format!("SBCL, {unwinder}");
        assert_honest(&samples, &[], &what);
        assert_few_names(&samples, &what);
        let rooted = samples.share_where(|sample| sample.calls("_start"));
        assert!(rooted > WHOLE_OR_MARKED, "{what}: {rooted}");
    }
    Ok(())
}

#[test]
fn erlang_is_whole_or_marked() -> TestResult {
    skip_if_missing!(missing_tool("erlc"));
    let folder = Scratch::new("erlang")?;
    let status = Command::new("erlc")
        .arg("-o")
        .args([folder.path(), &language_source("busy.erl")])
        .status()?;
    assert!(status.success(), "erlc: {status}");
    for unwinder in ["cfi", "fp"] {
        let program = Invocation::new("erl")
            .args(["-noshell", "-pa"])
            .arg(folder.path())
            .args(["-run", "busy", "main", "1"]);
        let samples = samples(&run(program, unwinder)?)?;
        let what = format!("Erlang, {unwinder}");
        assert_honest(&samples, &[], &what);
        assert_few_names(&samples, &what);
    }
    Ok(())
}
