//! Answers of `rsys-report` that are kept: they are those of the traces, byte by byte, and what is wrong with a kept one is no harm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Run, Scratch, TestResult, report, skip_if_missing};

const STACK: Stack = Stack::Debian12;

/// Asks with a user's cache folder of its own.
fn ask(words: &[&str], input: &Path, home: &Path) -> Result<Output> {
    let mut command = Command::new(report()?);
    let (question, options) = words.split_first().context("a question")?;
    command.arg(question).arg(input).args(options);
    let output = command.env("XDG_CACHE_HOME", home).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!said.contains("panicked"), "{said}");
    Ok(output)
}

/// All questions with default options.
const QUESTIONS: [&str; 12] = [
    "summary",
    "advice",
    "timeline",
    "gaps",
    "kernels",
    "copies",
    "calls",
    "functions",
    "locks",
    "memory",
    "sensors",
    "launch",
];

/// Where the files of the cache are.
fn kept(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

/// A folder with a trace of some hundred kilobytes, which is no longer read when it is answered about from the cache.
fn folder_with_trace(scratch: &Scratch) -> Result<PathBuf> {
    let machine = Machine::new(STACK)?.gpus(2);
    let program = hip_program(STACK, "hip_ops")?.args(["work", "2000", "20"]);
    let options = ["-I", "rocm", "--compress=false", "--freq", "1000"];
    let outcome = Run::new()
        .options(options)
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_ops")?;
    let folder = scratch.path().join("run");
    fs::create_dir_all(&folder)?;
    fs::copy(trace.path(), folder.join("one.proto"))?;
    Ok(folder)
}

/// Damages the middle of a file, where nothing looks that only wants to know whether it is the same.
fn damage_unseen(path: &Path) -> Result<()> {
    let about = fs::metadata(path)?;
    let mut bytes = fs::read(path)?;
    ensure!(bytes.len() > 400_000, "only {} bytes", bytes.len());
    let middle = bytes.len() / 2;
    bytes[middle - 50_000..middle + 50_000].fill(0xff);
    fs::write(path, bytes)?;
    fs::File::options()
        .write(true)
        .open(path)?
        .set_modified(about.modified()?)?;
    Ok(())
}

#[test]
fn answers_from_the_cache_are_the_same() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("cache")?;
    let folder = folder_with_trace(&scratch)?;
    let home = scratch.path().join("home");
    let hidden = folder.join(".rsys-cache");
    let forms: [&[&str]; 3] = [&[], &["--json"], &["--csv"]];
    let all = |choice: &str| -> Result<Vec<Output>> {
        let asked = forms.iter().flat_map(|form| {
            let words = |question| [&[question, choice], *form].concat();
            QUESTIONS.iter().map(move |question| words(*question))
        });
        asked.map(|words| ask(&words, &folder, &home)).collect()
    };
    let expected = all("--no-cache")?;
    ensure!(!hidden.exists() && !home.exists(), "something was kept");
    ensure!(expected[0].status.success(), "{:?}", expected[0]);
    // Advice asks everything: what follows is answered from what it keeps, whatever is in the trace meanwhile.
    ask(&["advice", "--cache"], &folder, &home)?;
    let first = ask(&["summary", "--cache"], &folder, &home)?;
    ensure!(first == expected[0], "{first:?}");
    ensure!(kept(&hidden)?.len() == 1, "{:?}", kept(&hidden)?);
    let by = ["kernels", "--by", "stream"];
    let by_stream = ask(&[&by[..], &["--no-cache"]].concat(), &folder, &home)?;
    let found = ask(&[&by[..], &["--cache"]].concat(), &folder, &home)?;
    ensure!(found == by_stream, "an option that changes the answer");
    let labelled = ["timeline", "--label", "another"];
    let expected_label = ask(&[&labelled[..], &["--no-cache"]].concat(), &folder, &home)?;
    let found = ask(&[&labelled[..], &["--cache"]].concat(), &folder, &home)?;
    ensure!(found == expected_label, "another name of the run");
    damage_unseen(&folder.join("one.proto"))?;
    for (place, (found, expected)) in all("--cache")?.iter().zip(&expected).enumerate() {
        ensure!(found == expected, "{place}: {found:?}\n{expected:?}");
    }
    // No command takes it for a trace.
    let merged = scratch.path().join("merged.pftrace").display().to_string();
    for words in [&["check"][..], &["merge", "-o", &merged], &["recover"]] {
        let said = ask_plainly(words, &folder)?;
        ensure!(!said.contains(".rsys-cache"), "{words:?}: {said}");
    }
    Ok(())
}

/// All that a command without a cache says.
fn ask_plainly(words: &[&str], input: &Path) -> Result<String> {
    let output = ask(words, input, input)?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_cache_that_is_wrong_is_none() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("cache-wrong")?;
    let folder = folder_with_trace(&scratch)?;
    let home = scratch.path().join("home");
    let hidden = folder.join(".rsys-cache");
    let trace = folder.join("one.proto");
    let timeline = |choice: &str| ask(&["timeline", choice], &folder, &home);
    let expected = timeline("--no-cache")?;
    ensure!(timeline("--cache")? == expected, "the first time");
    let [name] = &kept(&hidden)?[..] else {
        anyhow::bail!("{:?}", kept(&hidden)?);
    };
    let whole = fs::read(name)?;
    for damage in [0, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 0x20;
        fs::write(name, &bytes)?;
        ensure!(timeline("--cache")? == expected, "byte {damage}");
        fs::write(name, &whole[..damage])?;
        ensure!(timeline("--cache")? == expected, "{damage} bytes");
        // It was written again each time.
        ensure!(fs::read(name)? == whole, "{damage}");
    }
    // Another trace under the same name.
    let bytes = fs::read(&trace)?;
    fs::write(&trace, &bytes[..bytes.len() * 3 / 4])?;
    let shorter = timeline("--no-cache")?;
    ensure!(shorter != expected, "it is shorter");
    ensure!(timeline("--cache")? == shorter, "a trace that was cut");
    // Where the folder takes no files, the user's cache does.
    fs::remove_dir_all(&hidden)?;
    fs::write(&hidden, "in the way")?;
    ensure!(timeline("--cache")? == shorter, "no folder");
    let of_user = home.join("rsys/answers");
    ensure!(kept(&of_user)?.len() == 1, "{:?}", kept(&of_user)?);
    damage_unseen(&trace)?;
    ensure!(timeline("--cache")? == shorter, "from the user's cache");
    // And where nothing does, nothing is kept.
    fs::remove_dir_all(&home)?;
    fs::write(&home, "in the way")?;
    ensure!(timeline("--cache")? == timeline("--no-cache")?, "nowhere");
    Ok(())
}

#[test]
fn many_may_ask_at_once() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("cache-many")?;
    let folder = folder_with_trace(&scratch)?;
    let expected = ask(&["gaps", "--no-cache"], &folder, scratch.path())?;
    let start = || -> Result<_> {
        let mut command = Command::new(report()?);
        command.arg("gaps").arg(&folder).arg("--cache");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command.spawn()?)
    };
    let askers: Vec<_> = (0..8).map(|_| start()).collect::<Result<_>>()?;
    for asker in askers {
        let found = asker.wait_with_output()?;
        ensure!(found == expected, "{found:?}");
    }
    ensure!(kept(&folder.join(".rsys-cache"))?.len() == 1, "one file");
    Ok(())
}

/// A file of PyTorch's profiler with one kernel, and blanks behind it.
fn padded(bytes: usize) -> String {
    let event = r#"{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": {"device": 0, "stream": 7}}"#;
    format!(r#"{{"traceEvents": [{event}]{}}}"#, " ".repeat(bytes))
}

#[test]
fn only_answers_about_large_traces_are_kept_unasked() -> TestResult {
    let scratch = Scratch::new("cache-large")?;
    let hidden = scratch.path().join(".rsys-cache");
    let small = scratch.path().join("small.trace.json");
    fs::write(&small, padded(1_000_000))?;
    let answer = ask(&["timeline"], &small, scratch.path())?;
    ensure!(answer.status.success() && !hidden.exists(), "{answer:?}");
    let large = scratch.path().join("large.trace.json");
    fs::write(&large, padded(17_000_000))?;
    let expected = ask(&["timeline", "--no-cache"], &large, scratch.path())?;
    ensure!(!hidden.exists(), "it was not to be kept");
    let first = ask(&["timeline"], &large, scratch.path())?;
    ensure!(first == expected && kept(&hidden)?.len() == 1, "{first:?}");
    ensure!(ask(&["timeline"], &large, scratch.path())? == expected);
    // A page has the answers to all questions.
    let page = |name: &str| -> Result<Vec<u8>> {
        let path = scratch.path().join(name);
        let words = ["html", "-o", &path.display().to_string()];
        let made = ask(&words, &large, scratch.path())?;
        ensure!(made.status.success(), "{made:?}");
        Ok(fs::read(path)?)
    };
    ensure!(page("one.html")? == page("other.html")?, "two pages");
    Ok(())
}
