//! The closing table and the page, on programs of many kinds: what they say is what `rsys-report --json` says.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, library_program};
use rsys_tests::{
    Interpreter, Invocation, Outcome, Run, Scratch, TestResult, answer, judged_page,
    missing_browser, missing_python_module, missing_tool, python, script, skip_if_missing,
    workload,
};
use serde_json::Value;

/// A row of the table about processes.
#[derive(Debug)]
struct Row {
    cpu_ns: Shown,
    samples: f64,
    /// The process id; none in the row for all others.
    pid: Option<u64>,
}

/// A number in the digits that are shown of it.
#[derive(Debug, Clone, Copy)]
struct Shown {
    value: f64,
    /// Half of its last digit.
    error: f64,
}

impl Shown {
    fn fits(self, value: f64) -> bool {
        // A hair more, for what is exactly in the middle.
        (self.value - value).abs() <= 1.001 * self.error
    }
}

/// `0.4 ms`, `35 ms`, `2.1 s`, in nanoseconds.
fn time(text: &str) -> Result<Shown> {
    let (digits, unit) = text.split_once(' ').with_context(|| text.to_owned())?;
    let unit_ns = match unit {
        "ms" => 1e6,
        "s" => 1e9,
        other => anyhow::bail!("{other} in {text}"),
    };
    let last = if digits.contains('.') { 0.1 } else { 1.0 };
    Ok(Shown {
        value: digits.parse::<f64>()? * unit_ns,
        error: last / 2.0 * unit_ns,
    })
}

/// The lines of the table, and nothing in front of it.
fn table(outcome: &Outcome) -> Result<Vec<String>> {
    let lines = outcome.stderr.lines();
    let lines: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("rsys: "))
        .collect();
    let is_first = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words.as_slice(), [_, "trace" | "traces", "in", ..])
    };
    let first = lines.iter().position(|line| is_first(line));
    let first = first.with_context(|| format!("no table: {}", outcome.stderr))?;
    Ok(lines[first..]
        .iter()
        .map(|line| (*line).to_owned())
        .collect())
}

/// What the table says of processes.
fn rows(lines: &[String]) -> Result<Vec<Row>> {
    let heading = lines.get(1).context("no heading")?;
    ensure!(heading.ends_with("samples  process"), "{heading}");
    // Columns are nine wide; with GPUs there are two more between.
    let columns = heading.find("  process").context("no names")? / 9;
    let is_row = |line: &&String| {
        line.starts_with("  ") && line.len() > 9 * columns && time(line[..9].trim()).is_ok()
    };
    // Those have no file of their own.
    let is_short =
        |line: &str| line.ends_with("too short)") || line.ends_with("one trace for all)");
    let has_trace = |line: &&String| !is_short(line);
    let rows = lines[2..].iter().take_while(is_row).filter(has_trace);
    let rows = rows.map(|line| {
        let name = line[9 * columns..].trim();
        let words: Vec<&str> = name.split(' ').collect();
        let pid = match words.as_slice() {
            ["rank", _, pid, ..] | [pid, _, ..] => pid,
            _ => anyhow::bail!("{line}"),
        };
        Ok(Row {
            cpu_ns: time(line[..9].trim())?,
            samples: line[9 * (columns - 1)..9 * columns].trim().parse()?,
            pid: if words.last() == Some(&"more") {
                None
            } else {
                Some(pid.parse()?)
            },
        })
    });
    rows.collect()
}

fn number(row: &Value, key: &str) -> Result<f64> {
    row[key]
        .as_f64()
        .with_context(|| format!("no {key} in {row}"))
}

/// A percentage in front of ` %`.
fn percent(text: &str) -> Result<f64> {
    let (before, _) = text.split_once(" %").with_context(|| text.to_owned())?;
    let word = before.split_whitespace().next_back().context("no number")?;
    word.parse().with_context(|| text.to_owned())
}

/// The lines about the names that took most time, behind `CPU` or `GPU`: share and name.
fn names(lines: &[String], title: &str) -> Result<Vec<(f64, String)>> {
    let start = format!(" {title} ");
    let first = lines
        .iter()
        .position(|line| line.starts_with(&start) && line.contains(" %  "));
    let Some(first) = first else {
        return Ok(Vec::new());
    };
    let more = lines[first + 1..]
        .iter()
        .take_while(|line| line.starts_with("     ") && line.contains(" %  "));
    let told = lines[first..=first].iter().chain(more).map(|line| {
        let (_, name) = line.split_once(" %  ").context("no name")?;
        Ok((percent(line)?, name.to_owned()))
    });
    told.collect()
}

/// Whether a name in the table, which may be cut, is this one.
fn is_name(shown: &str, name: &str) -> bool {
    shown
        .strip_suffix('…')
        .map_or(shown == name, |start| name.starts_with(start))
}

/// Holds the table against the answers about the same traces. The run had `--summary full`.
fn table_agrees(outcome: &Outcome) -> TestResult {
    let lines = table(outcome)?;
    ensure!(lines.len() <= 30, "{} lines: {lines:#?}", lines.len());
    let story = || format!("{lines:#?}");
    let files = outcome.files();
    let all: Vec<_> = files
        .iter()
        .cloned()
        .chain(outcome.short_processes())
        .collect();
    let count = lines[0].split(' ').next().context("no count")?;
    ensure!(
        count.parse::<usize>()? == all.len(),
        "{} files: {}",
        all.len(),
        story()
    );

    let functions = answer("functions", &files)?;
    let list = |answer: &Value, key: &str| answer[key].as_array().cloned().unwrap_or_default();
    let processes = list(&functions, "processes");
    let rows = rows(&lines)?;
    ensure!(!rows.is_empty(), "no row: {}", story());
    let mut sums = (0.0, 0.0);
    for row in &rows {
        sums.0 += row.samples;
        let Some(pid) = row.pid else { continue };
        // One process id may have had several programs.
        let of_pid: Vec<&Value> = processes
            .iter()
            .filter(|one| one["process"] == pid)
            .collect();
        let fits = |one: &&&Value| -> Result<bool> {
            Ok(row.cpu_ns.fits(number(one, "cpu_ns")?) && row.samples == number(one, "samples")?)
        };
        let mut found = row.samples == 0.0 && of_pid.is_empty();
        for one in &of_pid {
            found |= fits(&one)?;
        }
        ensure!(found, "{row:?} is none of {of_pid:#?}: {}", story());
    }
    for process in &processes {
        sums.1 += number(process, "samples")?;
    }
    ensure!(sums.0 == sums.1, "samples: {sums:?}: {}", story());
    ensure!(
        rows.windows(2)
            .all(|two| two[1].pid.is_none() || two[0].cpu_ns.value >= two[1].cpu_ns.value)
            || lines[1].contains("GPU"),
        "{}",
        story()
    );

    let of_functions = list(&answer("functions", &all)?, "functions");
    let told = names(&lines, "CPU")?;
    ensure!(!told.is_empty(), "no function: {}", story());
    for (share, name) in told {
        let named = of_functions.iter().filter(|row| {
            row["function"]
                .as_str()
                .is_some_and(|one| is_name(&name, one))
        });
        let shares: f64 = named
            .map(|row| number(row, "self_share"))
            .sum::<Result<f64>>()?;
        // Of each of many processes the table knows the first names alone: it may tell less, by a little.
        let lacking = if processes.len() > 1 { 0.3 } else { 0.0 };
        let exact = 100.0 * shares;
        ensure!(
            (exact - lacking - 0.051..=exact + 0.051).contains(&share),
            "{name}: {share}, but {shares}: {}",
            story()
        );
    }
    gpus_agree(&lines, outcome).with_context(story)?;
    ensure!(
        lines
            .iter()
            .any(|line| line.starts_with("next: rsys-report view ")),
        "{}",
        story()
    );
    Ok(())
}

/// Kernels and idleness of GPUs.
fn gpus_agree(lines: &[String], outcome: &Outcome) -> TestResult {
    let told = names(lines, "GPU")?;
    if told.is_empty() {
        return Ok(());
    }
    let kernels = answer("kernels", &outcome.files())?;
    for (share, name) in told {
        let (count, name) = name.split_once(" x ").context("no count")?;
        let of_name = kernels["kernels"].as_array().context("kernels")?.iter();
        let row = of_name
            .clone()
            .find(|row| row["name"].as_str().is_some_and(|one| is_name(name, one)));
        let row = row.with_context(|| format!("no kernel {name}"))?;
        ensure!(
            number(row, "count")? == count.parse::<f64>()?,
            "{count} of {row}"
        );
        ensure!(
            (share - 100.0 * number(row, "share")?).abs() <= 0.051,
            "{share} of {row}"
        );
    }
    let timeline = answer("timeline", &outcome.files())?;
    let devices = timeline["runs"][0]["devices"]
        .as_array()
        .context("devices")?;
    for line in lines
        .iter()
        .filter(|line| line.contains(" idle ") && line.contains("not yet launched"))
    {
        let idle = percent(line)?;
        let mut fits = false;
        for device in devices {
            let start = format!("GPU {} ", device["device"]);
            let share = 100.0 * number(device, "idle_ns")? / number(device, "total_ns")?;
            fits |= line.starts_with(&start) && (idle - share).abs() <= 0.501;
        }
        ensure!(fits, "{line}: {devices:#?}");
    }
    Ok(())
}

/// Table and page of a run.
fn both_agree(outcome: &Outcome, name: &str) -> TestResult {
    table_agrees(outcome)?;
    if let Some(why) = missing_browser() {
        println!("skipped: the page: {why}");
        return Ok(());
    }
    judged_page(&outcome.files(), &format!("shown-{name}")).with_context(|| outcome.story())?;
    Ok(())
}

/// A run with a closing table, which tests otherwise go without.
fn run(command: impl Into<Invocation>) -> Run {
    Run::new()
        .freq(500)
        .options(["--summary", "full"])
        .command(command)
}

#[test]
fn training_with_pytorch() -> TestResult {
    skip_if_missing!(missing_python_module("torch"));
    let outcome = run(python("train_torch.py").arg("6")).run()?;
    outcome.expect_success();
    both_agree(&outcome, "torch")
}

#[test]
fn collectives_on_four_gpus() -> TestResult {
    const STACK: Stack = Stack::Debian13;
    skip_if_missing!(STACK.missing());
    let program = library_program(STACK, "rccl_check", &["rccl", "amdhip64"])?.path();
    let machine = Machine::new(STACK)?.gpus(4);
    let outcome = run(machine.run(script(&program.display().to_string())))
        .options(["-I", "rocm"])
        .run()?;
    outcome.expect_success();
    let gpus = table(&outcome)?;
    ensure!(
        gpus.iter()
            .filter(|line| line.contains("not yet launched"))
            .count()
            == 4,
        "{gpus:#?}"
    );
    both_agree(&outcome, "rccl")
}

#[test]
fn openmp_in_cpp() -> TestResult {
    skip_if_missing!(missing_tool("g++"));
    let program = workload("omp_sum")
        .flags(["-O2", "-g", "-fopenmp"])
        .args(["1.5"]);
    let outcome = run(program).run()?;
    outcome.expect_success();
    both_agree(&outcome, "openmp")
}

/// Twelve sources that take a compiler some time.
fn sources(folder: &Path) -> Result<()> {
    let mut objects = Vec::new();
    for number in 0..12 {
        let functions: String = (0..300)
            .map(|at| format!("long f{number}_{at}(long x) {{ for (int i = 0; i < 9; i++) x = x * {at} + i; return x; }}\n"))
            .collect();
        fs::write(folder.join(format!("part{number}.c")), functions)?;
        objects.push(format!("part{number}.o"));
    }
    let rule = format!(
        "all: {0}\n%.o: %.c\n\tcc -O2 -c $< -o $@\n",
        objects.join(" ")
    );
    fs::write(folder.join("Makefile"), rule)?;
    Ok(())
}

#[test]
fn a_build_in_parallel() -> TestResult {
    skip_if_missing!(missing_tool("make"), missing_tool("cc"));
    let folder = Scratch::new("make")?;
    sources(folder.path())?;
    let outcome = run(script("make -s -j4")).folder(folder.path()).run()?;
    outcome.expect_success();
    ensure!(outcome.files().len() > 12, "{}", outcome.story());
    let lines = table(&outcome)?;
    ensure!(
        lines.iter().any(|line| line.ends_with(" more")),
        "{lines:#?}"
    );
    both_agree(&outcome, "make")
}

#[test]
fn python_behind_shims() -> TestResult {
    let shim = std::env::var_os("PYENV_ROOT").map(|root| Path::new(&root).join("shims/python3"));
    let Some(shim) = shim.and_then(Interpreter::at) else {
        skip_if_missing!(Some("pyenv with shims".to_owned()));
        return Ok(());
    };
    let outcome = run(shim.workload("waits.py"))
        .options(["--realtime"])
        .run()?;
    outcome.expect_success();
    both_agree(&outcome, "shims")
}

#[test]
fn a_program_that_crashes() -> TestResult {
    let outcome = run(workload("ends").args(["threads-segv"])).run()?;
    outcome.expect_signal(libc::SIGSEGV);
    both_agree(&outcome, "crash")
}

#[test]
fn a_program_that_is_interrupted() -> TestResult {
    let running = run(workload("ends").args(["wait"])).start()?;
    running.wait_for("ready ")?;
    running.signal(libc::SIGINT);
    let outcome = running.wait()?;
    outcome.expect_signal(libc::SIGINT);
    both_agree(&outcome, "interrupted")
}
