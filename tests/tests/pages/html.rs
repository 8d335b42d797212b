//! `rsys-report html`: one page that asks nobody for anything, shows the numbers of the answers, and does what mouse and keys ask for.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rsys_synthetic::{Cause, Fault, Job};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{
    Outcome, Run, Scratch, TestResult, judged_page, missing_browser, python, report,
    skip_if_missing, workload, workspace_dir,
};
use serde_json::{Value, json};

const STACK: Stack = Stack::Debian13;

fn html(inputs: &[PathBuf], options: &[&str]) -> Result<Output> {
    Ok(Command::new(report()?)
        .arg("html")
        .args(inputs)
        .args(options)
        .output()?)
}

/// Makes the page of a run, has it judged in a browser, and returns what was on it.
fn judged(outcome: &Outcome, name: &str) -> Result<Value> {
    let seen = judged_page(&outcome.files(), name).with_context(|| outcome.story())?;
    let compared = seen["compared"].as_u64().context("compared")?;
    ensure!(compared >= 50, "{seen}");
    Ok(seen)
}

fn has(seen: &Value, what: &str, wanted: &[&str]) -> TestResult {
    let found = seen[what].as_array().context("a list")?;
    for one in wanted {
        ensure!(found.iter().any(|found| found == one), "no {one}: {seen}");
    }
    Ok(())
}

/// The files that stand for a plot of the page begin so.
const FILES: [(&str, &str); 7] = [
    ("busy", "gpus-over-time"),
    ("processors", "processors"),
    ("timeline", "gpu-time"),
    ("gaps", "gpu-idleness"),
    ("flame", "flame-"),
    ("durations", "kernel-durations"),
    ("memory", "memory"),
];

/// Writes the pictures of a run and looks at each: there is one for each plot of the page, and a PNG reader that is not ours finds in it what
/// belongs there. Tells of each how many colours it has.
fn pictures(files: &[PathBuf], page: &Value) -> Result<BTreeMap<String, u64>> {
    let scratch = Scratch::new("png")?;
    let folder = scratch.path().join("made for it");
    let page_file = scratch.path().join("report.html");
    let options = [&page_file, &folder].map(|path| path.display().to_string());
    let made = html(files, &["-o", &options[0], "--png", &options[1]])?;
    ensure!(made.status.success() && made.stderr.is_empty(), "{made:?}");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&folder)? {
        let file = entry?.path();
        let read = Command::new("python3")
            .arg(workspace_dir().join("tests/judge/png.py"))
            .arg(&file)
            .output()?;
        ensure!(read.status.success(), "{}: {read:?}", file.display());
        let about: Value = serde_json::from_slice(&read.stdout)?;
        let number = |key: &str| about[key].as_u64().with_context(|| format!("{about}"));
        ensure!(
            number("width")? == 1800 && number("height")? >= 100,
            "{about}"
        );
        // Light, with something on it: text has many shades between its colour and that of the ground.
        ensure!(
            about["corner"] == "ffffff" && number("colours")? >= 20,
            "{about}"
        );
        ensure!(
            (5..95).contains(&number("percent_drawn")?),
            "{}: {about}",
            file.display()
        );
        ensure!(fs::metadata(&file)?.len() < 1_000_000, "{}", file.display());
        let name = file.file_name().context("a name")?.to_string_lossy();
        found.insert(name.into_owned(), number("colours")?);
    }
    let said = String::from_utf8_lossy(&made.stdout);
    ensure!(
        said.contains(&format!("{} pictures", found.len())),
        "{said}"
    );
    for plot in page["plots"].as_array().context("plots")? {
        let wanted = FILES.iter().find(|(name, _)| plot == name);
        // Curves are sensors or counters.
        let starts = wanted.map_or(vec!["sensors", "counters"], |(_, start)| vec![*start]);
        let is_there = found
            .keys()
            .any(|name| starts.iter().any(|start| name.starts_with(start)));
        ensure!(is_there, "no picture of {plot}: {found:?}");
    }
    Ok(found)
}

#[test]
fn a_program_on_processors() -> TestResult {
    skip_if_missing!(missing_browser());
    let outcome = Run::new()
        .freq(500)
        .command(workload("imagery").args(["120"]))
        .run()?;
    outcome.expect_success();
    let seen = judged(&outcome, "html-cpu")?;
    has(&seen, "tables", &["functions", "threads", "processes"])?;
    has(&seen, "plots", &["processors", "flame"])?;
    ensure!(seen["flames"].get("CPU time").is_some(), "{seen}");
    let pictures = pictures(&outcome.files(), &seen)?;
    ensure!(pictures.contains_key("flame-cpu.png"), "{pictures:?}");
    Ok(())
}

/// A file of PyTorch's profiler with products of matrices and additions on an MI300X.
fn products_and_additions() -> Value {
    let mut events = Vec::new();
    let event = |category: &str, name: &str, place: [u64; 2], times: [u64; 2], arguments: Value| json!({ "ph": "X", "cat": category, "name": name, "pid": place[0], "tid": place[1], "ts": times[0], "dur": times[1], "args": arguments });
    for number in 1..=20_u64 {
        let start_us = number * 3_000;
        let size = 1024 * (1 + number % 4);
        let (name, dimensions, r#type) = match number % 2 {
            0 => (
                "aten::mm",
                json!([[size, size], [size, size]]),
                "c10::BFloat16",
            ),
            _ => ("aten::add", json!([[size, size], [size, size]]), "float"),
        };
        let shapes = json!({ "Input Dims": dimensions, "Input type": [r#type, r#type], "Concrete Inputs": ["", ""], "External id": number });
        let link =
            json!({ "correlation": number, "External id": number, "device": 0, "stream": 7 });
        events.push(event("cpu_op", name, [1, 1], [start_us, 10], shapes));
        events.push(event(
            "cuda_runtime",
            "hipLaunchKernel",
            [1, 1],
            [start_us + 2, 4],
            link.clone(),
        ));
        events.push(event(
            "kernel",
            "Cijk",
            [0, 7],
            [start_us + 12, 20 + number],
            link,
        ));
    }
    json!({ "schemaVersion": 1, "deviceProperties": [{ "id": 0, "name": "AMD Instinct MI300X" }], "traceEvents": events })
}

#[test]
fn operators_stand_under_the_roof_of_their_gpu() -> TestResult {
    skip_if_missing!(missing_browser());
    let scratch = Scratch::new("roofline")?;
    let file = scratch.path().join("trace.json");
    fs::write(&file, serde_json::to_vec(&products_and_additions())?)?;
    let seen = judged_page(&[file], "html-roofline")?;
    has(&seen, "plots", &["roofline"])?;
    // That of matrices of BF16, and that of vectors of FP32.
    ensure!(seen["roofs"] == 2, "{seen}");
    Ok(())
}

#[test]
fn python_that_waits() -> TestResult {
    skip_if_missing!(missing_browser());
    let outcome = Run::new()
        .freq(500)
        .options(["--realtime"])
        .command(python("waits.py"))
        .run()?;
    outcome.expect_success();
    let seen = judged(&outcome, "html-python")?;
    has(&seen, "tables", &["functions", "waits"])?;
    ensure!(seen["flames"].get("Waiting").is_some(), "{seen}");
    Ok(())
}

#[test]
fn a_program_on_gpus() -> TestResult {
    let missing_stack = [STACK, Stack::Debian12]
        .into_iter()
        .find_map(Stack::missing);
    skip_if_missing!(missing_browser().or(missing_stack));
    let machine = Machine::new(STACK)?.gpus(2).config(
        "
[[kernel]]
name = 'spin'
microseconds = 300
[[kernel]]
name = 'touch'
microseconds = 20
",
    )?;
    let program = hip_program(STACK, "hip_ops")?.args(["work", "200", "20"]);
    let outcome = Run::new()
        .options(["-I", "rocm", "-f", "500"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let seen = judged(&outcome, "html-gpu")?;
    has(&seen, "tables", &["devices", "kernels", "copies", "calls"])?;
    has(
        &seen,
        "plots",
        &["busy", "timeline", "gaps", "durations", "flame"],
    )?;
    ensure!(seen["flames"].get("GPU time").is_some(), "{seen}");
    let pictures = pictures(&outcome.files(), &seen)?;
    ensure!(pictures.contains_key("flame-gpu.png"), "{pictures:?}");
    Ok(())
}

/// The last percentage of a line.
fn percent(line: &str) -> Option<f64> {
    line.strip_suffix(" %")?.rsplit(' ').next()?.parse().ok()
}

/// What the map of a healthy job's GPUs tells: ranks begin one after the other, and from then on most GPUs work most of the time.
fn idleness_is_told(seen: &Value) -> TestResult {
    let told = seen["idlest"].as_array().context("idleness")?;
    let told: Vec<&str> = told.iter().filter_map(Value::as_str).collect();
    ensure!(told.len() > 100, "{told:?}");
    let mut medians = Vec::new();
    for line in &told {
        let (idlest, median) = line.split_once(", the median ").context("a median")?;
        let idlest = percent(idlest).with_context(|| (*line).to_owned())?;
        let median = percent(median).with_context(|| (*line).to_owned())?;
        ensure!(line.starts_with("at ") && idlest >= median, "{line}");
        medians.push(median);
    }
    ensure!(told[0].contains(" idle 100.0 %"), "{}", told[0]);
    let working = &medians[medians.len() / 2..];
    let mean = working.iter().sum::<f64>() / working.len() as f64;
    ensure!(mean < 40.0, "{mean} {told:?}");
    Ok(())
}

#[test]
fn a_job_of_ranks() -> TestResult {
    skip_if_missing!(missing_browser());
    let scratch = Scratch::new("job-page")?;
    let fault = Fault {
        rank: 3,
        cause: Cause::LongKernel,
        amount_ns: 4_000_000,
        every: 2,
    };
    let job = Job {
        ranks: 70,
        iterations: 10,
        faults: vec![fault],
        ..Job::default()
    };
    rsys_synthetic::write(&job, scratch.path())?;
    let seen = judged_page(&[scratch.path().to_path_buf()], "html-job")?;
    has(&seen, "plots", &["idle_map", "iterations", "collectives"])?;
    idleness_is_told(&seen)?;
    has(
        &seen,
        "tables",
        &["overlap_ranks", "stragglers", "communicators"],
    )?;
    // More ranks than rows: two are one. The place of the delay stands out.
    for (plot, place) in [
        ("iterations", "2 ranks from 2"),
        ("collectives", "2 ranks from 2"),
    ] {
        let told = seen["maps"][plot].as_array().context("what a map tells")?;
        let told: Vec<&str> = told.iter().filter_map(Value::as_str).collect();
        ensure!(
            told.iter().any(|line| line.contains(place)),
            "{plot}: {told:?}"
        );
    }
    Ok(())
}

#[test]
fn what_cannot_be_written_is_said_in_a_line() -> TestResult {
    let outcome = Run::new()
        .freq(500)
        .command(workload("rate").args(["--seconds", "0.1"]))
        .run()?;
    let files = outcome.files();
    let scratch = Scratch::new("html")?;
    let page = scratch.path().join("report.html");
    let to = page.display().to_string();
    let refused = |inputs: &[PathBuf], options: &[&str], why: &str| -> TestResult {
        let output = html(inputs, options)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(1) && output.stdout.is_empty(),
            "{said}"
        );
        ensure!(said.lines().count() == 1 && said.contains(why), "{said}");
        Ok(())
    };
    let empty = [scratch.path().to_owned()];
    refused(&empty, &["-o", &to], "no traces")?;
    refused(&[scratch.path().join("none")], &["-o", &to], "cannot read")?;
    let noise = scratch.path().join("noise.proto");
    fs::write(&noise, "no trace")?;
    refused(&[noise], &["-o", &to], "neither a Perfetto trace")?;
    refused(
        &files,
        &["-o", &scratch.path().display().to_string()],
        "is a folder",
    )?;
    refused(&files, &["-o", "/dev/null/report.html"], "cannot write")?;
    ensure!(!page.exists(), "a page of nothing");

    ensure!(html(&files, &["-o", &to])?.status.success());
    let first = fs::read(&page)?;
    refused(&files, &["-o", &to], "replace it with --force")?;
    let input = files.first().context("no trace")?.display().to_string();
    let trace = fs::read(&input)?;
    refused(&files, &["-f", "-o", &input], "is one of the traces")?;
    ensure!(fs::read(&input)? == trace, "the trace is gone");
    let labelled = html(&files, &["--force", "--label", "another name", "-o", &to])?;
    ensure!(labelled.status.success(), "{labelled:?}");
    let second = fs::read_to_string(&page)?;
    ensure!(second.as_bytes() != first && second.contains("<title>another name"));

    // Pictures that are there are kept as well, and then no page is written.
    refused(&files, &["-f", "-o", &to, "--png", &to], "is not a folder")?;
    let folder = scratch.path().join("pictures");
    let png = ["--png".to_owned(), folder.display().to_string()];
    let [png, folder_name] = png.each_ref().map(String::as_str);
    let made = html(&files, &["--force", "-o", &to, png, folder_name])?;
    ensure!(made.status.success(), "{made:?}");
    let other = scratch.path().join("other.html");
    let other_name = other.display().to_string();
    refused(
        &files,
        &["-o", &other_name, png, folder_name],
        "png is already there",
    )?;
    ensure!(!other.exists(), "a page without its pictures");
    Ok(())
}
